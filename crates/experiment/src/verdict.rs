//! The expectations held against the runs.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::expect::{Bound, Expectation};
use crate::record::RunRecord;
use crate::repetition::{MeasureError, Repetition};
use crate::schema::Experiment;

/// One expectation and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The expectation's line for people.
    pub name: String,
    /// The paper's number, where it states one.
    pub paper: Option<f64>,
    /// The mean over the repetitions.
    pub ours: f64,
    /// Its standard error: sample standard deviation / √n; none with a single repetition.
    pub spread: Option<f64>,
    /// The bounds for the mean.
    pub expect: Bound,
    /// Whether the mean is inside them.
    pub holds: bool,
    /// How many repetitions.
    #[serde(skip)]
    pub n: usize,
    /// The least of them.
    #[serde(skip)]
    pub min: f64,
    /// The most of them.
    #[serde(skip)]
    pub max: f64,
}

/// The verdict on every expectation of the experiment, over all repetitions among `records`.
///
/// # Errors
/// A measure can't be computed in a repetition, or nothing was run at all.
pub fn evaluate(
    experiment: &Experiment,
    records: &[RunRecord],
) -> Result<Vec<Verdict>, MeasureError> {
    let runs: BTreeSet<u32> = records.iter().map(|record| record.run).collect();
    // With no record at all, repetition 0 says which one is missing.
    let runs = if runs.is_empty() {
        BTreeSet::from([0])
    } else {
        runs
    };
    let repetitions: Vec<Repetition<'_>> = runs
        .into_iter()
        .map(|run| Repetition::of(experiment, records, run))
        .collect();
    experiment
        .expects
        .iter()
        .map(|expect| judge(expect, &repetitions))
        .collect()
}

fn judge(expect: &Expectation, repetitions: &[Repetition<'_>]) -> Result<Verdict, MeasureError> {
    let one = |repetition: &Repetition<'_>| repetition.measure(&expect.measure);
    let values = repetitions
        .iter()
        .map(one)
        .collect::<Result<Vec<f64>, _>>()?;
    let n = values.len();
    let mean = values.iter().sum::<f64>() / n as f64;
    let bound = expect.bound();
    Ok(Verdict {
        name: expect.name.clone(),
        paper: expect.paper,
        ours: mean,
        spread: standard_error(&values, mean),
        expect: bound,
        holds: bound.holds(mean),
        n,
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    })
}

/// Sample standard deviation / √n; none below two values.
fn standard_error(values: &[f64], mean: f64) -> Option<f64> {
    let n = values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() >= 2).then(|| (squares / (n - 1.0) / n).sqrt())
}
