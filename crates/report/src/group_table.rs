//! What the network did to each group, as rows of a table.

use std::collections::BTreeSet;

use uc_experiment::series::Series;
use uc_experiment::{Case, FlowRecord, Guests};

use crate::Report;
use crate::numbers::number;

/// The columns.
pub(crate) const HEADER: [&str; 7] = [
    "case",
    "group",
    "flows",
    "Mbit/s per flow",
    "dropped per run",
    "marked per run",
    "negotiated ECN",
];

/// One row for each group of each case that was run.
pub(crate) fn rows(report: &Report<'_>) -> Vec<[String; 7]> {
    let cases = report.experiment.cases.iter();
    cases
        .flat_map(|case| {
            case.guests
                .iter()
                .filter_map(|guests| row(report, case, guests))
        })
        .collect()
}

fn row(report: &Report<'_>, case: &Case, guests: &Guests) -> Option<[String; 7]> {
    let records = || {
        report
            .records
            .iter()
            .filter(|record| record.case == case.name)
    };
    let runs = records()
        .map(|record| record.run)
        .collect::<BTreeSet<u32>>()
        .len();
    let flows: Vec<&FlowRecord> = records()
        .flat_map(|record| &record.flows)
        .filter(|flow| flow.group == guests.name)
        .collect();
    if flows.is_empty() {
        return None;
    }
    let measured_ns = report.experiment.measured_ns();
    let rates: Vec<f64> = flows
        .iter()
        .filter_map(|flow| Series::of(flow, &measured_ns))
        .map(|series| series.goodput_bps() / 1e6)
        .collect();
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let per_run = |total: u64| number(total as f64 / runs as f64);
    let negotiated = flows.iter().filter(|flow| flow.negotiated_ecn).count();
    Some([
        case.name.clone(),
        guests.name.clone(),
        guests.total_flows().to_string(),
        number(mean),
        per_run(flows.iter().map(|flow| flow.drops).sum()),
        per_run(flows.iter().map(|flow| flow.marks).sum()),
        format!("{negotiated} of {}", flows.len()),
    ])
}
