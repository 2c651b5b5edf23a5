//! The error of an emulated network, which delivers frames when the machine has time for it. Rates and queues
//! are exact for the times at which frames are read (`uc-net`); how late they are read is not counted.

use serde::Serialize;
use uc_experiment::{Experiment, Nanos, RunRecord};

use crate::Report;

/// By how much an emulated network was late in the runs of a report.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Emulation {
    /// Times that a run was made again because its network was late.
    repeated: u64,
    /// Runs that were late even alone, and do not count.
    late: usize,
    /// Largest of the runs' means, ns.
    mean_ns: u64,
    /// Largest of the runs' 99th percentiles, ns.
    p99_ns: u64,
    /// Largest lateness of a frame, ns.
    max_ns: u64,
    /// Largest part of an empty round trip that a run's mean adds to it.
    part: f64,
    /// The part above which a run does not count: the file's `late_max`.
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
