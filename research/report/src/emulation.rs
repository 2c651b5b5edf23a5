//! The error of an emulated network, which delivers frames late if the machine has no time for it. Rates and queues are
//! exact for the times at which frames are read (`uc-net`); how late frames are read is not counted.

use serde::Serialize;
use uc_experiment::{Experiment, Nanos, RunRecord};

use crate::Report;

/// How late an emulated network was in the runs of a report.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Emulation {
    /// Number of times that a run was repeated because its network was late.
    repeated: u64,
    /// Number of runs that were late even without other runs at the same time, and so do not count.
    late: usize,
    /// Largest mean lateness of a run's frames, in ns.
    mean_ns: u64,
    /// Largest 99th percentile of the lateness of a run's frames, in ns.
    p99_ns: u64,
    /// Largest lateness of any frame, in ns.
    max_ns: u64,
    /// Largest part that a run's mean lateness adds to the round trip of an empty network: 0.1 is 10 %.
    part: f64,
    /// Largest part of an empty round trip that lateness may add to a run that counts: the file's `late_max`.
    part_max: f64,
}

impl Emulation {
    /// Summarises the runs; `None` where no network was emulated.
    pub(crate) fn of(report: &Report<'_>) -> Option<Self> {
        let experiment_of = |record: &RunRecord| -> Option<&Experiment> {
            let mut points = report.points.iter();
            let point = points.find(|point| point.number == record.point)?;
            Some(&point.experiment)
        };
        let mut found = Self {
            repeated: 0,
            late: 0,
            mean_ns: 0,
            p99_ns: 0,
            max_ns: 0,
            part: 0.0,
            part_max: report.experiment.late_max,
        };
        let mut runs = 0;
        for record in report.records {
            let (Some(lateness), Some(experiment)) = (record.lateness(), experiment_of(record))
            else {
                continue;
            };
            runs += 1;
            found.repeated += record.late_repeats();
            found.late += usize::from(experiment.why_late(record).is_some());
            found.mean_ns = found.mean_ns.max(lateness.mean.0);
            found.p99_ns = found.p99_ns.max(lateness.p99.0);
            found.max_ns = found.max_ns.max(lateness.max.0);
            found.part = found.part.max(experiment.part_of_round_trip(lateness));
        }
        (runs > 0).then_some(found)
    }

    /// Describes the lateness in one line.
    pub(crate) fn words(&self) -> String {
        // rounded up to a microsecond
        let round = |ns: u64| Nanos(ns.div_ceil(1_000) * 1_000);
        let (mean, tail, most) = (round(self.mean_ns), round(self.p99_ns), round(self.max_ns));
        let mut words = format!(
            "emulated network: frames were up to {mean} late in the mean, {tail} at the 99th percentile and \
             {most} at most, which adds up to {:.0} % to an empty round trip in the mean",
            self.part * 100.0
        );
        if self.repeated > 0 {
            words.push_str(&format!(
                "; late runs made again with fewer at a time: {}",
                self.repeated
            ));
        }
        if self.late > 0 {
            words.push_str(&format!(
                "; runs too late to count even alone: {} (`late_max` is {:.0} %): this machine did not keep \
                 up, so run it on a quieter or faster one, or lower the rate",
                self.late,
                self.part_max * 100.0
            ));
        }
        words
    }
}
