//! A table of the transfers of each group, by their sizes.

use std::collections::BTreeMap;

use uc_experiment::{Bytes, Completion, Statistic};

use crate::numbers::number;
use crate::run_set::RunSet;

/// Returns the column names, and a row for each decade of sizes of the transfers that began in the measured
/// part, of each group of each case at each point.
pub(crate) fn rows(sets: &[RunSet<'_>]) -> Vec<[String; 7]> {
    let header = [
        "transfers",
        "n",
        "unfinished",
        "mean s",
        "p99 s",
        "slowdown p50",
        "slowdown p99",
    ];
    let mut rows = vec![header.map(String::from)];
    for set in sets {
        for group in &set.case.guests {
            let mut decades: BTreeMap<u32, Vec<&Completion>> = BTreeMap::new();
            for flow in set.flows(|flow| flow.group == group.name) {
                for transfer in &flow.completions {
                    if set.experiment.measured_ns().contains(&transfer.started_ns) {
                        let decade = transfer.bytes.max(1).ilog10();
                        decades.entry(decade).or_default().push(transfer);
                    }
                }
            }
            let name = format!("{}: {}", set.name, group.name);
            rows.extend(
                decades
                    .iter()
                    .map(|(decade, all)| row(set, &name, *decade, all)),
            );
        }
    }
    rows
}

fn row(set: &RunSet<'_>, name: &str, decade: u32, transfers: &[&Completion]) -> [String; 7] {
    let end = set.experiment.duration;
    let times_s: Vec<f64> = transfers
        .iter()
        .map(|one| one.time(end).as_secs_f64())
        .collect();
    let slowdown = |one: &&Completion| Some(one.time(end).0 as f64 / one.ideal_ns? as f64);
    let slowdowns: Vec<f64> = transfers.iter().filter_map(slowdown).collect();
    let shown = |statistic: Statistic, values: &[f64]| {
        statistic.of(values).map_or_else(|| "–".into(), number)
    };
    let size = |decade: u32| Bytes(10u32.saturating_pow(decade));
    [
        format!("{name}, {} to {}", size(decade), size(decade + 1)),
        transfers.len().to_string(),
        transfers
            .iter()
            .filter(|one| one.finished_ns.is_none())
            .count()
            .to_string(),
        shown(Statistic::Mean, &times_s),
        shown(Statistic::P99, &times_s),
        shown(Statistic::P50, &slowdowns),
        shown(Statistic::P99, &slowdowns),
    ]
}
