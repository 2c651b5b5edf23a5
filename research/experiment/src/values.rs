//! Values of measures in each repetition: the only input of verdicts.

use std::collections::{BTreeMap, BTreeSet};

use crate::arm::Arm;
use crate::case::{Case, Guests};
use crate::expect::Expectation;
use crate::measure::{Measure, QueueUnit};
use crate::measure_error::{MeasureError, Which};
use crate::record::RunRecord;
use crate::repetition::{Repetition, divided};
use crate::schema::Experiment;
use crate::statistic::Statistic;
use crate::sweep::Point;

/// Value of a measure in one repetition, or why it can't be computed.
pub type Value = Result<f64, String>;

/// A measure of one case at one point of the sweep, in each repetition.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Number of the point.
    pub point: u32,
    /// Measure that is no ratio; in [`Values::of_results`] also ratios.
    pub measure: Measure,
    /// Values by the number of the repetition.
    pub runs: BTreeMap<u32, Value>,
}

impl Row {
    /// Returns the name of the case whose runs the values are of; empty for a ratio.
    pub fn case(&self) -> &str {
        self.measure.case().unwrap_or_default()
    }
}

/// The values that the expectations of an experiment need from its runs: a row for each measure of a case at each point
/// where an expectation needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    rows: Vec<Row>,
}

impl Values {
    /// Computes the values from records of runs on `arm`. Rows are in the order of the expectations and points. A
    /// measure without any run has a row, too.
    pub fn of(experiment: &Experiment, points: &[Point], records: &[RunRecord], arm: Arm) -> Self {
        let mut values = Self::default();
        for expect in &experiment.expects {
            if !expect.is_measured_on(arm) {
                continue;
            }
            for point in points.iter().filter(|point| applies(expect, point)) {
                for measure in expect.measure.sides() {
                    values.compute(point, measure, records);
                }
            }
        }
        values
    }

    /// Computes the values by which two results are compared: those of each expectation's measure,
    /// ratios included, and of measures that every run has, whatever the file expects: goodput and
    /// completion time of each group, and queueing delay. Measures without any value are left out.
    pub fn of_results(
        experiment: &Experiment,
        points: &[Point],
        records: &[RunRecord],
        arm: Arm,
    ) -> Self {
        let mut values = Self::of(experiment, points, records, arm);
        for expect in &experiment.expects {
            for point in points.iter().filter(|point| applies(expect, point)) {
                if let ratio @ Measure::Ratio { .. } = &expect.measure {
                    values.add_ratio(point, ratio);
                }
            }
        }
        for point in points {
            for case in &point.experiment.cases {
                for measure in of_any(case) {
                    values.compute(point, &measure, records);
                }
            }
        }
        let has_number = |row: &Row| row.runs.values().any(Result::is_ok);
        values.rows.retain(has_number);
        values
    }

    /// Adds a ratio of two measures that have rows, in the repetitions that both cases have.
    fn add_ratio(&mut self, point: &Point, ratio: &Measure) {
        if self.row(point.number, ratio).is_some() {
            return;
        }
        let runs = ratio.cases().into_iter();
        let runs = runs.map(|case| self.runs_of(point.number, case));
        let common = runs.reduce(|one, other| &one & &other).unwrap_or_default();
        let value = |run: u32| {
            let value = self.value(point, ratio, run);
            (run, value.map_err(|error| error.to_string()))
        };
        let runs = common.into_iter().map(value).collect();
        self.rows.push(Row {
            point: point.number,
            measure: ratio.clone(),
            runs,
        });
    }

    fn compute(&mut self, point: &Point, measure: &Measure, records: &[RunRecord]) {
        if self.row(point.number, measure).is_some() {
            return;
        }
        let mut row = Row {
            point: point.number,
            measure: measure.clone(),
            runs: BTreeMap::new(),
        };
        let here = |record: &&RunRecord| {
            record.point == point.number && Some(record.case.as_str()) == measure.case()
        };
        for record in records.iter().filter(here) {
            let repetition = Repetition::at(point, std::slice::from_ref(record), record.run);
            let value = repetition.measure(measure).and_then(|value| {
                let of_run = || Which::at(point, record.run);
                finite(value, of_run)
            });
            row.runs
                .insert(record.run, value.map_err(|error| error.to_string()));
        }
        self.rows.push(row);
    }

    /// Returns all rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the row of a measure at a point.
    pub fn row(&self, point: u32, measure: &Measure) -> Option<&Row> {
        let mut rows = self.rows.iter();
        rows.find(|row| row.point == point && row.measure == *measure)
    }

    /// Adds the values of further repetitions, and rows that are new.
    pub fn add(&mut self, other: Values) {
        for row in other.rows {
            let same = |known: &&mut Row| known.point == row.point && known.measure == row.measure;
            match self.rows.iter_mut().find(same) {
                Some(known) => known.runs.extend(row.runs),
                None => self.rows.push(row),
            }
        }
    }

    /// Returns the numbers of the repetitions that any row has, with a value or a reason why there is none.
    pub fn runs(&self) -> BTreeSet<u32> {
        let runs = self.rows.iter().flat_map(|row| row.runs.keys());
        runs.copied().collect()
    }

    /// Returns the numbers of the repetitions that all rows of a case at a point have.
    pub fn runs_of(&self, point: u32, case: &str) -> BTreeSet<u32> {
        let here = |row: &&Row| row.point == point && row.case() == case;
        let runs = self.rows.iter().filter(here);
        let runs = runs.map(|row| row.runs.keys().copied().collect::<BTreeSet<u32>>());
        runs.reduce(|one, other| &one & &other).unwrap_or_default()
    }

    /// Returns the points (by number) and cases (by name) that have a row.
    pub fn places(&self) -> BTreeSet<(u32, String)> {
        let rows = self.rows.iter();
        rows.map(|row| (row.point, row.case().to_owned())).collect()
    }

    /// Removes from all rows the repetitions with numbers below `repeat` that a row lacks, as after an interrupted
    /// command.
    pub fn keep_complete(&mut self, repeat: u32) {
        let in_all = |run: &u32| self.rows.iter().all(|row| row.runs.contains_key(run));
        let broken: BTreeSet<u32> = (0..repeat).filter(|run| !in_all(run)).collect();
        for row in &mut self.rows {
            row.runs.retain(|run, _| !broken.contains(run));
        }
    }

    /// Returns the value of a measure, which may be a ratio, in a repetition.
    ///
    /// # Errors
    /// The run is missing, the record had no such value, or the ratio's denominator is 0.
    pub fn value(&self, point: &Point, measure: &Measure, run: u32) -> Result<f64, MeasureError> {
        let which = || Which::at(point, run);
        if let Measure::Ratio { of, to } = measure {
            let (above, below) = (self.value(point, of, run)?, self.value(point, to, run)?);
            return finite(divided(above, below, to, which)?, which);
        }
        let row = self.row(point.number, measure);
        match row.and_then(|row| row.runs.get(&run)) {
            Some(Ok(value)) => Ok(*value),
            Some(Err(why)) => Err(MeasureError::NoNumber(why.clone())),
            None => Err(MeasureError::NoRecord {
                case: measure.case().unwrap_or_default().to_owned(),
                which: which(),
            }),
        }
    }
}

impl FromIterator<Row> for Values {
    fn from_iter<I: IntoIterator<Item = Row>>(rows: I) -> Self {
        let mut values = Self::default();
        for row in rows {
            values.add(Values { rows: vec![row] });
        }
        values
    }
}

/// Returns the measures that every run of a case has, whatever the file expects.
fn of_any(case: &Case) -> Vec<Measure> {
    let delay = Measure::Queue {
        case: case.name.clone(),
        statistic: Statistic::Mean,
        unit: QueueUnit::Seconds,
        during: None,
    };
    let of_group = |guests: &Guests| {
        let (case, of) = (case.name.clone(), guests.name.clone());
        [
            Measure::Goodput {
                case: case.clone(),
                of: of.clone(),
                during: None,
            },
            Measure::Fct {
                case,
                of,
                statistic: Statistic::Mean,
                sizes: None,
                slowdown: false,
            },
        ]
    };
    let groups = case.guests.iter().flat_map(of_group);
    groups.chain([delay]).collect()
}

/// Returns whether the point has the labels that the expectation's `at` requires.
pub(crate) fn applies(expect: &Expectation, point: &Point) -> bool {
    expect.at.iter().all(|(axis, labels)| {
        let here = point.label(axis);
        labels.list().iter().any(|label| here == Some(label))
    })
}

fn finite(value: f64, which: impl Fn() -> Which) -> Result<f64, MeasureError> {
    if value.is_finite() {
        return Ok(value);
    }
    let run = which();
    Err(MeasureError::NoNumber(format!(
        "{run}: the measure computed {value}, which is not a finite number"
    )))
}
