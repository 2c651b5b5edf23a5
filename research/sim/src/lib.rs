//! The simulator: the network of `uc-net` on a virtual clock, with TCP hosts and the core on ports.
//!
//! Time is an integer number of nanoseconds since the run's start. There is one loop over one total
//! order of events ([`hosts`]), no global and no wall clock, and one random stream for each
//! component, from the run's seed and the component's name: the same experiment, case and seed give
//! the same record, byte for byte.
//!
//! Read in this order:
//! 1. [`port`], [`tenant_port`], [`dupack`], [`hold`]: the C core on a guest's port; [`events`] of its
//!    law.
//! 2. [`packet`], [`route`], [`end`], `wire`, [`timers`], [`hosts`]: connections on the network under
//!    one clock; the [`instruments`] at a sender ([`packet_times`], [`exact`]).
//!    [`coupling`]: guests that share a window. [`start`]: starts of flows. [`hypervisor`]: guests
//!    that share a CPU core.
//! 3. [`scenario`], [`app`], [`world`]: the flows' traffic.
//! 4. [`stack`], [`placement`], [`membership`], [`consolidation`], [`epochs`], [`plan`]:
//!    from an experiment to a scenario; its network is laid out in `uc_experiment`.
//! 5. [`sampler`], [`unfinished`], [`run`]: from a run to its record; [`capture`], `frame`: and to
//!    the packets at its bottleneck.

pub mod app;
pub mod capture;
pub mod consolidation;
pub mod coupling;
pub mod dupack;
pub mod end;
pub mod epochs;
pub mod error;
pub mod events;
pub mod exact;
mod frame;
pub mod hold;
pub mod hosts;
pub mod hypervisor;
pub mod instruments;
pub mod membership;
pub mod packet;
pub mod packet_times;
pub mod placement;
pub mod plan;
pub mod port;
pub mod route;
pub mod run;
pub mod sampler;
pub mod scenario;
pub mod stack;
pub mod start;
pub mod tenant_port;
pub mod timers;
pub mod unfinished;
mod wire;
pub mod world;

pub use capture::{Capture, Captured};
pub use error::SimError;
pub use plan::Plan;
pub use port::Port;
pub use run::{Repetition, check, run_case, run_case_captured};
pub use scenario::{Application, Epochs, Exchange, FlowPlan, Scenario};
pub use world::World;
