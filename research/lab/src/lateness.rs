//! The emulator's lateness: the time from when a frame was due at its destination to when it was written there. Reports
//! state it (`uc-report`), and `uc-bench run` repeats a run that was too late to count
//! ([`uc_experiment::Experiment::why_late`]).

use std::collections::BTreeMap;

/// Width of a bucket, the resolution of the percentile.
const BUCKET_NS: u64 = 1_000;
/// Number of buckets. Lateness beyond the last (20 ms) counts in it; mean and maximum stay exact.
const BUCKETS: usize = 20_000;

/// The distribution of lateness in one run.
#[derive(Debug, Clone)]
pub struct Lateness {
    buckets: Vec<u32>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            count: 0,
            sum_ns: 0,
            max_ns: 0,
        }
    }
}

impl Lateness {
    /// Counts one frame.
    pub fn add(&mut self, late_ns: u64) {
        let bucket = ((late_ns / BUCKET_NS) as usize).min(BUCKETS - 1);
        self.buckets[bucket] = self.buckets[bucket].saturating_add(1);
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(late_ns);
        self.max_ns = self.max_ns.max(late_ns);
    }

    /// Returns frames, mean, 99th percentile (rounded up to a microsecond) and maximum, as
    /// counters.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        [
            ("wire_delivered_frames", self.count),
            (
                "wire_late_mean_ns",
                self.sum_ns.checked_div(self.count).unwrap_or(0),
            ),
            ("wire_late_p99_ns", self.percentile_ns(99).min(self.max_ns)),
            ("wire_late_max_ns", self.max_ns),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Returns the upper edge of the bucket below which `percent` of all frames lie.
    fn percentile_ns(&self, percent: u64) -> u64 {
        let rank = (self.count * percent).div_ceil(100);
        let mut seen = 0;
        for (bucket, &count) in self.buckets.iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                return (bucket as u64 + 1) * BUCKET_NS;
            }
        }
        self.max_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_frames_lies_above_the_percentile() {
        let mut lateness = Lateness::default();
        for late_us in 0..1000 {
            lateness.add(late_us * 1000 + 7);
        }
        lateness.add(3_000_000_000);
        let counters = lateness.counters();
        assert_eq!(counters["wire_delivered_frames"], 1001);
        assert_eq!(counters["wire_late_p99_ns"], 991_000);
        assert_eq!(counters["wire_late_max_ns"], 3_000_000_000);
    }

    #[test]
    fn a_run_without_frames_has_zero_lateness() {
        assert!(
            Lateness::default()
                .counters()
                .values()
                .all(|&value| value == 0)
        );
    }
}
