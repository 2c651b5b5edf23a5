//! Reports of an experiment: a table for the terminal, an object for programs, a page for readers.
//! All three show the same verdicts, and none computes a measure of its own.
//!
//! - [`json`]: one object with fixed keys.
//! - [`csv`]: the verdicts, and the flows of all runs, as tables for programs.
//! - [`samples`]: the samples of all flows, as a table for programs.
//! - [`records`]: the records themselves; [`qlog`]: a flow of a record for other programs.
//! - [`table`]: plain text, at most 100 columns.
//! - [`html`]: one self-contained page, figures included; it loads nothing.
//! - [`compare`]: two results measure by measure, as a table, an object and a page.
//! - [`overview`]: all kept records on one page; [`quotes`] and [`tables`]: numbers and tables of documents
//!   from records.

mod axis;
mod chart;
pub mod compare;
pub mod csv;
mod curves;
mod distribution;
mod emulation;
mod escape;
mod figures;
mod flow_styles;
mod group_table;
pub mod html;
pub mod json;
mod law_events;
mod line_style;
mod numbers;
pub mod overview;
mod panels;
pub mod qlog;
pub mod quotes;
pub mod records;
mod run_set;
pub mod samples;
mod setup;
pub mod table;
pub mod tables;
mod transfer_table;
mod unit;
mod words;

pub use words::measure;

use uc_experiment::{Evaluation, Experiment, Point, RunRecord, Verdict};

/// Where the runs of a report come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Backend of the runs: `live`, `sim` or `vm`.
    pub arm: String,
    /// Seed of the first repetition.
    pub seed: u64,
    /// Commit of the program that made the runs.
    pub commit: String,
    /// Number of repetitions of every case.
    pub runs: u32,
    /// Command that repeats the runs of the report.
    pub command: String,
}

/// The data from which a report is made.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// Experiment as it was run, overrides included.
    pub experiment: &'a Experiment,
    /// Points of the experiment's sweep.
    pub points: &'a [Point],
    /// All runs of all cases at all points.
    pub records: &'a [RunRecord],
    /// Verdicts on the experiment's expectations.
    pub evaluation: &'a Evaluation,
    /// Where the runs come from.
    pub meta: &'a Meta,
}

impl<'a> Report<'a> {
    /// Returns the verdicts on the experiment's expectations.
    pub fn verdicts(&self) -> &'a [Verdict] {
        &self.evaluation.verdicts
    }

    /// Returns whether every expectation that was judged holds or differs with a reason.
    pub fn holds(&self) -> bool {
        self.evaluation.passes()
    }
}

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A figure could not be drawn.
    #[error(
        "the figure `{figure}` can't be drawn: {why}; check the records for numbers out of range"
    )]
    Figure {
        /// Title of the figure that can't be drawn.
        figure: String,
        /// Error of the drawing library.
        why: String,
    },
    /// The object could not be written.
    #[error("the report can't be written as a JSON object: {0}")]
    Json(#[from] serde_json::Error),
    /// A trace could not be written.
    #[error("a flow can't be written as a qlog trace: {0}")]
    Qlog(std::io::Error),
    /// A table could not be written.
    #[error("the report can't be written as a CSV table: {0}")]
    Csv(#[from] ::csv::Error),
}
