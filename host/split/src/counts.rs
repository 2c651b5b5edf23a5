//! Counts of all workers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

/// Counts that workers add to.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connections as in [`Totals::split`].
    pub split: AtomicU64,
    /// Connections as in [`Totals::multipath`].
    pub multipath: AtomicU64,
    /// Connections as in [`Totals::orderly`].
    pub orderly: AtomicU64,
    /// Connections as in [`Totals::reset`].
    pub reset: AtomicU64,
    /// Connections as in [`Totals::refused`].
    pub refused: AtomicU64,
    /// Connections as in [`Totals::too_many`].
    pub too_many: AtomicU64,
    /// Bytes to the far ends and to the guests.
    pub bytes: [AtomicU64; 2],
}

/// The numbers of connections and bytes since the process began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Connections that are split now.
    pub open: u64,
    /// Connections that were split since the start.
    pub split: u64,
    /// Split connections whose far end speaks Multipath TCP.
    pub multipath: u64,
    /// Connections that both ends closed.
    pub orderly: u64,
    /// Connections that an end reset, or that was lost.
    pub reset: u64,
    /// Connections that the second end refused or did not answer; the first got a reset.
    pub refused: u64,
    /// Connections that were reset at once, as there were the maximum number of all or of
    /// the guest's already.
    pub too_many: u64,
    /// Bytes that the far ends' sockets took.
    pub bytes_to_far_ends: u64,
    /// Bytes that the guests' sockets took.
    pub bytes_to_guests: u64,
}

impl Counts {
    /// Returns the numbers, with this many connections now.
    pub fn totals(&self, open: usize) -> Totals {
        Totals {
            open: open as u64,
            split: self.split.load(Relaxed),
            multipath: self.multipath.load(Relaxed),
            orderly: self.orderly.load(Relaxed),
            reset: self.reset.load(Relaxed),
            refused: self.refused.load(Relaxed),
            too_many: self.too_many.load(Relaxed),
            bytes_to_far_ends: self.bytes[0].load(Relaxed),
            bytes_to_guests: self.bytes[1].load(Relaxed),
        }
    }
}
