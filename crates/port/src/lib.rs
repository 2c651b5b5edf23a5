//! The tenant port's two BPF programs: load them once, attach them to any number of ports, read
//! what they know.
//!
//! - [`Programs`]: the programs and maps in the kernel, as file descriptors, either freshly loaded
//!   or reopened from their pins;
//! - [`Link`]: one program on one port, by TCX or by a clsact filter where the kernel has no TCX;
//! - [`Store`]: what is pinned in bpffs, so that ports stay attached when no process is left;
//! - [`PortCoupling`]: whose window a port's flows share, and [`GroupView`], who does;
//! - [`FlowView`], [`Counters`]: what `uc flows` and the lab show.

mod attach;
mod bpffs;
mod counters;
mod coupling;
mod error;
mod flows;
mod interfaces;
mod programs;
mod store;
mod test_run;
mod tidy;

pub use attach::{AttachVia, Direction, Link, Order, PortLinks, attach_program};
pub use counters::Counters;
pub use coupling::{GroupView, GuestView, MemberView, PortCoupling, PortPolicy};
pub use error::PortError;
pub use flows::FlowView;
pub use interfaces::interface_index;
pub use programs::{DEFAULT_FLOWS_MAX, Programs, silence_libbpf};
pub use store::{Attached, Store};
pub use test_run::{PacketContext, PacketRun, run_packet};

/// What bindgen makes of `bpf/layout.h`: keys and values of the maps.
mod layout {
    #![allow(non_camel_case_types, missing_docs, dead_code)]
    #![allow(clippy::all, clippy::undocumented_unsafe_blocks)]
    include!(concat!(env!("OUT_DIR"), "/layout.rs"));
}
