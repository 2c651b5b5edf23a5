//! What links and flows count.

use crate::queue::{Backlog, DropReason};

/// A link's totals since the network was built. In packets,
/// `offered + duplicated = dropped + waiting + sent` and `sent = delivered + on the wire`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets that came to the link.
    pub offered_packets: u64,
    /// Their link-layer bytes.
    pub offered_bytes: u64,
    /// Copies made by a duplication rule.
    pub duplicated_packets: u64,
    /// Packets held back by a reordering rule.
    pub reordered_packets: u64,
    /// Packets whose transmission began.
    pub sent_packets: u64,
    /// Their link-layer bytes.
    pub sent_bytes: u64,
    /// Packets that arrived at the far end.
    pub delivered_packets: u64,
    /// Packets that this link's queue marked (again, if they came with CE).
    pub marked_packets: u64,
    dropped_packets: [u64; DropReason::ALL.len()],
}

impl LinkStats {
    /// Packets dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped_packets[reason as usize]
    }

    /// Packets dropped for any reason.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped_packets.iter().sum()
    }

    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        self.dropped_packets[reason as usize] += 1;
    }
}

/// A link at one moment: its totals and its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkReport {
    /// Totals.
    pub stats: LinkStats,
    /// The queue, without the packet on the transmitter.
    pub backlog: Backlog,
    /// RED's average queue as the last arrival left it; none under the other disciplines.
    pub average_bytes: Option<u64>,
}

/// What the network did to one flow, all links together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Packets dropped.
    pub dropped_packets: u64,
    /// Marks set; a packet marked at two links counts twice.
    pub marked_packets: u64,
}
