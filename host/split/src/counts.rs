//! Counts of all workers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use uc_service::commands::split::Totals;

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
