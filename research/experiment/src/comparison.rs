//! Two results compared measure by measure: runs paired by seed, and the interval of the paired
//! differences.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::estimate::Estimate;
use crate::kept::{KeptMeasure, KeptRecord};
use crate::measure::Measure;
use crate::ratio::linear;

/// Labels of a point by axis; empty without a sweep.
pub type Labels = BTreeMap<String, String>;

/// One of the two results of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The result that is the base of the comparison: differences are B − A.
    A,
    /// The result that is compared with A.
    B,
}

impl Side {
    /// Returns the letter of the side.
    pub fn letter(self) -> &'static str {
        match self {
            Side::A => "A",
            Side::B => "B",
        }
    }

    fn other(self) -> Self {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }
}

/// How a measure of B differs from that of A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Each pair has equal values.
    Same,
    /// The 95 % interval of the differences lies below 0.
    Less,
    /// The 95 % interval of the differences lies above 0.
    More,
    /// The interval contains 0, or there is none: a single pair.
    Unknown,
}

impl Change {
    /// Judges paired differences, B − A.
    fn of(difference: &Estimate) -> Self {
        if difference.min == 0.0 && difference.max == 0.0 {
            return Change::Same;
        }
        match difference.interval {
            Some([low, _]) if low > 0.0 => Change::More,
            Some([_, high]) if high < 0.0 => Change::Less,
            _ => Change::Unknown,
        }
    }

    /// Returns the change in one or two words. For a completion time it is `faster` or `slower`, for other measures
    /// `less` or `more`: the experiment decides which direction is better.
    pub fn words(self, measure: &Measure) -> &'static str {
        let is_time = matches!(measure, Measure::Fct { .. });
        match self {
            Change::Same => "same",
            Change::Less if is_time => "faster",
            Change::More if is_time => "slower",
            Change::Less => "less",
            Change::More => "more",
            Change::Unknown => "can't say",
        }
    }
}

/// A measure at a point, of both results.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Labels of the point of the sweep.
    pub at: Labels,
    /// Measure of both results.
    pub measure: Measure,
    /// Means of A and of B over the pairs.
    pub means: [f64; 2],
    /// Paired differences, B − A.
    pub difference: Estimate,
    /// Judgement on the differences.
    pub change: Change,
}

impl Compared {
    /// Returns the mean difference divided by the size of A's mean; `None` if A's mean is 0.
    pub fn relative(&self) -> Option<f64> {
        let size = self.means[0].abs();
        (size > 0.0).then(|| self.difference.mean / size)
    }

    /// Returns the 95 % interval of the difference divided by the size of A's mean, which is taken as exact; `None`
    /// without an interval, or if A's mean is 0.
    pub fn relative_interval(&self) -> Option<[f64; 2]> {
        let size = self.means[0].abs();
        let interval = self.difference.interval.filter(|_| size > 0.0)?;
        Some(interval.map(|end| end / size))
    }
}

/// Runs of one result that have no partner in the other, or no value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Labels of the point of the sweep.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub at: Labels,
    /// Names of the measure's cases: one, or two for a ratio.
    pub cases: Vec<String>,
    /// Result that has the runs.
    pub side: Side,
    /// Seeds of the runs, ascending.
    pub seeds: Vec<u64>,
    /// Reason: the other result lacks the seeds, or a value can't be computed.
    pub why: String,
}

/// A measure at a point that only one of the results has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// Result that has it.
    pub side: Side,
    /// Labels of the point of the sweep.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub at: Labels,
    /// Measure that the other result lacks.
    pub measure: Measure,
}

/// The comparison of two results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Measures of both, in the order of A.
    pub compared: Vec<Compared>,
    /// Runs without a partner.
    pub left_out: Vec<LeftOut>,
    /// Measures without a partner.
    pub alone: Vec<Alone>,
}

impl Comparison {
    /// Compares the measures that both records have at equal labels, over the runs with equal seeds.
    pub fn of(a: &KeptRecord, b: &KeptRecord) -> Self {
        let (of_a, of_b) = (a.measures(), b.measures());
        let mut found = Self::default();
        for one in &of_a {
            match partner(&of_b, one) {
                Some(other) => {
                    found.compare([one, other], [(&of_a, a.head.seed), (&of_b, b.head.seed)])
                }
                None => found.alone.push(alone(Side::A, one)),
            }
        }
        let rest = of_b.iter().filter(|one| partner(&of_a, one).is_none());
        found.alone.extend(rest.map(|one| alone(Side::B, one)));
        found
    }

    /// Returns the number of measures whose 95 % interval of the differences excludes 0.
    pub fn differing(&self) -> usize {
        let differs = |row: &&Compared| matches!(row.change, Change::More | Change::Less);
        self.compared.iter().filter(differs).count()
    }

    /// Compares the rows of one measure in A and B. `records`: all rows of each result, and the seed of its repetition
    /// 0.
    fn compare(&mut self, rows: [&KeptMeasure; 2], records: [(&[KeptMeasure], u64); 2]) {
        let [a, b] = [0, 1].map(|side| by_seed(rows[side], records[side].1));
        let both = |seed: &&u64| b.numbers.contains_key(seed);
        let seeds: Vec<u64> = a.numbers.keys().filter(both).copied().collect();
        for (side, these, others) in [(Side::A, &a, &b), (Side::B, &b, &a)] {
            for (why, seeds) in these.left_out(others, side) {
                self.leave_out(rows[0], side, &why, seeds);
            }
        }
        if seeds.is_empty() {
            return;
        }
        let [of_a, of_b] = [0, 1].map(|side| {
            let (record, first) = records[side];
            column(record, rows[side], first, &seeds)
        });
        let differences: Vec<f64> = of_b.iter().zip(&of_a).map(|(b, a)| b - a).collect();
        let difference = Estimate::of(&differences);
        self.compared.push(Compared {
            at: rows[0].at.clone(),
            measure: rows[0].measure.clone(),
            means: [&of_a, &of_b].map(|values| Estimate::of(values).mean),
            change: Change::of(&difference),
            difference,
        });
    }

    /// Notes that `side` has runs with `seeds` for the measure of `row` that no pair contains, and why. Equal notes on
    /// several measures are kept once.
    fn leave_out(&mut self, row: &KeptMeasure, side: Side, why: &str, seeds: BTreeSet<u64>) {
        let cases = row.measure.cases().into_iter().map(String::from);
        let mut cases: Vec<String> = cases.collect();
        cases.dedup();
        let left_out = LeftOut {
            at: row.at.clone(),
            cases,
            side,
            seeds: seeds.into_iter().collect(),
            why: why.to_owned(),
        };
        if !self.left_out.contains(&left_out) {
            self.left_out.push(left_out);
        }
    }
}

fn partner<'a>(rows: &'a [KeptMeasure], one: &KeptMeasure) -> Option<&'a KeptMeasure> {
    let same = |row: &&KeptMeasure| row.at == one.at && row.measure == one.measure;
    rows.iter().find(same)
}

fn alone(side: Side, row: &KeptMeasure) -> Alone {
    Alone {
        side,
        at: row.at.clone(),
        measure: row.measure.clone(),
    }
}

/// The runs of a measure by their seeds.
struct BySeed {
    numbers: BTreeMap<u64, f64>,
    /// Runs in which the measure can't be computed, and why.
    errors: BTreeMap<u64, String>,
}

fn by_seed(row: &KeptMeasure, first: u64) -> BySeed {
    let (mut numbers, mut errors) = (BTreeMap::new(), BTreeMap::new());
    for (run, value) in &row.runs {
        let seed = first.wrapping_add(u64::from(*run));
        match value {
            Ok(number) => {
                numbers.insert(seed, *number);
            }
            Err(why) => {
                errors.insert(seed, why.clone());
            }
        }
    }
    BySeed { numbers, errors }
}

impl BySeed {
    /// Returns the seeds of this side's runs that no pair contains, by reason. `others`: the other side's runs.
    fn left_out(&self, others: &Self, side: Side) -> BTreeMap<String, BTreeSet<u64>> {
        let other = side.other().letter();
        let mut found: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        if let Some(first) = self.errors.values().next() {
            let seeds = self.errors.keys().copied().collect();
            found.insert(format!("no value: {first}"), seeds);
        }
        for seed in self.numbers.keys() {
            if others.numbers.contains_key(seed) {
                continue;
            }
            let lacks = if others.errors.contains_key(seed) {
                "value"
            } else {
                "run"
            };
            let why = format!("{other} has no {lacks} of these seeds");
            found.entry(why).or_default().insert(*seed);
        }
        found
    }
}

/// Returns a value for each of `seeds`, whose mean is the measure's estimate: see [`linear`]. `first`: the seed of
/// repetition 0.
fn column(record: &[KeptMeasure], row: &KeptMeasure, first: u64, seeds: &[u64]) -> Vec<f64> {
    let numbers = |row: &KeptMeasure| -> Option<Vec<f64>> {
        let numbers = by_seed(row, first).numbers;
        seeds
            .iter()
            .map(|seed| numbers.get(seed).copied())
            .collect()
    };
    let side = |measure: &Measure| {
        let mut rows = record.iter();
        let row = rows.find(|one| one.at == row.at && one.measure == *measure);
        row.and_then(numbers).ok_or(())
    };
    // Without the sides' own rows the ratios of the runs are all there is.
    let linear = linear(&row.measure, &side, &|_| ()).ok();
    linear.or_else(|| numbers(row)).unwrap_or_default()
}
