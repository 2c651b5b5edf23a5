//! Counters of a port's hold.

use std::ops::AddAssign;

/// Counters of a hold since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of ACKs that were held, and released later than they arrived.
    pub acks_paced: u64,
    /// Additional ACKs, made by dividing ACKs for many segments.
    pub acks_added: u64,
    /// Packets of guests kept until they are acknowledged.
    pub packets_kept: u64,
    /// Packets not kept or held for lack of memory.
    pub packets_unheld: u64,
    /// Number of times that the host's retransmission timeout expired.
    pub timeouts: u64,
    /// Number of segments that the host retransmitted, for any reason.
    pub retransmits: u64,
    /// Number of duplicate ACKs that the host hid from guests.
    pub dupacks_hidden: u64,
    /// Repairs that the host left to a guest, because the guest retransmitted, too.
    pub yields: u64,
}

impl Counts {
    /// Returns the counters with their names, in the order of the fields.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("acks_paced", self.acks_paced),
            ("acks_added", self.acks_added),
            ("packets_kept", self.packets_kept),
            ("packets_unheld", self.packets_unheld),
            ("timeouts", self.timeouts),
            ("retransmits", self.retransmits),
            ("dupacks_hidden", self.dupacks_hidden),
            ("yields", self.yields),
        ]
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.acks_paced += other.acks_paced;
        self.acks_added += other.acks_added;
        self.packets_kept += other.packets_kept;
        self.packets_unheld += other.packets_unheld;
        self.timeouts += other.timeouts;
        self.retransmits += other.retransmits;
        self.dupacks_hidden += other.dupacks_hidden;
        self.yields += other.yields;
    }
}
