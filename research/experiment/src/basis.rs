//! Origin of an expectation's bar.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where the bounds or the direction of an expectation come from: the key `basis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A claim of the paper: its direction, or its number with a tolerance.
    Paper,
    /// A definition, formula, standard or invariant from which the bar follows without any run.
    Theory,
    /// Results that were known when the bar was chosen. The bar only shows later changes.
    AfterRuns,
}

impl Basis {
    /// Returns the spelling of files.
    pub fn key(self) -> &'static str {
        match self {
            Basis::Paper => "paper",
            Basis::Theory => "theory",
            Basis::AfterRuns => "after-runs",
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Basis::AfterRuns => "after runs",
            other => other.key(),
        })
    }
}
