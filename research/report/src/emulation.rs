//! The error of an emulated network, which delivers frames when the machine has time for it. Rates and queues
//! have none: they follow from the times at which frames enter (`uc-net`).

use uc_experiment::{Nanos, RunRecord};

use crate::Report;

/// Part of an empty round trip by which frames may be late in the mean: more, and the queues are no longer
/// most of what packets wait for.
const MEAN_MAX: f64 = 0.5;

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
        Some(late(record, "wire_late_mean_ns")?.0 as f64 / trip.0.max(1) as f64)
    };
    let of_trip = report.records.iter().filter_map(of_trip);
    let of_trip = of_trip.fold(0.0, f64::max);
    let mut words = format!(
        "emulated network: frames were up to {mean} late in the mean, {tail} at the 99th percentile and \
         {most} at most; the mean is {:.0} % of an empty round trip",
        of_trip * 100.0
    );
    if of_trip > MEAN_MAX {
        words.push_str(": this machine did not keep up, so use fewer --jobs or a lower rate");
    }
    Some(words)
}

fn late(record: &RunRecord, name: &str) -> Option<Nanos> {
    // rounded up to a microsecond
    let round = |ns: &u64| Nanos(ns.div_ceil(1_000) * 1_000);
    record.counters.get(name).map(round)
}
