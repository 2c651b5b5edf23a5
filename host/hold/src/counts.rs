//! Counters of what was done at ports.

use std::ops::AddAssign;

/// Counters since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that the programs handed over.
    pub packets: u64,
    /// Packets of held flows that passed, because the process was too slow or the packet too large.
    pub passed: u64,
    /// Connections that are not held, since there was no memory for them, or others made them make room
    /// before their handshake was over.
    pub flows_unheld: u64,
    /// SYNs and SYN-ACKs that passed, because too many came at once. Their connections are not held.
    pub syns_passed: u64,
    /// Packets that an interface did not take.
    pub unsent: u64,
    /// Times that the process got no CPU for so long that packets passed. Then it released all that it
    /// held.
    pub stalls: u64,
    /// Decisions about packets, by the ports' holds.
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
