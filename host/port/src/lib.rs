//! The tenant port's two BPF programs: load them once, attach them to any number of ports, read
//! what they know.
//!
//! - [`Programs`]: the programs and maps in the kernel, as file descriptors, either freshly loaded
//!   or reopened from their pins;
//! - [`Link`]: one program on one port, by TCX or by a clsact filter where the kernel has no TCX;
//! - [`Store`]: what is pinned in bpffs, so that ports stay attached when no process is left;
//! - [`PortPlan`]: what an operator says of a port, by [`Rule`]s; [`PortView`]: what became of it;
//! - [`PortCoupling`]: whose window a port's flows share, and [`GroupView`], who does;
//! - [`Event`], [`Passed`]: what has happened to a flow, and which flows pass;
//! - [`FlowView`], [`Counters`]: what `uc flows` and the lab show.

mod attach;
mod batch;
mod bpffs;
mod bytes;
pub mod cost;
mod counters;
mod coupling;
mod direction;
mod error;
mod events;
mod expedite;
mod flows;
mod interfaces;
mod links;
mod maps;
mod plans;
mod ports;
mod programs;
mod qdisc;
mod refusal;
mod store;
mod test_run;
mod tidy;
mod upgrade;
mod versions;

pub use attach::{AttachVia, Link, Order, PortLinks, attach_program};
pub use counters::Counters;
pub use coupling::{GroupView, GuestView, MemberView};
pub use direction::Direction;
pub use error::PortError;
pub use events::{Agreed, Closing, Event, EventKind, Passed};
pub use flows::FlowView;
pub use interfaces::interface_index;
pub use plans::check_plan;
pub use ports::{PORTS_MAX, PortView};
pub use programs::Programs;
pub use refusal::silence_libbpf;
pub use store::{Attached, Store};
pub use test_run::{PacketContext, PacketRun, run_packet};
pub use uc_core::rule::{Match, Prefix, PrefixError, RULES_MAX, Rule};
pub use uc_law::{DEFAULT_FLOWS_MAX, PortCoupling, PortPlan, RINGS_MAX};
pub use upgrade::Upgrade;

/// What this build's maps and programs are told apart from others' by.
mod numbers {
    include!(concat!(env!("OUT_DIR"), "/numbers.rs"));
}

/// What bindgen makes of `bpf/port/layout.h`: keys and values of the maps.
mod layout {
    #![allow(non_camel_case_types, missing_docs, dead_code)]
    #![allow(clippy::all, clippy::undocumented_unsafe_blocks)]
    include!(concat!(env!("OUT_DIR"), "/layout.rs"));
}
