//! What a verdict tells of the paper: whether the bar and the mean are the paper's number.

use serde::Serialize;

use crate::basis::Basis;
use crate::expect::{Bound, Claim};
use crate::outcome::Outcome;
use crate::verdict::Verdict;

/// Largest distance from the paper's number, as a share of it, at which a mean is still that number.
const NEAR: f64 = 0.25;

/// What of the paper a result reproduces that holds by the paper's bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reproduced {
    /// The paper's number: the file has it, and the bar's ends and the mean are within a quarter of it. A number of 0
    /// has no quarter; there the bar is the tolerance.
    Number,
    /// The paper's direction: a trend, "at least", "less than", or a number that the mean is far from.
    Direction,
}

impl Reproduced {
    /// Returns the word of JSON and CSV.
    pub fn key(self) -> &'static str {
        match self {
            Reproduced::Number => "number",
            Reproduced::Direction => "direction",
        }
    }
}

impl Verdict {
    /// Returns what of the paper is reproduced; `None` unless it holds by the paper's bar.
    pub fn reproduced(&self) -> Option<Reproduced> {
        if self.outcome != Outcome::Holds || self.basis != Some(Basis::Paper) {
            return None;
        }
        let is_number = match (&self.expect, self.paper, self.ours) {
            (Claim::Bound(bar), Some(paper), Some(ours)) => {
                paper == 0.0 || Bound::near(paper).holds(ours) && bar.is_near(paper)
            }
            _ => false,
        };
        Some(if is_number {
            Reproduced::Number
        } else {
            Reproduced::Direction
        })
    }

    /// Returns the paper's number if the mean is more than a quarter off it, and the bar, of theory or of results
    /// known before, is not the paper's.
    pub fn hidden_number(&self) -> Option<f64> {
        let is_of_another = !matches!(self.basis, None | Some(Basis::Paper));
        let is_bound = matches!(self.expect, Claim::Bound(_));
        let (paper, ours) = self.paper.zip(self.ours)?;
        (is_of_another && is_bound && !Bound::near(paper).holds(ours)).then_some(paper)
    }
}

impl Bound {
    /// Returns the bounds of the numbers that are near the paper's.
    pub(crate) fn near(paper: f64) -> Self {
        let off = NEAR * paper.abs();
        Bound {
            low: Some(paper - off),
            high: Some(paper + off),
        }
    }

    /// Returns whether each end that it has is near the paper's number.
    fn is_near(self, paper: f64) -> bool {
        let mut ends = self.low.into_iter().chain(self.high);
        ends.all(|end| Self::near(paper).holds(end))
    }
}
