//! Outcomes of expectations: an interval compared with a bar.

use std::fmt;

use serde::Serialize;

use crate::estimate::Estimate;
use crate::expect::{Bound, Direction};

/// The outcome of one expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The 95 % interval lies within the bar.
    Holds,
    /// The interval lies outside the bar, the measure can't be computed, or a bar that is not the paper's would
    /// hide that the paper's number is missed: [`Verdict::hidden_number`](crate::Verdict::hidden_number).
    Fails,
    /// A part of the interval lies within the bar, or there is no interval yet.
    Undecided,
    /// The interval lies outside the paper's claim, and the file gives the reason.
    Differs,
    /// The file gives a reason why the result differs from the paper, but the claim holds.
    Stale,
}

impl Outcome {
    /// Returns the outcome if the file gives a reason why the result differs from the paper: `Fails` becomes `Differs`,
    /// `Holds` becomes `Stale`.
    pub(crate) fn with_reason(self) -> Self {
        match self {
            Outcome::Holds => Outcome::Stale,
            Outcome::Fails => Outcome::Differs,
            other => other,
        }
    }

    /// Returns whether the claim holds: `Holds`, or `Stale`, where the file says that it differs.
    pub fn holds(self) -> bool {
        matches!(self, Outcome::Holds | Outcome::Stale)
    }

    /// Returns whether a run with this outcome succeeds: `Holds` or `Differs`.
    pub fn passes(self) -> bool {
        matches!(self, Outcome::Holds | Outcome::Differs)
    }

    /// Combines the outcomes of the steps of a trend: the trend holds if all steps hold, fails if a step fails, and is
    /// undecided otherwise.
    pub(crate) fn all(steps: impl IntoIterator<Item = Outcome>) -> Self {
        let mut all = Outcome::Holds;
        for step in steps {
            match step {
                Outcome::Fails => return Outcome::Fails,
                Outcome::Undecided => all = Outcome::Undecided,
                _ => {}
            }
        }
        all
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Holds => "holds",
            Outcome::Fails => "fails",
            Outcome::Undecided => "undecided",
            Outcome::Differs => "differs",
            Outcome::Stale => "stale",
        })
    }
}

impl Bound {
    /// Compares the interval of a mean with the bar. With `single`, the value itself is compared: an experiment of one
    /// repetition has no interval.
    pub fn judge(self, estimate: &Estimate, single: bool) -> Outcome {
        let alone = single.then_some([estimate.mean; 2]);
        let Some([low, high]) = estimate.interval.or(alone) else {
            return Outcome::Undecided;
        };
        if self.holds(low) && self.holds(high) {
            return Outcome::Holds;
        }
        let below = self.low.is_some_and(|bar| high < bar);
        let above = self.high.is_some_and(|bar| low > bar);
        if below || above {
            Outcome::Fails
        } else {
            Outcome::Undecided
        }
    }
}

impl Direction {
    /// Compares the interval of a difference (the mean at a point less that at the point before) with 0. A difference
    /// of 0 is no trend.
    pub fn judge(self, difference: &Estimate) -> Outcome {
        let Some([low, high]) = difference.interval else {
            return Outcome::Undecided;
        };
        // How far the difference goes in the claimed direction.
        let (least, most) = match self {
            Direction::Rises => (low, high),
            Direction::Falls => (-high, -low),
        };
        if least > 0.0 {
            Outcome::Holds
        } else if most <= 0.0 {
            Outcome::Fails
        } else {
            Outcome::Undecided
        }
    }
}
