//! The live arm: experiments between real Linux TCP stacks in network namespaces, through an
//! emulated network on the real clock.
//!
//! Everything is anonymous. No namespace, interface or program has a name outside, so that nothing
//! outlives the process, however it ends, and any number of runs can go on at once.
//!
//! Read in this order:
//! - [`run`]: one run of one case, the entry point ([`run_case`]).
//! - [`need`]: what the machine must offer.
//! - [`plan`], [`netns`], [`wiring`], [`stack`], [`congestion`], [`tap`]: guests, hosts and the
//!   server.
//! - [`wire`], [`relay`], [`emulation`], [`frame`], [`flow`], [`lateness`]: the network.
//! - [`traffic`], [`pattern`], [`tcp_info`]: what flows, and what is seen of it.
//! - [`ports`]: where programs come in.

pub mod clock;
pub mod congestion;
pub mod emulation;
pub mod error;
pub mod flow;
pub mod frame;
pub mod lab;
pub mod lateness;
pub mod need;
pub mod netns;
pub mod pattern;
pub mod plan;
pub mod ports;
mod receiver;
pub mod relay;
pub mod run;
mod sampler;
mod sender;
mod socket;
pub mod stack;
pub mod tap;
pub mod tcp_info;
pub mod traffic;
pub mod wire;
pub mod wiring;

pub use congestion::CongestionControls;
pub use error::{LabError, PortError};
pub use flow::FiveTuple;
pub use lab::Lab;
pub use plan::{Guest, Plan};
pub use ports::{NoPorts, Port, Ports, ShadowSample, Sharing};
pub use run::{Progress, Repetition, run_case};
