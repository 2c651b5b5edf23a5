//! What an operator decides about a port: its law with its parameters, and how flows start.

mod faults;
mod law;
mod parameters;
mod start;
mod start_faults;

pub use faults::Faults;
pub use law::{Law, Profile};
pub use parameters::{Echo, GuestEcn, Parameters, TARGET_MIN};
pub use start::{StartLaw, Watch};
