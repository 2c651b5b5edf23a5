//! What must hold, and whether it did: `[[expect]]`.

use serde::{Deserialize, Serialize};

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
