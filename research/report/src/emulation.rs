//! The error of an emulated network, which delivers frames when the machine has time for it. Rates and queues
//! are exact for the times at which frames are read (`uc-net`); how late they are read is not counted.

use uc_experiment::{Nanos, RunRecord};

use crate::Report;

/// Part of an empty round trip that lateness may add to it in the mean. Above it the emulator's own delay is no
/// longer small against the path's.
const ADDED_MAX: f64 = 0.5;

/// Describes by how much frames were late, in the worst run of each statistic; `None` where no network was
/// emulated.
pub(crate) fn lateness(report: &Report<'_>) -> Option<String> {
    let worst = |name: &str| {
        let counted = report
            .records
            .iter()
            .filter_map(|record| late(record, name));
        counted.max()
    };
    let (mean, most) = (worst("wire_late_mean_ns")?, worst("wire_late_max_ns")?);
    let tail = worst("wire_late_p99_ns")?;
    let of_trip = |record: &RunRecord| {
        let point = report.points.iter().find(|it| it.number == record.point)?;
        let trip = point.experiment.network.round_trip();
        let late = late(record, "wire_late_mean_ns")?;
        // the data's delivery and the ACK's
        (trip > Nanos::ZERO).then(|| 2.0 * late.0 as f64 / trip.0 as f64)
    };
    let of_trip = report.records.iter().filter_map(of_trip);
    let of_trip = of_trip.fold(0.0, f64::max);
    let mut words = format!(
        "emulated network: frames were up to {mean} late in the mean, {tail} at the 99th percentile and \
         {most} at most, which adds up to {:.0} % to an empty round trip in the mean",
        of_trip * 100.0
    );
    if of_trip > ADDED_MAX {
        words.push_str(": this machine did not keep up, so use fewer --jobs or a lower rate");
    }
    Some(words)
}

fn late(record: &RunRecord, name: &str) -> Option<Nanos> {
    // rounded up to a microsecond
    let round = |ns: &u64| Nanos(ns.div_ceil(1_000) * 1_000);
    record.counters.get(name).map(round)
}
