//! Decides which packets of a port are held: ACKs that are spread over a round trip (`pace`), and
//! copies of the guest's data, which the host retransmits if no ACK comes (`buffer`).
//!
//! The crate reads no clock and sends nothing. A platform (the simulator, or the process on a host)
//! reports each packet to a [`Hold`] and carries out what [`Hold::take`] returns.
//!
//! Read in this order:
//! 1. [`packet`], [`segment`]: what the platform provides of a packet. [`settings`], [`out`].
//! 2. [`hold`]: a port with all its flows.

pub mod counts;
pub mod hold;
pub mod out;
pub mod packet;
pub mod segment;
pub mod settings;

pub use counts::Counts;
pub use hold::Hold;
pub use out::{AckEdit, Out};
pub use packet::Packet;
pub use segment::{Segment, flags};
pub use settings::{Buffer, Settings};
