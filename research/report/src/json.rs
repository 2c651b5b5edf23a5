//! The verdicts as one JSON object for programs.

use std::collections::BTreeMap;

use serde::Serialize;
use uc_experiment::{Reproduced, Unjudged, Verdict};

use crate::emulation::Emulation;
use crate::{Error, Report};

/// The JSON object; its keys are an interface.
#[derive(Serialize)]
struct Object<'a> {
    experiment: &'a str,
    arm: &'a str,
    seed: u64,
    commit: &'a str,
    runs: u32,
    points: Vec<BTreeMap<&'a str, &'a str>>,
    results: Vec<Row<'a>>,
    unjudged: &'a [Unjudged],
    #[serde(skip_serializing_if = "Option::is_none")]
    emulation: Option<Emulation>,
    holds: bool,
}

/// A verdict, and whether it reproduces the paper's number or direction.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    verdict: &'a Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    reproduced: Option<Reproduced>,
}

impl<'a> From<&'a Verdict> for Row<'a> {
    fn from(verdict: &'a Verdict) -> Self {
        let reproduced = verdict.reproduced();
        Self {
            verdict,
            reproduced,
        }
    }
}

/// Formats `{experiment, arm, seed, commit, runs, points, results, unjudged, holds}`, indented.
/// `holds` tells whether every result holds or differs with a reason. `runs` is the number of
/// repetitions of every case; `n` of a result may be larger, as undecided ones lead to more.
/// `points` has a map from axes to labels for every point of the sweep, one empty map without a
/// sweep. `results` has an object for every verdict: `{name, at, paper, ours, spread, interval,
/// expect, basis, verdict, holds, differs, why, n, steps, reproduced}`. `verdict` is `holds`, `fails`,
/// `undecided`, `differs` or `stale`; `holds` is true for `holds` and `stale`. `reproduced`, present
/// where the paper's bar holds, is `number` or `direction`. `basis` is null
/// where the file states none, and `differs` absent. Where `ours` can't be computed it is null,
/// `verdict` is `fails` and `why` gives the reason; else `why` is absent. `paper` is null where the
/// paper states no number; `spread` (the standard error of `ours`) and `interval` (its 95 % confidence interval) are null
/// with a single run. `late` says that runs were too late to count, and `verdict` is then `undecided`; else it is
/// absent. `at` (axes and labels) and `steps` (the points of a trend) are absent when
/// empty. `unjudged` names the expectations that these runs can't decide, and the reason. `emulation`,
/// absent in the simulator, is `{repeated, late, mean_ns, p99_ns, max_ns, part, part_max}`: how often a run was
/// made again because its network was late, how many runs were late even alone, and the worst run's
/// lateness. On a virtual clock the same command gives the same bytes.
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
        points: report.points.iter().map(labels).collect(),
        results: report.verdicts().iter().map(Row::from).collect(),
        unjudged: &report.evaluation.unjudged,
        emulation: Emulation::of(report),
        holds: report.holds(),
    };
    Ok(serde_json::to_string_pretty(&object)?)
}

fn labels(point: &uc_experiment::Point) -> BTreeMap<&str, &str> {
    let labels = point.labels.iter();
    labels
        .map(|(axis, label)| (axis.as_str(), label.as_str()))
        .collect()
}
