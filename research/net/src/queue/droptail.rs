//! DropTail: a queue with a limit only.

use super::{Arrival, Backlog, DropReason, Length, Verdict};
use crate::error::SpecError;

/// A queue that drops what exceeds its limit. With a limit in bytes it is Linux's bfifo, in packets
/// Linux's pfifo: a packet fits if the backlog *with* it does not exceed the limit.
#[derive(Clone, Debug)]
pub(crate) struct DropTail {
    limit: Length,
}

impl DropTail {
    pub(crate) fn new(limit: Length) -> Result<DropTail, SpecError> {
        if matches!(limit, Length::Bytes(0) | Length::Packets(0)) {
            return Err(SpecError::Zero {
                what: "the queue's limit",
            });
        }
        Ok(DropTail { limit })
    }

    #[inline]
    pub(crate) fn judge(&self, arrival: &Arrival) -> Verdict {
        if self.has_room(arrival.backlog.with(arrival.size_bytes)) {
            return Verdict::Queued;
        }
        Verdict::Dropped(DropReason::Full)
    }

    /// Returns whether a backlog, the arriving packet included, is within the limit.
    #[inline]
    pub(crate) fn has_room(&self, backlog: Backlog) -> bool {
        !backlog.exceeds(self.limit)
    }
}
