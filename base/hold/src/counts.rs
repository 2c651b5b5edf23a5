//! Counters of a port's hold.

/// What a hold did since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// ACKs released later than they arrived.
    pub acks_paced: u64,
    /// ACKs made in addition, where a stretch ACK was divided.
    pub acks_added: u64,
    /// Packets of guests kept until they are acknowledged.
    pub packets_kept: u64,
    /// Packets not kept or held for lack of memory.
    pub packets_unheld: u64,
    /// Retransmissions after a timeout of the host.
    pub timeouts: u64,
    /// Retransmissions, whatever the reason.
    pub retransmits: u64,
    /// Duplicate ACKs kept from guests.
    pub dupacks_hidden: u64,
    /// Times that a guest retransmitted what the host was repairing, and the host left it to the
    /// guest.
    pub yields: u64,
}
