//! The data that the peer reports to have received out of order, and its consequences: RFC 6675 §4.

use crate::intervals::Intervals;
use crate::segment::SackBlocks;
use crate::seq;

/// DupThresh of RFC 6675 §2: duplicate ACKs that show a loss.
pub(crate) const DUP_THRESH: u32 = 3;

/// The scoreboard. All positions are of the sender's stream; ends are exclusive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    sacked: Intervals,
    /// Bytes below this that aren't SACKed count as lost.
    lost_below: u64,
    /// Number of SACKed bytes above `lost_below`.
    sacked_above_lost: u64,
}

impl Scoreboard {
    /// Applies the SACK blocks of an ACK (Update() of RFC 6675 §4) and returns the bytes that they
    /// newly cover. Blocks outside `una..max` are ignored (duplicates of RFC 2883, or garbage).
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

    /// Updates the boundary of IsLost() of RFC 6675 §4: three discontiguous SACKed sequences above,
    /// or more than two segments' bytes. Both conditions only become truer downwards, so one
    /// boundary is enough. What was lost once stays so, although sequences that a later report joins can be
    /// fewer than three.
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

    /// Advances the cumulative ACK to `una`.
    #[inline]
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

    /// Returns the first unSACKed byte at or after `place`, and the next SACKed byte above that one (`None`: there is
    /// none).
    pub(crate) fn hole_from(&self, place: u64) -> (u64, Option<u64>) {
        self.sacked.gap_from(place)
    }

    /// Returns the highest unSACKed bytes before `max`, at most `most` of them; `None` if all are SACKed.
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

    /// Returns SetPipe() of RFC 6675 §4: unSACKed bytes that are not lost, plus retransmitted
    /// bytes.
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
