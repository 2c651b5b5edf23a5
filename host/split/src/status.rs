//! What the one process that splits in a network namespace answers to those who ask.

use serde::{Deserialize, Serialize};
use uc_single::{AskError, Place, Served, TakeError, ask};

use crate::counts::Totals;
use crate::error::SplitError;
use crate::setup::{Limits, Setup};

/// Name of the place. Names belong to a network namespace.
const PLACE: &str = "undercurrent/split";

/// What is split, and how much was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Number of the process that splits.
    pub pid: u32,
    /// What is split, and how; in JSON its fields stand beside the others.
    #[serde(flatten)]
    pub setup: Setup,
    /// What the process may take; in JSON as above.
    #[serde(flatten)]
    pub limits: Limits,
    /// Numbers of connections and bytes.
    pub totals: Totals,
}

impl Status {
    /// Creates the status of this process.
    pub(crate) fn new(setup: Setup, limits: Limits, totals: Totals) -> Self {
        Self {
            pid: std::process::id(),
            setup,
            limits,
            totals,
        }
    }

    /// Asks the process that splits in this network namespace.
    ///
    /// # Errors
    /// [`SplitError::Nobody`] without one, [`SplitError::Status`] if it does not answer, or is another
    /// user's.
    pub fn ask() -> Result<Self, SplitError> {
        ask(PLACE, &()).map_err(|error| match error {
            AskError::Nobody => SplitError::Nobody,
            AskError::Silent(error) => SplitError::Status(error),
        })
    }
}

/// Takes the place of the one process that splits.
pub(crate) fn take_place() -> Result<Place, SplitError> {
    Place::take(PLACE).map_err(|error| match error {
        TakeError::Taken { pid } => SplitError::Taken {
            pid: pid.to_string(),
        },
        TakeError::Unknown(error) => SplitError::Status(error),
        TakeError::Socket(error) => SplitError::resource("create a Unix socket", error),
    })
}

/// Answers with the status, on a thread of its own, until the result is dropped.
pub(crate) fn serve(
    place: Place,
    status: impl Fn() -> Status + Send + 'static,
) -> Result<Served, SplitError> {
    let served = place.serve(move |()| status());
    served.map_err(|error| SplitError::resource("start a thread", error))
}
