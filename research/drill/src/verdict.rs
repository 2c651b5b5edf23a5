//! The outcome of a script.

use crate::syntax::Place;

/// The outcome of a script on a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every packet and every result was as written.
    Passed,
    /// The host's behaviour differs from the script.
    Failed {
        /// The event that did not hold.
        place: Place,
        /// The expected and the observed packet or result.
        why: String,
    },
    /// The script needs what the target lacks.
    Skipped {
        /// The missing feature, in words that group scripts.
        reason: String,
    },
}

/// The end of a script before its last event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// What the host did differs from the script; the text says how.
    Differs(String),
    /// The script uses something that the target does not support; the text says so in a sentence.
    Lacks(String),
}

impl Stop {
    /// Makes the verdict of a script that stopped at `place`.
    pub(crate) fn verdict(self, place: Place) -> Verdict {
        match self {
            Stop::Differs(why) => Verdict::Failed { place, why },
            Stop::Lacks(reason) => Verdict::Skipped { reason },
        }
    }
}
