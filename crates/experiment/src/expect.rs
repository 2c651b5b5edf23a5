//! What must hold, and whether it did: `[[expect]]`.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::measure::Measure;

/// `[[expect]]`: a measure, what the paper says of it, and the bounds for its mean over the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// One line for people.
    pub name: String,
    /// What is measured in every repetition.
    pub measure: Measure,
    /// The paper's own number, where it states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
    /// The mean lies within these two, both included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<[f64; 2]>,
    /// The mean is this or less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// The mean is this or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
}

impl Expectation {
    /// The bounds for the mean.
    pub fn bound(&self) -> Bound {
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

/// The bounds for a mean, both included. Printed and serialised as `0.95–1.05`, `≤ 0.5`, `≥ 0.99`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The least that holds.
    pub low: Option<f64>,
    /// The most that holds.
    pub high: Option<f64>,
}

impl Bound {
    /// Whether `value` is inside.
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

impl Serialize for Bound {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
