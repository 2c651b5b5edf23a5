//! The copies of a guest's segments that the peer has not acknowledged.

use std::collections::VecDeque;

use crate::memory::{Memory, shrink};
use crate::seq::{after, before, later};
use crate::{Packet, Segment};

/// Maximum number of segments kept of one flow, so that no order and no size of them makes a search or an insertion
/// long.
const SEGMENTS_MAX: usize = 4_096;

/// One segment of the guest of which the host keeps a copy.
#[derive(Clone, Debug)]
pub(crate) struct Entry<P> {
    pub(crate) seq: u32,
    pub(crate) end: u32,
    pub(crate) packet: P,
    memory_bytes: usize,
    /// Whether the peer has reported the segment by SACK.
    is_sacked: bool,
}

impl<P> Entry<P> {
    /// Returns the number of sequence numbers that the entry covers.
    pub(crate) fn bytes(&self) -> u32 {
        self.end.wrapping_sub(self.seq)
    }
}

/// What [`Kept::keep`] did with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A copy of the segment is kept now.
    Kept,
    /// A copy of the segment was kept already.
    Known,
    /// No copy is kept: there is no memory for it, or the flow has too many copies.
    NoRoom,
}

/// The kept segments of one flow, in the order of their sequence numbers. Segments that did not fit
/// into the memory are missing.
#[derive(Clone, Debug)]
pub(crate) struct Kept<P> {
    entries: VecDeque<Entry<P>>,
    sacked_bytes: u32,
}

impl<P: Packet> Kept<P> {
    pub(crate) fn new() -> Kept<P> {
        Kept {
            entries: VecDeque::new(),
            sacked_bytes: 0,
        }
    }

    /// Keeps a segment, unless it is kept already. If it overlaps kept segments, its entry covers the
    /// first part that they lack.
    pub(crate) fn keep(
        &mut self,
        segment: &Segment,
        copy: impl FnOnce() -> P,
        memory: &mut Memory,
    ) -> Fate {
        let (mut seq, mut end) = (segment.seq, segment.end());
        let mut at = self.entries.partition_point(|entry| !after(entry.end, seq));
        while let Some(entry) = self.entries.get(at)
            && !after(entry.seq, seq)
        {
            seq = entry.end;
            at += 1;
        }
        if !before(seq, end) {
            return Fate::Known;
        }
        if let Some(next) = self.entries.get(at).filter(|next| before(next.seq, end)) {
            end = next.seq;
        }
        if self.entries.len() >= SEGMENTS_MAX || !memory.has(segment.payload_bytes as usize) {
            return Fate::NoRoom;
        }
        let packet = copy();
        let bytes = packet.bytes();
        if !memory.take(bytes) {
            return Fate::NoRoom;
        }
        let entry = Entry {
            seq,
            end,
            packet,
            memory_bytes: bytes,
            is_sacked: false,
        };
        self.entries.insert(at, entry);
        Fate::Kept
    }

    /// Drops the copies of segments that the peer has acknowledged.
    pub(crate) fn acked(&mut self, una: u32, memory: &mut Memory) {
        while let Some(entry) = self.entries.front()
            && !after(entry.end, una)
        {
            memory.give_back(entry.memory_bytes);
            if entry.is_sacked {
                self.sacked_bytes -= entry.bytes();
            }
            self.entries.pop_front();
        }
        shrink(&mut self.entries);
    }

    /// Drops the copies of all segments.
    pub(crate) fn clear(&mut self, memory: &mut Memory) {
        for entry in self.entries.drain(..) {
            memory.give_back(entry.memory_bytes);
        }
        shrink(&mut self.entries);
        self.sacked_bytes = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns whether the first unacknowledged byte is kept.
    pub(crate) fn covers(&self, una: u32) -> bool {
        self.first().is_some_and(|first| !after(first.seq, una))
    }

    /// Returns the kept segment with the lowest sequence number.
    pub(crate) fn first(&self) -> Option<&Entry<P>> {
        self.entries.front()
    }

    /// Records SACK blocks. Returns how many bytes they report for the first time.
    pub(crate) fn sack(&mut self, blocks: impl Iterator<Item = (u32, u32)>) -> u32 {
        let mut newly = 0;
        for (from, to) in blocks {
            let first = self
                .entries
                .partition_point(|entry| before(entry.seq, from));
            let inside = self.entries.range_mut(first..);
            for entry in inside.take_while(|entry| !after(entry.end, to)) {
                if !std::mem::replace(&mut entry.is_sacked, true) {
                    newly += entry.bytes();
                }
            }
        }
        self.sacked_bytes += newly;
        newly
    }

    /// Returns how many unacknowledged bytes the peer has reported by SACK.
    pub(crate) fn sacked_bytes(&self) -> u32 {
        self.sacked_bytes
    }

    /// Forgets all SACK blocks if the peer has reneged: it has reported the first segment, but does
    /// not acknowledge it (RFC 2018 §8).
    pub(crate) fn forget_reneged(&mut self) {
        if self.first().is_some_and(|first| first.is_sacked) {
            self.sacked_bytes = 0;
            for entry in &mut self.entries {
                entry.is_sacked = false;
            }
        }
    }

    /// Returns the end of the last segment that the peer has reported by SACK; `None`: there is none.
    pub(crate) fn sacked_end(&self) -> Option<u32> {
        let last = self.entries.iter().rev().find(|entry| entry.is_sacked);
        last.map(|entry| entry.end)
    }

    /// Returns the first segment that ends after `from`, begins before `until` and was not reported by SACK; `None`:
    /// there is none.
    pub(crate) fn hole(&self, from: u32, until: u32) -> Option<&Entry<P>> {
        let first = self
            .entries
            .partition_point(|entry| !after(entry.end, from));
        let mut inside = self.entries.range(first..);
        inside
            .find(|entry| !entry.is_sacked)
            .filter(|entry| before(entry.seq, until))
    }

    /// Returns how many bytes between `una` and `until` were not reported by SACK.
    pub(crate) fn missing_bytes(&self, una: u32, until: u32) -> u32 {
        let inside = self.entries.iter();
        let inside = inside.take_while(|entry| before(entry.seq, until));
        let missing = inside.filter(|entry| !entry.is_sacked);
        missing
            .map(|entry| entry.end.wrapping_sub(later(entry.seq, una)))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Kept;
    use crate::memory::Memory;
    use crate::{Packet, Segment};

    #[derive(Clone, Debug, PartialEq)]
    struct Bytes(usize);

    impl Packet for Bytes {
        fn bytes(&self) -> usize {
            self.0
        }

        fn bare_ack(&self, _: u32) -> Bytes {
            Bytes(40)
        }
    }

    fn segment(seq: u32, payload_bytes: u32) -> Segment {
        Segment {
            seq,
            payload_bytes,
            ..Segment::default()
        }
    }

    /// Keeps segments of 100 bytes that begin at `seqs`.
    fn keep(seqs: &[u32], memory: &mut Memory) -> Kept<Bytes> {
        let mut kept = Kept::new();
        for &seq in seqs {
            kept.keep(&segment(seq, 100), || Bytes(140), memory);
        }
        kept
    }

    #[test]
    fn segments_out_of_order_are_kept_in_order_and_once() {
        let near = u32::MAX - 149;
        let mut memory = Memory::new(10_000);
        let seqs = [0u32, 200, 100, 200, 0].map(|at| near.wrapping_add(at));
        let kept = keep(&seqs, &mut memory);
        assert_eq!(memory.used(), 3 * 140);
        let order: Vec<u32> = kept.entries.iter().map(|entry| entry.seq).collect();
        assert_eq!(order, [0, 100, 200].map(|at: u32| near.wrapping_add(at)));
        assert!(kept.covers(near) && !kept.covers(near.wrapping_sub(1)));
    }

    #[test]
    fn overlapping_segment_adds_only_its_new_part() {
        let mut memory = Memory::new(10_000);
        let mut kept = keep(&[0, 100, 300], &mut memory);
        for (seq, bytes) in [(0, 200), (50, 100), (100, 300), (50, 450)] {
            kept.keep(&segment(seq, bytes), || Bytes(1), &mut memory);
        }
        let parts = kept.entries.iter().map(|entry| (entry.seq, entry.end));
        let expected = [(0, 100), (100, 200), (200, 300), (300, 400), (400, 500)];
        assert_eq!(parts.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_segment_without_room_is_missing_and_acks_free_memory() {
        let mut memory = Memory::new(300);
        let mut kept = keep(&[0, 100, 200], &mut memory);
        assert_eq!(memory.used(), 280);
        kept.acked(100, &mut memory);
        assert!(kept.covers(100));
        kept.acked(200, &mut memory);
        assert!(!kept.covers(200) && kept.is_empty());
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_flow_has_a_most_of_segments_and_returns_their_room() {
        let mut memory = Memory::new(1 << 20);
        let seqs: Vec<u32> = (0..5_000).map(|number| number * 100).collect();
        let mut kept = keep(&seqs, &mut memory);
        assert_eq!(kept.entries.len(), 4_096);
        for una in [4_000, 4_096] {
            kept.acked(una * 100, &mut memory);
            assert!(kept.entries.capacity() <= 200);
        }
        assert_eq!((kept.entries.capacity(), memory.used()), (0, 0));
    }

    #[test]
    fn sack_blocks_leave_holes() {
        let mut memory = Memory::new(10_000);
        let mut kept = keep(&[0, 100, 200, 300, 400], &mut memory);
        assert_eq!(kept.sack([(100, 200), (300, 400)].into_iter()), 200);
        assert_eq!(kept.sack([(100, 400)].into_iter()), 100);
        assert_eq!(kept.sacked_end(), Some(400));
        assert_eq!(kept.hole(0, 500).map(|entry| entry.seq), Some(0));
        assert_eq!(kept.hole(100, 500).map(|entry| entry.seq), Some(400));
        assert_eq!(kept.missing_bytes(0, 500), 200);
        kept.acked(400, &mut memory);
        assert_eq!(kept.sacked_bytes(), 0);
    }
}
