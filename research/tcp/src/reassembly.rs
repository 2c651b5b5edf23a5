//! Out-of-order data and its SACK report: RFC 2018 §4.

use crate::intervals::Intervals;
use crate::segment::SackBlocks;

const REMEMBERED: usize = 4;

/// The data received beyond a gap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reassembly {
    held: Intervals,
    /// Sequence numbers of the segments stored most recently, the latest first: SACK blocks are
    /// reported in this order.
    recent: [u64; REMEMBERED],
    /// Duplicate data that the next ACK reports (RFC 2883); empty without any.
    pub(crate) duplicate: (u64, u64),
}

impl Reassembly {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns whether the next ACK reports duplicate data.
    pub(crate) fn has_duplicate(&self) -> bool {
        self.duplicate.0 < self.duplicate.1
    }

    /// Returns the first stored part of `from` to `to`; empty if none is stored.
    pub(crate) fn held_part(&self, from: u64, to: u64) -> (u64, u64) {
        let held = self.held.as_slice().iter();
        held.map(|&(start, end)| (start.max(from), end.min(to)))
            .find(|&(start, end)| start < end)
            .unwrap_or_default()
    }

    /// Returns whether all bytes from `from` to `to` are stored.
    pub(crate) fn holds(&self, from: u64, to: u64) -> bool {
        let around = self.held.covering(from);
        around.is_some_and(|(_, end)| to <= end)
    }

    /// Stores a segment beyond the next byte expected.
    pub(crate) fn hold(&mut self, from: u64, to: u64) {
        self.held.insert(from, to);
        self.recent.rotate_right(1);
        self.recent[0] = from;
    }

    /// Returns the position up to which the stream is contiguous once everything before `next` has arrived, and removes
    /// the stored data below that position.
    pub(crate) fn join(&mut self, next: u64) -> u64 {
        let mut whole = next;
        while let Some(end) = self.held.take_touching(whole) {
            whole = whole.max(end);
        }
        whole
    }

    /// Returns the SACK blocks by RFC 2018 §4: first the block with the latest segment, then those
    /// reported last; at most `most`. Duplicate data come before them (RFC 2883 §4).
    pub(crate) fn blocks(&self, most: u8) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let (from, to) = self.duplicate;
        if from < to {
            blocks.push(from as u32, to as u32);
        }
        if self.held.is_empty() {
            return blocks;
        }
        let recent = self
            .recent
            .iter()
            .filter_map(|&place| self.held.covering(place));
        for (from, to) in recent.chain(self.held.as_slice().iter().rev().copied()) {
            let block = (from as u32, to as u32);
            if blocks.as_slice().len() >= usize::from(most) {
                break;
            }
            let reported = &blocks.as_slice()[usize::from(self.has_duplicate())..];
            if !reported.contains(&block) {
                blocks.push(block.0, block.1);
            }
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::Reassembly;

    #[test]
    fn the_block_that_grew_last_is_reported_first_and_the_oldest_is_omitted() {
        let mut held = Reassembly::default();
        for from in [10, 30, 50, 70] {
            held.hold(from, from + 10);
        }
        assert_eq!(held.blocks(3).as_slice(), [(70, 80), (50, 60), (30, 40)]);
        held.hold(20, 25);
        assert_eq!(held.blocks(3).as_slice(), [(10, 25), (70, 80), (50, 60)]);
    }

    #[test]
    fn the_stream_is_contiguous_up_to_the_next_gap() {
        let mut held = Reassembly::default();
        held.hold(20, 30);
        held.hold(30, 40);
        held.hold(50, 60);
        assert_eq!(held.join(10), 10);
        assert_eq!(held.join(20), 40);
        assert_eq!(held.blocks(3).as_slice(), [(50, 60)]);
        assert_eq!(held.join(55), 60);
        assert!(held.is_empty());
    }
}
