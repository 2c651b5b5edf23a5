//! Evaluation: the expectations compared with the runs.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

use crate::arm::Arm;
use crate::estimate::Estimate;
use crate::expect::{Bound, Claim, Direction, Expectation};
use crate::measure_error::MeasureError;
use crate::record::RunRecord;
use crate::repetition::Repetition;
use crate::schema::Experiment;
use crate::sweep::Point;

/// The result of all expectations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Verdicts in the order of the expectations; for each, in the order of the points.
    pub verdicts: Vec<Verdict>,
    /// Expectations that these runs can't decide.
    pub unjudged: Vec<Unjudged>,
}

/// An expectation that was not judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unjudged {
    /// Description of the expectation.
    pub name: String,
    /// Reason why it was not judged.
    pub why: String,
}

/// The result of one expectation at one point, or along one axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Description of the expectation.
    pub name: String,
    /// Point of the sweep, by axis and label, without the axis of a trend or of a mean; empty
    /// without a sweep.
    #[serde(serialize_with = "as_map", skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<(String, String)>,
    /// Number of the paper, where it states one.
    pub paper: Option<f64>,
    /// Mean over the repetitions; of a trend, at its last step. `None` where it can't be computed.
    pub ours: Option<f64>,
    /// Standard error: sample standard deviation / √n; `None` with a single repetition.
    pub spread: Option<f64>,
    /// 95 % confidence interval of the mean; `None` with a single repetition.
    pub interval: Option<[f64; 2]>,
    /// Claim about the mean.
    pub expect: Claim,
    /// Whether the claim holds. A measure that can't be computed does not.
    pub holds: bool,
    /// Reason why there is no mean, if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Number of repetitions.
    pub n: usize,
    /// Points of a trend in the order of its axis; else empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Minimum and maximum of the repetitions.
    #[serde(skip)]
    pub extremes: Option<[f64; 2]>,
}

/// One point of a trend.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Label on the trend's axis.
    pub label: String,
    /// Mean over the repetitions.
    pub ours: f64,
    /// Standard error of the mean.
    pub spread: Option<f64>,
    /// 95 % confidence interval of the mean.
    pub interval: Option<[f64; 2]>,
    /// Number of repetitions.
    pub n: usize,
}

fn as_map<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(axis, label)| (axis, label)))
}

/// Judges every expectation of the experiment at each of its points, over all repetitions among
/// `records`, which come from `arm`. Where a measure can't be computed the expectation does not
/// hold, and the verdict gives the reason; the others are judged all the same.
///
/// # Errors
/// A run is missing, or the experiment's sweep can't be applied (see [`Experiment::validate`]).
pub fn evaluate(
    experiment: &Experiment,
    records: &[RunRecord],
    arm: Arm,
) -> Result<Evaluation, MeasureError> {
    let points = experiment.points().map_err(MeasureError::Points)?;
    let mut runs: BTreeSet<u32> = records.iter().map(|record| record.run).collect();
    if runs.is_empty() {
        // Without any record, repetition 0 is named as missing.
        runs.insert(0);
    }
    let mut found = Evaluation::default();
    for expect in &experiment.expects {
        if let Some(why) = not_judged(expect, arm, runs.len()) {
            let name = expect.name.clone();
            found.unjudged.push(Unjudged { name, why });
            continue;
        }
        let judge = Judge {
            expect,
            records,
            runs: &runs,
        };
        let applies = |point: &&Point| applies(expect, point);
        let points: Vec<&Point> = points.iter().filter(applies).collect();
        match expect.claim() {
            Claim::Bound(bound) => {
                let alone = || points.iter().map(|&point| vec![point]).collect();
                let over = expect.over.as_deref();
                for points in over.map_or_else(alone, |over| lines(&points, over)) {
                    found.verdicts.push(judge.bound(&points, bound)?);
                }
            }
            Claim::Trend { along, direction } => {
                for points in lines(&points, &along) {
                    found
                        .verdicts
                        .push(judge.trend(&points, &along, direction)?);
                }
            }
        }
    }
    Ok(found)
}

fn not_judged(expect: &Expectation, arm: Arm, runs: usize) -> Option<String> {
    let known = expect.measure.only_on();
    if let Some(other) = expect.on.filter(|on| *on != arm) {
        return Some(format!("is for {other}, and this ran on {arm}"));
    }
    if let Some(other) = known.filter(|_| !expect.measure.can_be_told_by(arm)) {
        return Some(format!("only {other} measures it, and this ran on {arm}"));
    }
    let trend = expect.along.is_some() && runs < 2;
    trend.then(|| "needs two repetitions or more for its confidence intervals".into())
}

/// Returns whether the point has the labels that the expectation requires.
fn applies(expect: &Expectation, point: &Point) -> bool {
    expect.at.iter().all(|(axis, labels)| {
        let here = point.label(axis);
        labels.list().iter().any(|label| here == Some(label))
    })
}

/// Groups the points that differ only along the axis, in its order.
fn lines<'a>(points: &[&'a Point], along: &str) -> Vec<Vec<&'a Point>> {
    let mut lines: Vec<Vec<&Point>> = Vec::new();
    for &point in points {
        let same = |line: &&mut Vec<&Point>| others(line[0], along) == others(point, along);
        match lines.iter_mut().find(same) {
            Some(line) => line.push(point),
            None => lines.push(vec![point]),
        }
    }
    lines
}

/// Returns the labels of a point on the other axes.
fn others(point: &Point, along: &str) -> Vec<(String, String)> {
    let other = |(axis, _): &&(String, String)| axis != along;
    point.labels.iter().filter(other).cloned().collect()
}

/// One expectation and the runs to compare it with.
struct Judge<'a> {
    expect: &'a Expectation,
    records: &'a [RunRecord],
    runs: &'a BTreeSet<u32>,
}

impl Judge<'_> {
    /// Estimates the mean over the points from each run.
    fn estimate(&self, points: &[&Point]) -> Result<Estimate, MeasureError> {
        let one = |run: u32, point: &Point| {
            let repetition = Repetition::at(point, self.records, run);
            repetition.measure(&self.expect.measure)
        };
        let mean = |&run: &u32| {
            let values = points.iter().map(|point| one(run, point));
            Ok(values.sum::<Result<f64, MeasureError>>()? / points.len() as f64)
        };
        let values = self
            .runs
            .iter()
            .map(mean)
            .collect::<Result<Vec<f64>, _>>()?;
        Ok(Estimate::of(&values))
    }

    fn bound(&self, points: &[&Point], bound: Bound) -> Result<Verdict, MeasureError> {
        let at = match &self.expect.over {
            Some(over) => others(points[0], over),
            None => points[0].labels.clone(),
        };
        Ok(match self.estimate(points) {
            Ok(ours) => self.verdict(ours, at, bound.holds(ours.mean)),
            Err(error) => self.unknown(error, at)?,
        })
    }

    fn trend(
        &self,
        points: &[&Point],
        along: &str,
        direction: Direction,
    ) -> Result<Verdict, MeasureError> {
        let estimates = points.iter().map(|&point| self.estimate(&[point]));
        let estimates = match estimates.collect::<Result<Vec<_>, _>>() {
            Ok(estimates) => estimates,
            Err(error) => return self.unknown(error, others(points[0], along)),
        };
        let moves = |pair: &[Estimate]| match direction {
            Direction::Falls => pair[1].clearly_below(&pair[0]),
            Direction::Rises => pair[0].clearly_below(&pair[1]),
        };
        let holds = estimates.len() >= 2 && estimates.windows(2).all(moves);
        let step = |(point, ours): (&&Point, &Estimate)| Step {
            label: point.label(along).unwrap_or_default().to_owned(),
            ours: ours.mean,
            spread: ours.standard_error,
            interval: ours.interval,
            n: ours.n,
        };
        let steps = points.iter().zip(&estimates).map(step).collect();
        let last = estimates[estimates.len() - 1];
        Ok(Verdict {
            steps,
            ..self.verdict(last, others(points[0], along), holds)
        })
    }

    fn verdict(&self, ours: Estimate, at: Vec<(String, String)>, holds: bool) -> Verdict {
        Verdict {
            ours: Some(ours.mean),
            spread: ours.standard_error,
            interval: ours.interval,
            holds,
            extremes: Some([ours.min, ours.max]),
            ..self.open(at)
        }
    }

    /// Returns the verdict on a measure that the runs don't contain; a missing run is an error
    /// instead.
    fn unknown(
        &self,
        error: MeasureError,
        at: Vec<(String, String)>,
    ) -> Result<Verdict, MeasureError> {
        if error.is_of_runs() {
            return Err(error);
        }
        Ok(Verdict {
            why: Some(error.to_string()),
            ..self.open(at)
        })
    }

    /// Returns the verdict before anything is measured.
    fn open(&self, at: Vec<(String, String)>) -> Verdict {
        Verdict {
            name: self.expect.name.clone(),
            at,
            paper: self.expect.paper,
            ours: None,
            spread: None,
            interval: None,
            expect: self.expect.claim(),
            holds: false,
            why: None,
            n: self.runs.len(),
            steps: Vec::new(),
            extremes: None,
        }
    }
}
