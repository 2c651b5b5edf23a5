//! DropTail: a queue with a limit only.

use super::{Backlog, DropReason, Length, Verdict};
use crate::error::SpecError;

/// A queue that drops what exceeds its limit. With a limit in bytes it is Linux's bfifo, in packets
/// Linux's pfifo: a packet fits if the backlog *with* it does not exceed the limit.
#[derive(Clone, Debug)]
pub(crate) struct DropTail {
    /// Largest backlog allowed; `u64::MAX` in the unit, bytes or packets, that the limit does not use.
    most: Backlog,
}

impl DropTail {
    pub(crate) fn new(limit: Length) -> Result<DropTail, SpecError> {
        if matches!(limit, Length::Bytes(0) | Length::Packets(0)) {
            return Err(SpecError::Zero {
                what: "the queue's limit",
            });
        }
        let endless = Backlog {
            bytes: u64::MAX,
            packets: u64::MAX,
        };
        let most = match limit {
            Length::Bytes(bytes) => Backlog { bytes, ..endless },
            Length::Packets(packets) => Backlog { packets, ..endless },
        };
        Ok(DropTail { most })
    }

    /// Returns the verdict on an arriving packet; `backlog` includes the packet.
    #[inline]
    pub(crate) fn judge(&self, backlog: Backlog) -> Verdict {
        if self.has_room(backlog) {
            return Verdict::Queued;
        }
        Verdict::Dropped(DropReason::Full)
    }

    /// Returns whether a backlog, the arriving packet included, is within the limit.
    #[inline]
    pub(crate) fn has_room(&self, backlog: Backlog) -> bool {
        // Without a branch by unit: both comparisons are cheaper.
        (backlog.bytes <= self.most.bytes) & (backlog.packets <= self.most.packets)
    }
}
