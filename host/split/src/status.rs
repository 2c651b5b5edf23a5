//! What the one process that splits in a network namespace answers to those who ask.

use serde::{Deserialize, Serialize};
use uc_service::Task;

use crate::counts::Totals;
use crate::setup::{Limits, Setup};

/// The setup of `uc split` and the counters of its connections.
pub type Status = uc_service::Status<Setup, Done>;

/// What the process may take, and how much it has split.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// What the process may take; in JSON its fields stand beside the others.
    #[serde(flatten)]
    pub limits: Limits,
    /// Numbers of connections and bytes.
    pub totals: Totals,
}

impl Task for Setup {
    const COMMAND: &'static str = "uc split";
    const PLACE: &'static str = "undercurrent/split";
    type Done = Done;

    fn is_idle(done: &Done) -> bool {
        done.totals.open == 0
    }
}
