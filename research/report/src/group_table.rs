//! A table of each group's goodput, drops, marks and timeouts.

use uc_experiment::Guests;

use crate::numbers::number;
use crate::run_set::RunSet;
use crate::unit::Unit;

/// Returns the column names.
pub(crate) fn header(rate: Unit) -> [String; 8] {
    [
        "case".to_owned(),
        "group".to_owned(),
        "flows".to_owned(),
        format!("{} per flow", rate.name),
        "dropped per run".to_owned(),
        "marked per run".to_owned(),
        "timeouts per run".to_owned(),
        "negotiated ECN".to_owned(),
    ]
}

/// Returns one row for each group of each case that was run, at each point.
pub(crate) fn rows(sets: &[RunSet<'_>], rate: Unit) -> Vec<[String; 8]> {
    let of_set = |set: &RunSet<'_>| {
        let groups = set.case.guests.iter();
        let rows: Vec<[String; 8]> = groups.filter_map(|guests| row(set, guests, rate)).collect();
        rows
    };
    sets.iter().flat_map(of_set).collect()
}

fn row(set: &RunSet<'_>, guests: &Guests, rate: Unit) -> Option<[String; 8]> {
    let flows = || set.flows(|flow| flow.group == guests.name);
    let count = flows().count();
    if count == 0 {
        return None;
    }
    let rates_bps = set.goodputs_bps(|flow| flow.group == guests.name);
    let mean_bps = rates_bps.iter().sum::<f64>() / rates_bps.len().max(1) as f64;
    let per_run = |total: u64| number(total as f64 / set.records().len() as f64);
    let negotiated = flows().filter(|flow| flow.negotiated_ecn).count();
    let timeouts: Option<u64> = flows().map(|flow| flow.timeouts.map(u64::from)).sum();
    Some([
        set.name.clone(),
        guests.name.clone(),
        guests.total_flows().to_string(),
        number(mean_bps / rate.size),
        per_run(flows().map(|flow| flow.drops).sum()),
        per_run(flows().map(|flow| flow.marks).sum()),
        timeouts.map_or_else(|| "–".into(), per_run),
        format!("{negotiated} of {count}"),
    ])
}
