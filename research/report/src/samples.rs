//! The samples of all flows as a CSV table: a row for every sample of every flow of every run.
//!
//! `docs/sweeps.md` describes the columns; their names are an interface. An empty cell is a number
//! that does not exist.

use std::io::Write;

use uc_experiment::{FlowSample, RunRecord};

use crate::csv::{axis_columns, cell};
use crate::{Error, Report};

/// Columns of the table that follow `point` and a column `at_AXIS` for every axis.
pub const SAMPLE_COLUMNS: [&str; 19] = [
    "case",
    "run",
    "group",
    "flow",
    "at_ns",
    "delivered_bytes",
    "cwnd_segments",
    "snd_wnd_bytes",
    "srtt_us",
    "unacked_segments",
    "bytes_sent",
    "bytes_retransmitted",
    "total_retransmits",
    "mss_bytes",
    "shadow_window_bytes",
    "shadow_alpha_q30",
    "exact_alpha_q30",
    "guest_alpha_q30",
    "rto_us",
];

/// Writes a row for every sample, in the order of points, cases, runs, groups, flows and times.
///
/// # Errors
/// [`Error::Csv`] if it can't be written.
pub fn flows(report: &Report<'_>, out: impl Write) -> Result<(), Error> {
    let mut table = ::csv::Writer::from_writer(out);
    let mut header = vec!["point".to_owned()];
    header.extend(axis_columns(report));
    header.extend(SAMPLE_COLUMNS.map(String::from));
    table.write_record(&header)?;
    for point in report.points {
        let here = |record: &&RunRecord| record.point == point.number;
        for record in report.records.iter().filter(here) {
            for flow in &record.flows {
                let mut start = vec![point.number.to_string()];
                start.extend(point.labels.iter().map(|(_, label)| label.clone()));
                start.extend([
                    record.case.clone(),
                    record.run.to_string(),
                    flow.group.clone(),
                    flow.index.to_string(),
                ]);
                for sample in &flow.samples {
                    table.write_record(start.iter().chain(&cells(sample)))?;
                }
            }
        }
    }
    table.flush().map_err(::csv::Error::from)?;
    Ok(())
}

/// Returns the cells from `at_ns` on.
fn cells(sample: &FlowSample) -> [String; 15] {
    [
        sample.at_ns.to_string(),
        sample.delivered_bytes.to_string(),
        sample.cwnd_segments.to_string(),
        sample.snd_wnd_bytes.to_string(),
        sample.srtt_us.to_string(),
        sample.unacked_segments.to_string(),
        sample.bytes_sent.to_string(),
        sample.bytes_retransmitted.to_string(),
        sample.total_retransmits.to_string(),
        sample.mss_bytes.to_string(),
        cell(sample.shadow_window_bytes),
        cell(sample.shadow_alpha_q30),
        cell(sample.exact_alpha_q30),
        cell(sample.guest_alpha_q30),
        cell(sample.rto_us),
    ]
}
