//! The kept record of an experiment on one backend: the values of its measures in each repetition,
//! and where they come from. `results/README.md` shows all of them.
//!
//! A file has one JSON object a line: a head, and for each sitting (the runs that one command added) its circumstances
//! and rows.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::measure::Measure;
use crate::sweep::Point;
use crate::values::{Row, Value, Values};

/// Why a kept record can't be read.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// A line is not the JSON object that a record has at this place.
    #[error("line {line}: {why}; remove the file and accept the record again")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// Description of the fault in the line.
        why: String,
    },
    /// A row is of a point that the experiment's sweep does not have.
    #[error(
        "the record has a row for point {at}, which the experiment's sweep lacks; accept the \
         record again"
    )]
    Point {
        /// Labels of the point of the sweep.
        at: String,
    },
}

/// The experiment and the backend of a kept record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Path of the experiment's file, from the root of the repository.
    pub experiment: String,
    /// Overrides of the file's keys, as `--set` takes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// Backend of the runs.
    pub arm: Arm,
    /// Seed of repetition 0; the others count up from it.
    pub seed: u64,
    /// Hash of the keys that decide the runs: [`crate::Experiment::setup_hash`].
    pub setup: String,
}

/// Where the runs of a sitting come from. A simulated run depends on the program alone: all fields after `core` are
/// `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Circumstances {
    /// Commit of the program.
    pub commit: String,
    /// Git's hash of the folder `core/` at that commit.
    pub core: String,
    /// Time of the first run, in seconds since 1970-01-01 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_unix_s: Option<u64>,
    /// Release of the host's kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Model of the machine's processors and their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Load average over a minute, before the first run and after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<[f64; 2]>,
}

/// A row of a file: a measure at a point, and its values in consecutive repetitions, of which `from` is the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptRow {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    at: BTreeMap<String, String>,
    measure: Measure,
    #[serde(default, skip_serializing_if = "is_zero")]
    from: u32,
    /// Values, one per repetition; `null` where this sitting did not make the run.
    values: Vec<Option<Cell>>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A value, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Cell {
    Number(f64),
    Why(String),
}

impl From<&Value> for Cell {
    fn from(value: &Value) -> Self {
        match value {
            Ok(number) => Cell::Number(*number),
            Err(why) => Cell::Why(why.clone()),
        }
    }
}

impl From<Cell> for Value {
    fn from(cell: Cell) -> Self {
        match cell {
            Cell::Number(number) => Ok(number),
            Cell::Why(why) => Err(why),
        }
    }
}

/// A line of a file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Record(Head),
    Sitting(Circumstances),
    Row(KeptRow),
}

/// Runs that one command added to a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Sitting {
    /// Where the runs come from.
    pub circumstances: Circumstances,
    rows: Vec<KeptRow>,
}

impl Sitting {
    /// Creates a sitting from the values of its runs; measures without a run are left out.
    pub fn of(circumstances: Circumstances, points: &[Point], values: &Values) -> Self {
        let rows = values.rows().iter().filter(|row| !row.runs.is_empty());
        let rows = rows.map(|row| kept_row(row, points)).collect();
        Self {
            circumstances,
            rows,
        }
    }

    /// Returns the number of repetitions of the row with most values; cases may have fewer.
    pub fn repetitions(&self) -> usize {
        let made = |row: &KeptRow| row.values.iter().flatten().count();
        self.rows.iter().map(made).max().unwrap_or(0)
    }
}

fn kept_row(row: &Row, points: &[Point]) -> KeptRow {
    let point = points.iter().find(|point| point.number == row.point);
    let from = row.runs.keys().next().copied().unwrap_or(0);
    let to = row.runs.keys().next_back().copied().unwrap_or(0);
    KeptRow {
        at: point.map_or_else(BTreeMap::new, labels),
        measure: row.measure.clone(),
        from,
        values: (from..=to)
            .map(|run| row.runs.get(&run).map(Cell::from))
            .collect(),
    }
}

fn labels(point: &Point) -> BTreeMap<String, String> {
    point.labels.iter().cloned().collect()
}

/// A measure at a point, with its values from all commands that added runs to the record.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptMeasure {
    /// Labels of the point by axis; empty without a sweep.
    pub at: BTreeMap<String, String>,
    /// The measure, as the record's rows name it.
    pub measure: Measure,
    /// Values by the number of the repetition.
    pub runs: BTreeMap<u32, Value>,
}

impl KeptRow {
    /// Iterates over the runs that the sitting made.
    fn runs(&self) -> impl Iterator<Item = (u32, Value)> {
        let runs = (self.from..).zip(&self.values);
        runs.filter_map(|(run, cell)| Some((run, cell.clone()?.into())))
    }
}

/// The kept record of an experiment on one backend.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptRecord {
    /// Experiment and backend.
    pub head: Head,
    /// Sittings in the order of time; a record of the simulator has one.
    pub sittings: Vec<Sitting>,
}

impl KeptRecord {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// [`KeptError::Line`]: the first line that is no JSON object of a record, or not in order (a head, then sittings,
    /// each followed by its rows).
    pub fn read(text: &str) -> Result<Self, KeptError> {
        let wrong = |line: usize, why: String| KeptError::Line { line, why };
        let mut head = None;
        let mut sittings: Vec<Sitting> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line =
                serde_json::from_str(line).map_err(|error| wrong(number, error.to_string()))?;
            match (line, sittings.last_mut()) {
                (Line::Record(found), None) if head.is_none() => head = Some(found),
                (Line::Sitting(circumstances), _) if head.is_some() => sittings.push(Sitting {
                    circumstances,
                    rows: Vec::new(),
                }),
                (Line::Row(row), Some(sitting)) => sitting.rows.push(row),
                _ => {
                    return Err(wrong(
                        number,
                        "expected one record, then a sitting, then its rows".into(),
                    ));
                }
            }
        }
        let head = head.ok_or_else(|| wrong(1, "expected a record, found an empty file".into()))?;
        Ok(Self { head, sittings })
    }

    /// Formats the file's text.
    ///
    /// # Errors
    /// A value can't be written as JSON.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        let mut text = String::new();
        let mut put = |line: Line| -> Result<(), serde_json::Error> {
            text.push_str(&serde_json::to_string(&line)?);
            text.push('\n');
            Ok(())
        };
        put(Line::Record(self.head.clone()))?;
        for sitting in &self.sittings {
            put(Line::Sitting(sitting.circumstances.clone()))?;
            for row in &sitting.rows {
                put(Line::Row(row.clone()))?;
            }
        }
        Ok(text)
    }

    /// Returns the values of all sittings.
    ///
    /// # Errors
    /// [`KeptError::Point`]: a row is of none of `points`, as the experiment was changed since.
    pub fn values(&self, points: &[Point]) -> Result<Values, KeptError> {
        let rows = self.sittings.iter().flat_map(|sitting| &sitting.rows);
        rows.map(|row| {
            let point = points.iter().find(|point| labels(point) == row.at);
            let point = point.ok_or_else(|| KeptError::Point {
                at: format!("{:?}", row.at),
            })?;
            Ok(Row {
                point: point.number,
                measure: row.measure.clone(),
                runs: row.runs().collect(),
            })
        })
        .collect()
    }

    /// Returns the names of all cases, sorted.
    pub fn cases(&self) -> BTreeSet<String> {
        let rows = self.sittings.iter().flat_map(|sitting| &sitting.rows);
        let cases = rows.flat_map(|row| row.measure.cases());
        cases.map(str::to_owned).collect()
    }

    /// Removes the rows of all cases but `case`, and renames that case to `name`.
    ///
    /// # Errors
    /// A measure can't be written as JSON.
    pub fn keep_case(&mut self, case: &str, name: &str) -> Result<(), serde_json::Error> {
        for sitting in &mut self.sittings {
            let is_of_case = |row: &KeptRow| row.measure.cases().iter().all(|of| *of == case);
            sitting.rows.retain(is_of_case);
            for row in &mut sitting.rows {
                let mut measure = serde_json::to_value(&row.measure)?;
                rename_case(&mut measure, name);
                row.measure = serde_json::from_value(measure)?;
            }
        }
        Ok(())
    }

    /// Returns the measures with the values of all sittings, in the order of their first rows. The experiment's file is
    /// not needed.
    pub fn measures(&self) -> Vec<KeptMeasure> {
        let mut found: Vec<KeptMeasure> = Vec::new();
        for row in self.sittings.iter().flat_map(|sitting| &sitting.rows) {
            let same =
                |known: &&mut KeptMeasure| known.at == row.at && known.measure == row.measure;
            match found.iter_mut().find(same) {
                Some(known) => known.runs.extend(row.runs()),
                None => found.push(KeptMeasure {
                    at: row.at.clone(),
                    measure: row.measure.clone(),
                    runs: row.runs().collect(),
                }),
            }
        }
        found
    }
}

/// Sets the key `case` of a measure, or of both sides of a ratio.
fn rename_case(measure: &mut serde_json::Value, name: &str) {
    for side in ["of", "to"] {
        if let Some(side) = measure.get_mut(side).filter(|side| side.is_object()) {
            rename_case(side, name);
        }
    }
    if let Some(case) = measure.get_mut("case") {
        *case = name.into();
    }
}
