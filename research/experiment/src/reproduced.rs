//! Whether a result reproduces the paper's number or only its direction.

use serde::Serialize;

use crate::basis::Basis;
use crate::expect::{Bound, Claim};
use crate::outcome::Outcome;
use crate::verdict::Verdict;

/// Largest distance from the paper's number, as a share of that number, at which a mean or an end of a bar counts as
/// the number.
const NEAR: f64 = 0.25;

/// The part of the paper that a result reproduces, if the expectation holds and its basis is the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reproduced {
    /// The paper's number: the file has it, and the bar's ends and the mean are within a quarter of it. For a number of
    /// 0 it is enough that the bar holds.
    Number,
    /// Only the paper's direction: the expectation is a trend, or has no number of the paper, or the mean or an end of
    /// the bar is more than a quarter off that number.
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
    /// Returns the part of the paper that the result reproduces; `None` unless the expectation holds and its basis is
    /// the paper.
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

    /// Returns the paper's number if the mean is more than a quarter off it, and the bar comes from theory or from
    /// earlier results: such a bar may hold although the number is missed. `None` otherwise, and for trends.
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

    /// Returns whether each end that the bar has is near the paper's number.
    fn is_near(self, paper: f64) -> bool {
        let mut ends = self.low.into_iter().chain(self.high);
        ends.all(|end| Self::near(paper).holds(end))
    }
}
