//! TCP endpoints by the RFCs, for the simulator: segments in, segments out, no clock, no sockets.
//!
//! A [`Connection`] is one end of one connection, both directions. Its inputs are the time,
//! arriving segments and the application's data; its outputs are segments and the time of the next
//! call. Sequence numbers wrap at 32 bits as on the wire; all arithmetic is in integers.
//!
//! Read in this order: [`segment`], [`config`], [`connection`] with `handshake`, `arrival`, `emission` and
//! `outlet`; the receiving half (`coalescing`, `receiver`, `compression`, `tuning`, `reassembly`); the sending half (`sender`, `output`,
//! `acks`, `rto`, `send_times`, `recovery`, `scoreboard`, `sack_recovery`, `prr`, `frto`); then
//! [`congestion`], [`overrule`] for coupled windows, and `stall` for hosts whose CPU is taken away.

mod acks;
mod arrival;
mod coalescing;
mod compression;
pub mod config;
pub mod congestion;
pub mod connection;
mod emission;
mod frto;
mod handshake;
pub mod info;
mod intervals;
mod outlet;
mod output;
pub mod overrule;
mod overruled;
mod prr;
mod reassembly;
mod receiver;
mod recovery;
mod rto;
mod sack_recovery;
mod scoreboard;
pub mod segment;
mod send_times;
mod sender;
mod seq;
mod stage;
mod stall;
mod tuning;

pub use config::{
    Coalescing, Config, CongestionControl, Receiving, Reduction, RtoMin, RttSample, SpuriousTimeout,
};
pub use connection::Connection;
pub use handshake::reset_for;
pub use info::{Info, Totals};
pub use outlet::Outlet;
pub use segment::{Options, SackBlocks, Segment, flags};
pub use stage::Stage;
