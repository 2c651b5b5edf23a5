//! Counters of what was done at ports.

use std::ops::AddAssign;

/// Counters of held packets since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of packets that the programs handed to this process.
    pub packets: u64,
    /// Number of packets of held flows that passed, because the process was too slow or the packet too large.
    pub passed: u64,
    /// Number of connections that are not held: there was no memory for them, or other connections displaced them
    /// before their handshake was over.
    pub flows_unheld: u64,
    /// Number of SYNs and SYN-ACKs that passed, because too many came at once. Their connections are not held.
    pub syns_passed: u64,
    /// Number of packets that an interface did not take.
    pub unsent: u64,
    /// Number of times that the process got no CPU for so long that packets passed. Then it sent all waiting ACKs, and
    /// dropped its copies of data.
    pub stalls: u64,
    /// Counters of the holds' decisions about packets.
    pub decisions: uc_hold_core::Counts,
}

impl Counts {
    /// Returns the numbers with their names in JSON.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let own = [
            ("packets", self.packets),
            ("passed", self.passed),
            ("flows_unheld", self.flows_unheld),
            ("syns_passed", self.syns_passed),
            ("unsent", self.unsent),
            ("stalls", self.stalls),
        ];
        own.into_iter().chain(self.decisions.named())
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.packets += more.packets;
        self.passed += more.passed;
        self.flows_unheld += more.flows_unheld;
        self.syns_passed += more.syns_passed;
        self.unsent += more.unsent;
        self.stalls += more.stalls;
        self.decisions += more.decisions;
    }
}
