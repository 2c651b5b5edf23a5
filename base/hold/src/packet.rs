//! The operations that a hold needs on a platform's packets.

/// A packet as the platform stores it: a frame in memory, or the simulator's packet.
pub trait Packet: Clone {
    /// Returns the memory that the packet takes, in bytes.
    fn bytes(&self) -> usize;

    /// Returns an ACK made of the packet's headers: without payload, SYN, FIN, PSH and SACK blocks,
    /// with sequence number `seq`. The ACK number, window, other flags and timestamps stay.
    fn bare_ack(&self, seq: u32) -> Self;
}
