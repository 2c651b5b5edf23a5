//! Evaluation: the expectations compared with the runs.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

use crate::arm::Arm;
use crate::basis::Basis;
use crate::estimate::Estimate;
use crate::expect::{Bound, Claim, Direction, Expectation};
use crate::lateness::why_late;
use crate::measure::Measure;
use crate::measure_error::{MeasureError, Which};
use crate::outcome::Outcome;
use crate::ratio;
use crate::record::RunRecord;
use crate::repetition::zero_below;
use crate::schema::Experiment;
use crate::sweep::Point;
use crate::values::{Values, applies};

/// The result of all expectations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Verdicts in the order of the expectations; for each, in the order of the points.
    pub verdicts: Vec<Verdict>,
    /// Expectations that these runs can't decide.
    pub unjudged: Vec<Unjudged>,
}

impl Evaluation {
    /// Returns whether every expectation that was judged holds or differs.
    pub fn passes(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.outcome.passes())
    }

    /// Iterates over the verdicts with this outcome.
    pub fn with(&self, outcome: Outcome) -> impl Iterator<Item = &Verdict> {
        let verdicts = self.verdicts.iter();
        verdicts.filter(move |verdict| verdict.outcome == outcome)
    }
}

/// An expectation that was not judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unjudged {
    /// Description of the expectation.
    pub name: String,
    /// Reason why the expectation was not judged.
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
    /// Mean over the repetitions; for a trend, the mean at its last point. `None` where it can't be computed.
    pub ours: Option<f64>,
    /// Standard error: sample standard deviation / √n; `None` with a single repetition.
    pub spread: Option<f64>,
    /// 95 % confidence interval of the mean; `None` with a single repetition.
    pub interval: Option<[f64; 2]>,
    /// Claim about the mean.
    pub expect: Claim,
    /// Origin of the claim, if the file states one.
    pub basis: Option<Basis>,
    /// Interval compared with the claim.
    #[serde(rename = "verdict")]
    pub outcome: Outcome,
    /// Whether the claim holds: [`Outcome::holds`].
    pub holds: bool,
    /// Reason of the file why the result differs from the paper, if it gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub differs: Option<String>,
    /// Reason why there is no mean, if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Description of the runs that do not count because their network was late, if there are any; the
    /// outcome is then [`Outcome::Undecided`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<String>,
    /// Number of repetitions.
    pub n: usize,
    /// Points of a trend in the order of its axis; else empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Minimum and maximum of the repetitions.
    #[serde(skip)]
    pub extremes: Option<[f64; 2]>,
    /// Points (by number) and cases (by name) whose runs the verdict depends on.
    #[serde(skip)]
    pub places: Vec<(u32, String)>,
}

/// One point of a trend.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Label on the trend's axis.
    pub label: String,
    /// Mean over the repetitions.
    pub ours: f64,
    /// Standard error of the mean; `None` with a single repetition.
    pub spread: Option<f64>,
    /// 95 % confidence interval of the mean; `None` with a single repetition.
    pub interval: Option<[f64; 2]>,
    /// Number of repetitions.
    pub n: usize,
}

fn as_map<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(axis, label)| (axis, label)))
}

/// Judges every expectation of the experiment at each of its points, over the repetitions among
/// `records`, which come from `arm`; see [`judge`]. Where one of the runs was too late to count
/// ([`Experiment::why_late`]), the expectation stays undecided.
///
/// # Errors
/// A run is missing, or the experiment's sweep can't be applied (see [`Experiment::validate`]).
pub fn evaluate(
    experiment: &Experiment,
    records: &[RunRecord],
    arm: Arm,
) -> Result<Evaluation, MeasureError> {
    let points = experiment.points().map_err(MeasureError::Points)?;
    let values = Values::of(experiment, &points, records, arm);
    let mut found = judge(experiment, &points, &values, arm)?;
    let late: Vec<(&RunRecord, String)> = records
        .iter()
        .filter_map(|record| Some((record, why_late(&points, record)?)))
        .collect();
    for verdict in &mut found.verdicts {
        let is_of_it = |record: &RunRecord| {
            let mut places = verdict.places.iter();
            places.any(|(point, case)| (*point, case) == (record.point, &record.case))
        };
        let here = late.iter().filter(|(record, _)| is_of_it(record));
        let here: Vec<&str> = here.map(|(_, why)| why.as_str()).collect();
        if let Some(why) = here.first() {
            let runs = here.len();
            verdict.late = Some(format!(
                "{runs} of its runs too late to count, the first: {why}"
            ));
            verdict.outcome = Outcome::Undecided;
            verdict.holds = false;
        }
    }
    Ok(found)
}

/// Judges every expectation of the experiment at each of its points by the values of its measures
/// on `arm`. Where a measure can't be computed the expectation fails, and the verdict gives the
/// reason; the others are judged all the same.
///
/// All rows must have the same repetitions below the file's `repeat`. Of the repetitions above,
/// which undecided expectations led to, each expectation counts those that all its cases have.
///
/// # Errors
/// A run is missing.
pub fn judge(
    experiment: &Experiment,
    points: &[Point],
    values: &Values,
    arm: Arm,
) -> Result<Evaluation, MeasureError> {
    let repeat = experiment.repeats(arm);
    let mut runs = values.runs();
    let alone = runs.iter().all(|run| *run == 0);
    runs.retain(|run| *run < repeat);
    if runs.is_empty() {
        // Without any record, repetition 0 is named as missing.
        runs.insert(0);
    }
    let single = alone && experiment.repeats_max(arm) == 1;
    let mut found = Evaluation::default();
    for expect in &experiment.expects {
        if let Some(why) = not_judged(expect, arm, single) {
            let name = expect.name.clone();
            found.unjudged.push(Unjudged { name, why });
            continue;
        }
        let judge = Judge {
            expect,
            values,
            repeat,
            runs: &runs,
            single,
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

fn not_judged(expect: &Expectation, arm: Arm, single: bool) -> Option<String> {
    if let Some(other) = expect.on.filter(|on| *on != arm) {
        return Some(format!("is for {other}, and this ran on {arm}"));
    }
    if let Some(other) = expect.measure.only_on().filter(|only| *only != arm) {
        return Some(format!("only {other} measures it, and this ran on {arm}"));
    }
    let trend = expect.along.is_some() && single;
    trend.then(|| "needs two repetitions or more for its confidence intervals".into())
}

/// Groups the points that differ only in their label on the axis `along`; each group is in the axis's order.
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
    values: &'a Values,
    /// Number of repetitions of each case at each point of the sweep, by the experiment's file.
    repeat: u32,
    /// Numbers below `repeat` of the repetitions that at least one case has run.
    runs: &'a BTreeSet<u32>,
    /// Whether the experiment has only one repetition.
    single: bool,
}

impl Judge<'_> {
    /// Returns the points (by number) and cases (by name) that the measure needs.
    fn places(&self, points: &[&Point]) -> Vec<(u32, String)> {
        let cases = self.expect.measure.cases();
        let at = |point: &&Point| {
            let number = point.number;
            let cases = cases.iter();
            cases.map(move |case| (number, (*case).to_owned()))
        };
        points.iter().flat_map(at).collect()
    }

    /// Returns the numbers of the repetitions to judge by: the file's, and further ones that all `places` have.
    fn runs(&self, places: &[(u32, String)]) -> BTreeSet<u32> {
        let beyond = |(point, case): &(u32, String)| -> BTreeSet<u32> {
            let mut here = self.values.runs_of(*point, case);
            here.retain(|run| *run >= self.repeat);
            here
        };
        let all = places.iter().map(beyond);
        let common = all.reduce(|one, other| &one & &other);
        self.runs | &common.unwrap_or_default()
    }

    /// Returns a function that gives the values at `point` of a measure that is no ratio, one per run.
    fn side(
        &self,
        point: &Point,
        runs: &BTreeSet<u32>,
    ) -> impl Fn(&Measure) -> Result<Vec<f64>, MeasureError> {
        let one = |measure: &Measure, run: u32| self.values.value(point, measure, run);
        move |measure| runs.iter().map(|&run| one(measure, run)).collect()
    }

    /// Returns the values of [`ratio::linear`] at each point.
    fn linear(
        &self,
        points: &[&Point],
        runs: &BTreeSet<u32>,
    ) -> Result<Vec<Vec<f64>>, MeasureError> {
        let measure = &self.expect.measure;
        let at =
            |point: &&Point| ratio::linear(measure, &self.side(point, runs), &zero(point, runs));
        points.iter().map(at).collect()
    }

    /// Estimates the measure at a point, or its mean over several.
    fn estimate(&self, points: &[&Point], runs: &BTreeSet<u32>) -> Result<Estimate, MeasureError> {
        if let [point] = points {
            let measure = &self.expect.measure;
            return ratio::estimate(measure, &self.side(point, runs), &zero(point, runs));
        }
        let values = self.linear(points, runs)?;
        let mean = |run: usize| {
            let values = values.iter().map(|at_point| at_point[run]);
            values.sum::<f64>() / points.len() as f64
        };
        let means: Vec<f64> = (0..runs.len()).map(mean).collect();
        Ok(Estimate::of(&means))
    }

    fn bound(&self, points: &[&Point], bound: Bound) -> Result<Verdict, MeasureError> {
        let at = match &self.expect.over {
            Some(over) => others(points[0], over),
            None => points[0].labels.clone(),
        };
        let places = self.places(points);
        let runs = self.runs(&places);
        let open = self.open(at, places, runs.len());
        let ours = match self.estimate(points, &runs) {
            Ok(ours) => ours,
            Err(error) => return unknown(error, open),
        };
        let outcome = bound.judge(&ours, self.single);
        Ok(self.verdict(ours, outcome, open))
    }

    fn trend(
        &self,
        points: &[&Point],
        along: &str,
        direction: Direction,
    ) -> Result<Verdict, MeasureError> {
        let places = self.places(points);
        let runs = self.runs(&places);
        let open = self.open(others(points[0], along), places, runs.len());
        let known = |points: &[&Point]| self.estimate(points, &runs);
        let estimates: Result<Vec<Estimate>, MeasureError> =
            points.iter().map(|point| known(&[point])).collect();
        let (values, estimates) = match (self.linear(points, &runs), estimates) {
            (Ok(values), Ok(estimates)) => (values, estimates),
            (Err(error), _) | (_, Err(error)) => return unknown(error, open),
        };
        let moves = |pair: &[Vec<f64>]| {
            // Repetitions of one number have one seed, so that their differences tell more.
            let pairs = pair[1].iter().zip(&pair[0]);
            let differences: Vec<f64> = pairs.map(|(after, before)| after - before).collect();
            direction.judge(&Estimate::of(&differences))
        };
        let outcome = Outcome::all(values.windows(2).map(moves));
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
            ..self.verdict(last, outcome, open)
        })
    }

    fn verdict(&self, ours: Estimate, outcome: Outcome, open: Verdict) -> Verdict {
        let reason = self.expect.differs.is_some();
        let outcome = if reason {
            outcome.with_reason()
        } else {
            outcome
        };
        let mut verdict = Verdict {
            ours: Some(ours.mean),
            spread: ours.standard_error,
            interval: ours.interval,
            outcome,
            extremes: Some([ours.min, ours.max]),
            ..open
        };
        if let (Outcome::Holds, Some(paper)) = (outcome, verdict.hidden_number()) {
            verdict.outcome = Bound::near(paper).judge(&ours, self.single);
        }
        verdict.holds = verdict.outcome.holds();
        verdict
    }

    /// Returns the verdict before anything is measured.
    fn open(&self, at: Vec<(String, String)>, places: Vec<(u32, String)>, n: usize) -> Verdict {
        Verdict {
            name: self.expect.name.clone(),
            at,
            paper: self.expect.paper,
            ours: None,
            spread: None,
            interval: None,
            expect: self.expect.claim(),
            basis: self.expect.basis,
            outcome: Outcome::Fails,
            holds: false,
            differs: self.expect.differs.clone(),
            why: None,
            late: None,
            n,
            steps: Vec::new(),
            extremes: None,
            places,
        }
    }
}

/// Returns the error of a denominator whose mean over the runs is 0.
fn zero(point: &Point, runs: &BTreeSet<u32>) -> impl Fn(&Measure) -> MeasureError {
    let which = Which::at(point, runs.first().copied().unwrap_or_default());
    move |to| zero_below(to, which.clone())
}

/// Returns the verdict `open` with the reason why the measure can't be computed. A missing run is an error instead.
fn unknown(error: MeasureError, open: Verdict) -> Result<Verdict, MeasureError> {
    if error.is_of_runs() {
        return Err(error);
    }
    Ok(Verdict {
        why: Some(error.to_string()),
        ..open
    })
}
