//! Decides which packets of a port are held: ACKs that are spread over a round trip (`pace`), and
//! copies of the guest's data, which the host retransmits if no ACK comes (`buffer`).
//!
//! The crate reads no clock and sends nothing. A platform (the simulator, or the process on a host)
//! reports each packet to a [`Hold`] and sends what [`Hold::take`] returns. A packet that the
//! platform does not report passes as if there were no hold.
//!
//! Read in this order:
//! 1. [`packet`], [`segment`]: what the platform provides of a packet. [`settings`], [`out`].
//! 2. [`hold`]: a port with all its flows, in `memory`. `flow`: one of them.
//! 3. `connection`: the state of its connection. `rtt`: its round-trip time and timeout.
//! 4. `pace`: ACKs towards the guest. `kept`, `repair`: copies of its data, and their
//!    retransmission.

mod connection;
pub mod counts;
mod flow;
pub mod hold;
mod kept;
mod memory;
pub mod out;
mod pace;
pub mod packet;
mod repair;
mod rtt;
pub mod segment;
mod seq;
pub mod settings;

pub use counts::Counts;
pub use hold::Hold;
pub use out::{AckEdit, Out};
pub use packet::Packet;
pub use segment::{Segment, flags};
pub use settings::{Buffer, Settings};
