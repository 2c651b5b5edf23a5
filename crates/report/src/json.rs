//! The verdicts as one object for programs.

use serde::Serialize;
use uc_experiment::Verdict;

use crate::{Error, Report};

/// The object; its keys are an interface.
#[derive(Serialize)]
struct Object<'a> {
    experiment: &'a str,
    arm: &'a str,
    seed: u64,
    commit: &'a str,
    runs: u32,
    results: &'a [Verdict],
    holds: bool,
}

/// `{experiment, arm, seed, commit, runs, results: [{name, paper, ours, spread, expect, holds}],
/// holds}`, indented. `paper` is null where the paper states no number, `spread` (the standard
/// error of `ours`) with a single run.
///
/// # Errors
/// [`Error::Json`] if it can't be serialised.
pub fn json(report: &Report<'_>) -> Result<String, Error> {
    let object = Object {
        experiment: &report.experiment.name,
        arm: &report.meta.arm,
        seed: report.meta.seed,
        commit: &report.meta.commit,
        runs: report.meta.runs,
        results: report.verdicts,
        holds: report.holds(),
    };
    Ok(serde_json::to_string_pretty(&object)?)
}
