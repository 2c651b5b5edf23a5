//! The live backend: experiments between real Linux TCP stacks in network namespaces, through an
//! emulated network on the real clock.
//!
//! Everything is anonymous. No namespace, interface or program has a name outside, so nothing
//! outlives the process, however it ends, and any number of runs can go on at once.
//!
//! Read in this order:
//! - [`run`]: one run of one case, the entry point ([`run_case`]).
//! - [`need`]: the preconditions on the host.
//! - [`plan`], [`part`], [`pages`], [`netns`], [`wiring`], [`stack`], [`congestion`], [`tap`]:
//!   guests, hosts and the server.
//! - [`wire`], [`wire_setup`], [`relay`], [`realtime`], [`emulation`], [`frame`], [`flow`],
//!   [`lateness`]: the network; `stalled`, [`turns`]: a receiver that stalls.
//! - [`traffic`], [`reception`], [`event`], [`pattern`], [`tcp_info`], [`tcp_counters`], `names`:
//!   the flows, and their measurement; [`incast`]: blocks on request; [`messages`], [`transfer_times`]:
//!   messages and transfers; [`arrivals`], [`transfers`], `opener`, `arriving`: transfers at random times; `web`, `nginx`: pages of a real web server.
//! - [`ports`]: the interface to port programs; [`platform`], [`load`]: the interface to platforms of
//!   guests; [`vm`]: guests that are virtual machines.

mod ack_gaps;
mod addresses;
pub mod arrivals;
mod arriving;
pub mod clock;
pub mod congestion;
pub mod drill;
pub mod emulation;
pub mod epochs;
pub mod error;
pub mod event;
pub mod flow;
pub mod frame;
mod guest;
pub mod incast;
pub mod lab;
pub mod lateness;
pub mod load;
pub mod messages;
mod names;
pub mod need;
pub mod netns;
mod nginx;
mod opener;
pub mod pages;
pub mod part;
pub mod pattern;
pub mod plan;
pub mod platform;
pub mod ports;
pub mod realtime;
mod receiver;
pub mod reception;
pub mod relay;
pub mod run;
pub mod sampler;
pub mod sender;
mod server;
pub mod socket;
pub mod stack;
mod stalled;
pub mod tap;
pub mod tcp_counters;
pub mod tcp_info;
pub mod traffic;
pub mod transfer_times;
pub mod transfers;
pub mod turns;
pub mod vm;
mod web;
pub mod wire;
pub mod wire_setup;
pub mod wiring;

pub use congestion::CongestionControls;
pub use error::{LabError, PortError};
pub use flow::FiveTuple;
pub use lab::Lab;
pub use load::{Load, Sighting};
pub use plan::{Guest, Plan};
pub use platform::{Namespaces, Platform};
pub use ports::programs::LivePorts;
pub use ports::{NoPorts, Part, Port, Ports, ShadowSample, Sharing};
pub use reception::Reception;
pub use run::{Progress, Repetition, run_case, run_case_in};
