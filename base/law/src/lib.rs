//! What an operator decides about a port: its law with its parameters, how
//! flows start, and whose window they share.

mod coupling;
mod faults;
mod law;
mod parameters;
mod plan;
mod start;
mod start_faults;

pub use coupling::{CouplingRules, GroupSize, PortCoupling, Shares, group_policy};
pub use faults::Faults;
pub use law::{Law, Profile};
pub use parameters::{Echo, GuestEcn, Parameters, TARGET_MIN, policy, whole_us};
pub use plan::{DEFAULT_FLOWS_MAX, PortPlan, RINGS_MAX};
pub use start::{Data, StartLaw, StartSettings, Watch, watch_policy};
