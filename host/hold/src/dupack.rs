//! Duplicate ACKs from the host: where the last segments of a guest are lost, the guest would wait for
//! its retransmission timer, and these make it retransmit at once. `docs/dupack.md` describes it.
//!
//! The core decides when and how many (`core/dupack.h`). A program at a port could not send them: it
//! runs when packets pass, and what is due here is due because none does; BPF's timers have no packet
//! to send. So this process reads the flow table, and sends frames out of the ports.
//!
//! Read in this order:
//! - `frame`: a duplicate ACK as a frame for the guest.
//! - `wire`: the socket at a port: sends frames, and learns guests' Ethernet addresses.
//! - `sender`: walks through the flow table at intervals.
//! - [`Setup`], [`Status`]: what an agent has the process do; the process's report.

mod frame;
mod sender;
mod wire;

pub use sender::Sender;
pub use uc_service::commands::dupack::{Counts, Done, PortSetup, Setup, Status};

/// Risk that duplicate ACKs have for a guest, as a text for messages.
pub const CAVEAT: &str = "on a path whose round-trip time jumps, duplicate ACKs come before the late ACKs, and \
     each time a guest needlessly halves its window";
