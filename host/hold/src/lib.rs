//! Two functions at ports for which a process sends packets of its own: `uc hold` holds packets, `uc dupack` sends
//! duplicate ACKs ([`dupack`]).
//!
//! Holding: spreads ACKs towards the guest, and retransmits the guest's data, as
//! `base/hold` decides. `docs/hold.md` describes it.
//!
//! A BPF program at a port can neither delay a packet nor send it later. So three programs, before and
//! after the port's own, hand packets over to one process, which sends them when they are due. The port's
//! own program has processed a packet before it is handed over. Nothing is pinned: the kernel detaches
//! the programs when the process ends, however it ends.
//!
//! Read in this order:
//! - `bpf/hold/hold.bpf.c`: which packets are handed over, and how they come back.
//! - `programs`, `table`, `wire`: the programs in the kernel; the flows of which they hand packets over; the
//!   packet sockets.
//! - `frame`, `edit`, `held_segment`: a packet in memory; what is made of it; one segment of it.
//! - `port`, `round_robin`, `holder`: one port; each in its turn; all ports together.
//! - [`Setup`], [`Status`]: what an agent has the process do; the process's report.
//! - `work`, `running`: ports that may change, for either function; the process that an agent runs.

mod counts;
pub mod dupack;
mod edit;
mod error;
mod flow;
mod frame;
mod held_segment;
mod holder;
mod laws;
mod newest_segment;
mod port;
mod programs;
mod round_robin;
mod running;
#[cfg(test)]
mod samples;
mod setup;
mod table;
mod wire;
mod work;

pub use counts::Counts;
pub use error::HoldError;
pub use holder::Holder;
pub use running::Running;
pub use uc_service::Ports;
pub use uc_service::commands::Key;
pub use uc_service::commands::hold::{Done, HeldFlow, PortSetup, Setup, Status};
pub use work::{Reserved, Work, Worker};

/// Caution that `uc hold` prints at its start, in one line.
pub const CAVEAT: &str = "packets of held connections go through this process, which takes processor time; on a \
     path whose round-trip time jumps, --buffer retransmits what was not lost";

/// Types that bindgen generates from `bpf/hold/layout.h`.
mod layout {
    #![allow(non_camel_case_types, missing_docs, dead_code)]
    #![allow(clippy::all, clippy::undocumented_unsafe_blocks)]
    include!(concat!(env!("OUT_DIR"), "/layout.rs"));
}
