//! Counts of all workers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use uc_service::commands::split::Totals;

/// Counters of connections, to which all worker threads add.
#[derive(Debug, Default)]
pub struct Counts {
    /// Number of connections that were split ([`Totals::split`]).
    pub split: AtomicU64,
    /// Number of connections with Multipath TCP ([`Totals::multipath`]).
    pub multipath: AtomicU64,
    /// Number of connections that both ends closed ([`Totals::orderly`]).
    pub orderly: AtomicU64,
    /// Number of connections that ended by a reset ([`Totals::reset`]).
    pub reset: AtomicU64,
    /// Number of refused connections ([`Totals::refused`]).
    pub refused: AtomicU64,
    /// Number of connections above a maximum ([`Totals::too_many`]).
    pub too_many: AtomicU64,
    /// Number of bytes that were moved to the far ends, and to the guests.
    pub bytes: [AtomicU64; 2],
}

impl Counts {
    /// Returns the counters; `open`: number of connections that are split now.
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
