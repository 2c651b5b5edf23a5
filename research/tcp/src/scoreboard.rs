//! What the peer says to have received out of order, and what follows from it: RFC 6675 §4.

use crate::intervals::Intervals;
use crate::segment::SackBlocks;
use crate::seq;

/// RFC 6675 §2: DupThresh.
pub(crate) const DUP_THRESH: u32 = 3;

/// The scoreboard. All places are of the sender's stream; ends are exclusive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    sacked: Intervals,
    /// Everything below it that isn't SACKed counts as lost.
    lost_below: u64,
    /// SACKed bytes above `lost_below`.
    sacked_above_lost: u64,
}

impl Scoreboard {
    /// RFC 6675 §4 Update(): takes the blocks of an ACK; how many bytes they newly cover, and up
    /// to where. Blocks outside `una..max` say nothing (RFC 2883's duplicates, or garbage).
    pub(crate) fn update(&mut self, blocks: &SackBlocks, una: u64, max: u64, smss: u32) -> u64 {
        let mut newly = 0;
        for &(from, to) in blocks.as_slice() {
            let (from, to) = (seq::unwrap(una, from), seq::unwrap(una, to));
            if from >= una && to <= max {
                newly += self.sacked.insert(from, to);
            }
        }
        if newly > 0 {
            self.find_lost(smss);
        }
        newly
    }

    /// RFC 6675 §4 IsLost(): three discontiguous SACKed sequences above, or more than two segments'
    /// bytes. Both only grow downwards, so that one boundary says it for all.
    fn find_lost(&mut self, smss: u32) {
        let enough = u64::from((DUP_THRESH - 1) * smss);
        let mut above = 0;
        for (index, &(from, to)) in self.sacked.as_slice().iter().rev().enumerate() {
            above += to - from;
            if index as u32 + 1 >= DUP_THRESH || above > enough {
                self.lost_below = self.lost_below.max(from);
                break;
            }
        }
        self.sacked_above_lost = self.sacked.bytes_from(self.lost_below);
    }

    /// The cumulative ACK moved to `una`.
    pub(crate) fn advance(&mut self, una: u64) {
        if !self.sacked.is_empty() {
            self.sacked.remove_below(una);
        }
    }

    pub(crate) fn is_lost(&self, place: u64) -> bool {
        place < self.lost_below && self.sacked.covering(place).is_none()
    }

    pub(crate) fn lost_below(&self) -> u64 {
        self.lost_below
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sacked.is_empty()
    }

    pub(crate) fn sacked_below(&self, place: u64) -> u64 {
        self.sacked.bytes_below(place)
    }

    pub(crate) fn highest_sacked(&self) -> Option<u64> {
        self.sacked.highest()
    }

    /// The first unSACKed byte at or after `place`, and where the next SACKed one is.
    pub(crate) fn hole_from(&self, place: u64) -> (u64, Option<u64>) {
        self.sacked.gap_from(place)
    }

    /// The unSACKed bytes before `max` that lie highest, at most `most` of them.
    pub(crate) fn last_hole(&self, una: u64, max: u64, most: u64) -> Option<(u64, u64)> {
        let mut to = max;
        for &(from, end) in self.sacked.as_slice().iter().rev() {
            if end < to {
                return Some((end.max(to.saturating_sub(most)), to));
            }
            to = from;
        }
        (una < to).then(|| (una.max(to.saturating_sub(most)), to))
    }

    /// RFC 6675 §4 SetPipe(): of the unSACKed bytes, those not lost, and those sent again.
    pub(crate) fn pipe(&self, una: u64, max: u64, high_rxt: u64) -> u64 {
        let outstanding = max - una - self.sacked.bytes();
        let below = self.lost_below.max(una);
        let sacked_below = self.sacked.bytes().saturating_sub(self.sacked_above_lost);
        let lost = (below - una).saturating_sub(sacked_below);
        let again = high_rxt.max(una) - una - self.sacked.bytes_below(high_rxt);
        outstanding.saturating_sub(lost) + again
    }

    pub(crate) fn clear(&mut self) {
        self.sacked.clear();
        self.sacked_above_lost = 0;
        self.lost_below = 0;
    }
}

#[cfg(test)]
#[path = "scoreboard/tests.rs"]
mod tests;
