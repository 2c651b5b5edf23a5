//! Counters of links and flows.

use std::collections::BTreeMap;

use crate::queue::{Backlog, DropReason};

/// A link's totals since the network was built. In packets,
/// `offered + duplicated = dropped + waiting + sent` and `sent = delivered + on the wire`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Number of packets that were offered to the link.
    pub offered_packets: u64,
    /// Link-layer bytes of the packets offered.
    pub offered_bytes: u64,
    /// Copies made by a duplication rule.
    pub duplicated_packets: u64,
    /// Packets delayed by a reordering rule.
    pub reordered_packets: u64,
    /// Number of packets whose transmission began.
    pub sent_packets: u64,
    /// Link-layer bytes of the packets whose transmission began.
    pub sent_bytes: u64,
    /// Packets that arrived at the far end.
    pub delivered_packets: u64,
    /// Packets that this link's queue marked, including those that already carried CE.
    pub marked_packets: u64,
    pub(crate) dropped_packets: [u64; DropReason::ALL.len()],
}

impl LinkStats {
    /// Returns the packets dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped_packets[reason as usize]
    }

    /// Returns the packets dropped for any reason.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped_packets.iter().sum()
    }
}

/// A link's state at one time: its totals and its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkReport {
    /// Totals since the network was built.
    pub stats: LinkStats,
    /// The queue, without the packet in transmission.
    pub backlog: Backlog,
    /// RED's average queue in bytes, as the last arrival left it; `None` under other disciplines.
    pub average_bytes: Option<u64>,
}

/// Drops and marks of one flow, on all links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Number of the flow's packets that were dropped, on any link.
    pub dropped_packets: u64,
    /// Marks set; a packet marked at two links counts twice.
    pub marked_packets: u64,
}

/// Number of flows that the indexed part of a [`FlowTable`] can hold.
const NEAR_FLOWS: usize = 1 << 16;

/// Counts by flow. Small flow numbers, which drivers usually give, are found by index: a marking queue counts at every
/// other packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowTable {
    near: Vec<FlowCounts>,
    far: BTreeMap<u32, FlowCounts>,
}

impl FlowTable {
    /// Returns the counts of `flow`; `None` if it has neither drops nor marks.
    pub fn get(&self, flow: &u32) -> Option<&FlowCounts> {
        let counts = match self.near.get(*flow as usize) {
            Some(counts) => counts,
            None => self.far.get(flow)?,
        };
        (*counts != FlowCounts::default()).then_some(counts)
    }

    /// Iterates over the flows with drops or marks, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, FlowCounts)> {
        let near = (0..).zip(self.near.iter().copied());
        let far = self.far.iter().map(|(&flow, &counts)| (flow, counts));
        near.chain(far)
            .filter(|(_, counts)| *counts != FlowCounts::default())
    }

    /// Returns the counts of `flow` for update.
    #[inline]
    pub(crate) fn of(&mut self, flow: u32) -> &mut FlowCounts {
        let place = flow as usize;
        if place >= NEAR_FLOWS {
            return self.far.entry(flow).or_default();
        }
        if place >= self.near.len() {
            self.near.resize(place + 1, FlowCounts::default());
        }
        &mut self.near[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_below_and_above_the_index_limit_and_listed_in_order() {
        let mut table = FlowTable::default();
        let edge = NEAR_FLOWS as u32;
        for flow in [u32::MAX, 7, edge, edge - 1, 7] {
            table.of(flow).dropped_packets += 1;
        }
        let listed: Vec<(u32, u64)> = table
            .iter()
            .map(|(flow, counts)| (flow, counts.dropped_packets))
            .collect();
        assert_eq!(listed, [(7, 2), (edge - 1, 1), (edge, 1), (u32::MAX, 1)]);
        assert_eq!(table.get(&7).map(|counts| counts.dropped_packets), Some(2));
        assert_eq!(table.get(&8), None);
        assert_eq!(table.get(&(edge + 1)), None);
    }
}
