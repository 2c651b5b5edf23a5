//! Step marking by the instantaneous queue, the switch's half of DCTCP.

use super::droptail::DropTail;
use super::{Backlog, DropReason, Length, Verdict};
use crate::error::SpecError;
use crate::packet::Ecn;

/// A queue that marks every packet that finds more than K waiting. The packet itself does not count (RFC 8257 §3.1; the
/// DCTCP paper's §3.1 has the occupancy "upon its arrival").
#[derive(Clone, Debug)]
pub(crate) struct Threshold {
    tail: DropTail,
    mark: Length,
    drop_not_ect: bool,
}

impl Threshold {
    pub(crate) fn new(
        limit: Length,
        mark: Length,
        drop_not_ect: bool,
    ) -> Result<Threshold, SpecError> {
        // Bytes and packets can't be compared; in the same unit K must be reachable.
        let unreachable = match (mark, limit) {
            (Length::Bytes(mark), Length::Bytes(limit)) => mark >= limit,
            (Length::Packets(mark), Length::Packets(limit)) => mark >= limit,
            _ => false,
        };
        let tail = DropTail::new(limit)?;
        if unreachable {
            return Err(SpecError::MarkBeyondLimit { mark, limit });
        }
        Ok(Threshold {
            tail,
            mark,
            drop_not_ect,
        })
    }

    /// Decides on a packet that finds `backlog`; asks for its ECN field only above K.
    #[inline]
    pub(crate) fn judge(
        &self,
        backlog: Backlog,
        size_bytes: u32,
        ecn: impl FnOnce() -> Ecn,
    ) -> Verdict {
        let fits = self.tail.judge(backlog.with(size_bytes));
        if fits != Verdict::Queued || !backlog.exceeds(self.mark) {
            return fits;
        }
        match (ecn().can_be_marked(), self.drop_not_ect) {
            (true, _) => Verdict::Marked,
            (false, true) => Verdict::Dropped(DropReason::AboveThreshold),
            (false, false) => Verdict::Queued,
        }
    }
}
