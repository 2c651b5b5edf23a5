//! What is told of an experiment: a table for the terminal, an object for programs, a page for
//! people. All three say the same verdicts, and none computes a measure of its own.
//!
//! - [`json`]: one object with fixed keys.
//! - [`csv`]: the verdicts, and the flows of all runs, as tables for programs.
//! - [`records`]: the records themselves.
//! - [`table`]: plain text, at most 100 columns.
//! - [`html`]: one self-contained page, figures included; it loads nothing.

mod axis;
mod cast;
mod chart;
pub mod csv;
mod curves;
mod distribution;
mod figures;
mod group_table;
pub mod html;
mod ink;
pub mod json;
mod numbers;
mod panels;
pub mod records;
mod scene;
mod setup;
pub mod table;
mod unit;
mod words;

use uc_experiment::{Evaluation, Experiment, Point, RunRecord, Verdict};

/// How the runs came to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// What they ran on: `live` or `sim`.
    pub arm: String,
    /// The seed of all of them.
    pub seed: u64,
    /// The commit of the program.
    pub commit: String,
    /// Repetitions of every case.
    pub runs: u32,
    /// The command that repeats them.
    pub command: String,
}

/// Everything that a report is made of.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The experiment as it was run, overrides included.
    pub experiment: &'a Experiment,
    /// Its points.
    pub points: &'a [Point],
    /// All runs of all cases at all points.
    pub records: &'a [RunRecord],
    /// The verdicts on those runs.
    pub evaluation: &'a Evaluation,
    /// How the runs came to be.
    pub meta: &'a Meta,
}

impl<'a> Report<'a> {
    /// The verdicts.
    pub fn verdicts(&self) -> &'a [Verdict] {
        &self.evaluation.verdicts
    }

    /// Whether every expectation that was judged holds.
    pub fn holds(&self) -> bool {
        self.verdicts().iter().all(|verdict| verdict.holds)
    }
}

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A figure could not be drawn.
    #[error("the figure `{figure}` can't be drawn: {why}; look for absurd numbers in the records")]
    Figure {
        /// Its title.
        figure: String,
        /// What the drawing library says.
        why: String,
    },
    /// The object could not be written.
    #[error("the JSON object can't be written: {0}")]
    Json(#[from] serde_json::Error),
    /// A table could not be written.
    #[error("the CSV table can't be written: {0}")]
    Csv(#[from] ::csv::Error),
}
