//! Lateness of an emulated network: whether a run on real kernels counts.
//!
//! The network hands frames over when the machine has time for it, so both ends see a longer and less even path than
//! the file's. If the mean delay exceeds a part of the round trip (`late_max`), the run is of another network, and does
//! not count.

use crate::record::RunRecord;
use crate::schema::Experiment;
use crate::sweep::Point;
use crate::units::Nanos;

/// Longest delay of a single frame in a run that counts: a machine that stands still for longer than most round trips
/// of the experiments loses packets at its interfaces.
const HELD_UP_MAX: Nanos = Nanos(50_000_000);

/// Name of a record's counter: how often the run was made before and was too late to count.
const REPEATS: &str = "wire_late_repeats";

/// The lateness of the frames of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// Mean over all frames.
    pub mean: Nanos,
    /// 99th percentile over all frames.
    pub p99: Nanos,
    /// Maximum over all frames.
    pub max: Nanos,
}

impl RunRecord {
    /// Returns how late the emulated network's frames were; `None` if the record has no such counters, as in the
    /// simulator.
    pub fn lateness(&self) -> Option<Lateness> {
        let counter = |name| self.counters.get(name).copied().map(Nanos);
        Some(Lateness {
            mean: counter("wire_late_mean_ns")?,
            p99: counter("wire_late_p99_ns")?,
            max: counter("wire_late_max_ns")?,
        })
    }

    /// Returns how often the run was made before and was too late to count.
    pub fn late_repeats(&self) -> u64 {
        self.counters.get(REPEATS).copied().unwrap_or(0)
    }

    /// Stores how often the run was made before and was too late to count.
    pub fn set_late_repeats(&mut self, repeats: u64) {
        self.counters.insert(REPEATS.to_owned(), repeats);
    }
}

impl Experiment {
    /// Returns the mean delay that late frames add to an empty round trip, divided by that round trip; 0 where the file
    /// has no propagation delay.
    pub fn part_of_round_trip(&self, lateness: Lateness) -> f64 {
        let trip_ns = self.network.round_trip().0 * u64::from(self.slower);
        if trip_ns == 0 {
            return 0.0;
        }
        // the data's delivery and the ACK's
        2.0 * lateness.mean.0 as f64 / trip_ns as f64
    }

    /// Returns the reason why a run was too late to count (a single frame, or the mean above `late_max`); `None` if it
    /// counts.
    pub fn why_late(&self, record: &RunRecord) -> Option<String> {
        let lateness = record.lateness()?;
        if lateness.max > HELD_UP_MAX {
            let max_ms = lateness.max.0 / 1_000_000;
            return Some(format!("the network stood still for {max_ms} ms"));
        }
        let part = self.part_of_round_trip(lateness);
        (part > self.late_max).then(|| {
            format!(
                "late frames added {:.0} % to the empty round trip in the mean, and the limit `late_max` \
                 is {:.0} %",
                part * 100.0,
                self.late_max * 100.0
            )
        })
    }
}

/// Returns the reason why a run of one of these points was too late to count ([`Experiment::why_late`]); `None` if it
/// counts, or if no point has its number.
pub fn why_late(points: &[Point], record: &RunRecord) -> Option<String> {
    let mut points = points.iter();
    let point = points.find(|point| point.number == record.point)?;
    point.experiment.why_late(record)
}
