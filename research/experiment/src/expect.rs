//! Expectations: `[[expect]]`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::arm::Arm;
use crate::basis::Basis;
use crate::measure::Measure;

/// `[[expect]]`: a measure, the paper's number, and the bounds for the measure's mean over the
/// runs (the bar), or its direction along an axis of the sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Description in one line.
    pub name: String,
    /// Measure, computed in every repetition.
    pub measure: Measure,
    /// Number of the paper, where it states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
    /// Origin of the bounds or direction; the files in `experiments/` state one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// Reason why the result differs from the paper, whose claim the bounds or direction are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs: Option<String>,
    /// Bounds of the mean, both included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<[f64; 2]>,
    /// Upper bound of the mean, included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Lower bound of the mean, included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Points of the sweep at which the expectation is judged: for each axis, labels; all points if absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, Labels>,
    /// Axis over whose points the measure is averaged before it is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// Backend on which the expectation is judged; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Arm>,
    /// Axis along which the mean `falls` or `rises`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub along: Option<String>,
    /// Whether the mean falls from each point to the next along the axis: the 95 % confidence
    /// interval of the difference, paired by repetition, is below 0.
    #[serde(default, skip_serializing_if = "is_false")]
    pub falls: bool,
    /// Whether the mean rises from each point to the next along the axis: the interval of `falls` is above 0.
    #[serde(default, skip_serializing_if = "is_false")]
    pub rises: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// One label of an axis, or several: `"9"` or `["5", "9"]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a label (\"9\") or a list of labels ([\"5\", \"9\"])"
)]
pub enum Labels {
    /// One label.
    One(String),
    /// A list of labels, any of which applies.
    Any(Vec<String>),
}

impl Labels {
    /// Returns the labels, in the order of the file.
    pub fn list(&self) -> &[String] {
        match self {
            Labels::One(label) => std::slice::from_ref(label),
            Labels::Any(labels) => labels,
        }
    }
}

impl Expectation {
    /// Returns the claim about the mean.
    pub fn claim(&self) -> Claim {
        let direction = if self.rises {
            Direction::Rises
        } else {
            Direction::Falls
        };
        match &self.along {
            Some(along) => Claim::Trend {
                along: along.clone(),
                direction,
            },
            None => Claim::Bound(self.bound()),
        }
    }

    /// Returns whether the expectation is judged on this backend, whose records contain its measure.
    pub fn is_measured_on(&self, arm: Arm) -> bool {
        self.on.is_none_or(|on| on == arm) && self.measure.can_be_told_by(arm)
    }

    fn bound(&self) -> Bound {
        if let Some([low, high]) = self.within {
            return Bound {
                low: Some(low),
                high: Some(high),
            };
        }
        Bound {
            low: self.at_least,
            high: self.at_most,
        }
    }
}

/// A claim about a mean. Printed and serialised as `0.95–1.05`, `≤ 0.5`, `falls along ecn`.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// The mean is inside these bounds.
    Bound(Bound),
    /// The mean moves in one direction, by more than the confidence interval of the difference.
    Trend {
        /// Axis of the sweep.
        along: String,
        /// Direction of the mean.
        direction: Direction,
    },
}

/// The direction of a mean along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Each mean is below the one before.
    Falls,
    /// Each mean is above the one before.
    Rises,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Claim::Bound(bound) => bound.fmt(f),
            Claim::Trend {
                along,
                direction: Direction::Falls,
            } => write!(f, "falls along {along}"),
            Claim::Trend {
                along,
                direction: Direction::Rises,
            } => write!(f, "rises along {along}"),
        }
    }
}

impl Serialize for Claim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The bounds for a mean, both included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Lower bound, if any.
    pub low: Option<f64>,
    /// Upper bound, if any.
    pub high: Option<f64>,
}

impl Bound {
    /// Returns whether `value` is inside.
    pub fn holds(self, value: f64) -> bool {
        self.low.is_none_or(|low| value >= low) && self.high.is_none_or(|high| value <= high)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.low, self.high) {
            (Some(low), Some(high)) => write!(f, "{low}–{high}"),
            (None, Some(high)) => write!(f, "≤ {high}"),
            (Some(low), None) => write!(f, "≥ {low}"),
            (None, None) => write!(f, "anything"),
        }
    }
}
