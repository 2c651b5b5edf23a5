//! The results as CSV tables: a row for every flow of every run, and a row for every verdict.
//!
//! `docs/results.md` describes the columns; their names are an interface. An empty cell is a number
//! that does not exist.

use std::io::Write;

use uc_experiment::series::Series;
use uc_experiment::{FlowRecord, Point, Reproduced, RunRecord, Verdict};

use crate::{Error, Report};

/// Columns of the table of flows that follow `point` and a column `at_AXIS` for every axis.
pub const FLOW_COLUMNS: [&str; 22] = [
    "case",
    "run",
    "seed",
    "group",
    "flow",
    "goodput_bps",
    "delivered_bytes",
    "sent_bytes",
    "resent_bytes",
    "resent_segments",
    "send_window_segments",
    "srtt_us",
    "dropped_packets",
    "marked_packets",
    "timeouts",
    "longest_ack_gap_ms",
    "negotiated_ecn",
    "transfers",
    "transfers_finished",
    "transfer_mean_ms",
    "transfer_p99_ms",
    "transfer_max_ms",
];

/// Columns of the table of verdicts that follow `name` and a column `at_AXIS` for every axis.
pub const VERDICT_COLUMNS: [&str; 16] = [
    "along",
    "paper",
    "ours",
    "standard_error",
    "interval_low",
    "interval_high",
    "least",
    "most",
    "runs",
    "expect",
    "holds",
    "why",
    "basis",
    "verdict",
    "differs",
    "reproduced",
];

/// Writes a row for every flow of every run, in the order of points, cases, runs, groups, flows.
///
/// # Errors
/// [`Error::Csv`] if it can't be written.
pub fn flows(report: &Report<'_>, out: impl Write) -> Result<(), Error> {
    let mut table = ::csv::Writer::from_writer(out);
    let mut header = vec!["point".to_owned()];
    header.extend(axis_columns(report));
    header.extend(FLOW_COLUMNS.map(String::from));
    table.write_record(&header)?;
    for point in report.points {
        let here = |record: &&RunRecord| record.point == point.number;
        for record in report.records.iter().filter(here) {
            for flow in &record.flows {
                table.write_record(flow_row(point, record, flow))?;
            }
        }
    }
    table.flush().map_err(::csv::Error::from)?;
    Ok(())
}

pub(crate) fn axis_columns(report: &Report<'_>) -> impl Iterator<Item = String> {
    let sweeps = report.experiment.sweeps.iter();
    sweeps.map(|sweep| format!("at_{}", sweep.name))
}

fn flow_row(point: &Point, record: &RunRecord, flow: &FlowRecord) -> Vec<String> {
    let measured_ns = point.experiment.measured_ns();
    let case = point.experiment.case(&record.case);
    let observed = case.is_some_and(|case| case.is_observed(&flow.group));
    let series = Series::of(flow, &measured_ns).map(|series| series.observed(observed));
    let mut row = vec![point.number.to_string()];
    row.extend(point.labels.iter().map(|(_, label)| label.clone()));
    row.extend([
        record.case.clone(),
        record.run.to_string(),
        record.seed.to_string(),
        flow.group.clone(),
        flow.index.to_string(),
    ]);
    row.extend(series_cells(series));
    let gap_bin_ms = uc_experiment::ACK_GAP_BIN.0 / 1_000_000;
    let longest_gap_ms = flow.ack_gaps.as_ref().map(|bins| {
        let last = bins.iter().rposition(|count| *count > 0);
        last.map_or(0, |bin| (bin as u64 + 1) * gap_bin_ms)
    });
    row.extend([
        flow.drops.to_string(),
        flow.marks.to_string(),
        cell(flow.timeouts),
        cell(longest_gap_ms),
        flow.negotiated_ecn.to_string(),
    ]);
    row.extend(transfer_cells(flow));
    row
}

/// Returns the cells `goodput_bps` to `srtt_us`.
fn series_cells(series: Option<Series<'_>>) -> [String; 7] {
    let Some(series) = series else {
        return Default::default();
    };
    [
        format!("{:.0}", series.goodput_bps()),
        series.growth(|sample| sample.delivered_bytes).to_string(),
        series.growth(|sample| sample.bytes_sent).to_string(),
        series
            .growth(|sample| sample.bytes_retransmitted)
            .to_string(),
        series
            .growth(|sample| sample.total_retransmits.into())
            .to_string(),
        cell(
            series
                .mean_window_segments()
                .map(|mean| format!("{mean:.3}")),
        ),
        cell(series.mean_srtt_us().map(|mean| format!("{mean:.1}"))),
    ]
}

/// Returns the cells `transfers` to `transfer_max_ms`.
fn transfer_cells(flow: &FlowRecord) -> [String; 5] {
    let times = flow.completions.iter().filter_map(|transfer| {
        let finished_ns = transfer.finished_ns?;
        Some(finished_ns.saturating_sub(transfer.started_ns))
    });
    let mut times_ns: Vec<u64> = times.collect();
    times_ns.sort_unstable();
    let ms = |ns: f64| format!("{:.6}", ns / 1e6);
    let sum_ns: u64 = times_ns.iter().sum();
    let mean = (!times_ns.is_empty()).then(|| ms(sum_ns as f64 / times_ns.len() as f64));
    // The nearest rank: the smallest time that 99 % do not exceed.
    let rank = (times_ns.len() * 99).div_ceil(100).saturating_sub(1);
    [
        flow.completions.len().to_string(),
        times_ns.len().to_string(),
        cell(mean),
        cell(times_ns.get(rank).map(|ns| ms(*ns as f64))),
        cell(times_ns.last().map(|ns| ms(*ns as f64))),
    ]
}

/// Writes a row for every verdict; for a trend, one for each of its steps.
///
/// # Errors
/// [`Error::Csv`] if it can't be written.
pub fn verdicts(report: &Report<'_>, out: impl Write) -> Result<(), Error> {
    let mut table = ::csv::Writer::from_writer(out);
    let mut header = vec!["name".to_owned()];
    header.extend(axis_columns(report));
    header.extend(VERDICT_COLUMNS.map(String::from));
    table.write_record(&header)?;
    for verdict in report.verdicts() {
        for row in verdict_rows(report, verdict) {
            table.write_record(row)?;
        }
    }
    table.flush().map_err(::csv::Error::from)?;
    Ok(())
}

fn verdict_rows(report: &Report<'_>, verdict: &Verdict) -> Vec<Vec<String>> {
    if verdict.steps.is_empty() {
        let means = Means {
            ours: verdict.ours,
            spread: verdict.spread,
            interval: verdict.interval,
            extremes: verdict.extremes,
            n: verdict.n,
        };
        return vec![verdict_row(report, verdict, None, &means)];
    }
    let steps = verdict.steps.iter().map(|step| {
        let means = Means {
            ours: Some(step.ours),
            spread: step.spread,
            interval: step.interval,
            extremes: None,
            n: step.n,
        };
        verdict_row(report, verdict, Some(&step.label), &means)
    });
    steps.collect()
}

/// The numbers of one row of the table of verdicts.
struct Means {
    ours: Option<f64>,
    spread: Option<f64>,
    interval: Option<[f64; 2]>,
    extremes: Option<[f64; 2]>,
    n: usize,
}

fn verdict_row(
    report: &Report<'_>,
    verdict: &Verdict,
    step: Option<&str>,
    means: &Means,
) -> Vec<String> {
    let along = match &verdict.expect {
        uc_experiment::Claim::Trend { along, .. } => along.as_str(),
        uc_experiment::Claim::Bound(_) => "",
    };
    let label = |axis: &str| {
        let fixed = verdict.at.iter().find(|(name, _)| name == axis);
        let moving = step.filter(|_| axis == along);
        fixed
            .map(|(_, label)| label.as_str())
            .or(moving)
            .unwrap_or_default()
            .to_owned()
    };
    let mut row = vec![verdict.name.clone()];
    row.extend(
        report
            .experiment
            .sweeps
            .iter()
            .map(|sweep| label(&sweep.name)),
    );
    row.extend([
        along.to_owned(),
        cell(verdict.paper),
        cell(means.ours),
        cell(means.spread),
        cell(means.interval.map(|[low, _]| low)),
        cell(means.interval.map(|[_, high]| high)),
        cell(means.extremes.map(|[least, _]| least)),
        cell(means.extremes.map(|[_, most]| most)),
        means.n.to_string(),
        verdict.expect.to_string(),
        verdict.holds.to_string(),
        cell(verdict.why.as_ref().or(verdict.late.as_ref())),
        cell(verdict.basis.map(uc_experiment::Basis::key)),
        verdict.outcome.to_string(),
        cell(verdict.differs.as_ref()),
        cell(verdict.reproduced().map(Reproduced::key)),
    ]);
    row
}

pub(crate) fn cell(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
