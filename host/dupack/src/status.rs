//! What the one process that sends duplicate ACKs in a network namespace answers to those who ask.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use uc_single::{AskError, Place, Served, TakeError, ask};

use crate::error::DupackError;
use crate::setup::Setup;

/// Name of the place. Names belong to a network namespace.
const PLACE: &str = "undercurrent/dupack";

/// A flow: the index of its port, the guest's end and the remote one.
pub type Key = (u32, SocketAddr, SocketAddr);

/// How much was sent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Rounds of duplicate ACKs; a flow may get several.
    pub rounds: u64,
    /// Duplicate ACKs that ports took.
    pub duplicate_acks: u64,
    /// Rounds of which nothing was sent, because the guest has opened or accepted no connection since the
    /// start and its Ethernet address is unknown.
    pub unknown_guests: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.rounds += more.rounds;
        self.duplicate_acks += more.duplicate_acks;
        self.unknown_guests += more.unknown_guests;
    }
}

/// At which ports duplicate ACKs are sent, and how many were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Number of the process that sends them.
    pub pid: u32,
    /// What the process was told last; in JSON its fields stand beside the others.
    #[serde(flatten)]
    pub setup: Setup,
    /// Ports of the setup at which none can be sent, each with the reason and the remedy; the process tries
    /// again every second.
    pub refused: BTreeMap<String, String>,
    /// How much was sent, by the port's name.
    pub counts: BTreeMap<String, Counts>,
    /// How much the flow got that was asked for, since its first round.
    pub flow: Option<Counts>,
}

impl Status {
    /// Asks the process that sends duplicate ACKs in this network namespace.
    ///
    /// # Errors
    /// [`DupackError::Nobody`] without one, [`DupackError::Status`] if it does not answer, or is another
    /// user's.
    pub fn ask() -> Result<Self, DupackError> {
        Self::ask_about(None)
    }

    /// Asks it, also for what this flow got.
    ///
    /// # Errors
    /// As [`Status::ask`].
    pub fn ask_about(flow: Option<Key>) -> Result<Self, DupackError> {
        ask(PLACE, &flow).map_err(|error| match error {
            AskError::Nobody => DupackError::Nobody,
            AskError::Silent(error) => DupackError::Status(error),
        })
    }

    /// Returns how much was sent at all ports together.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.counts.values().for_each(|counts| total += *counts);
        total
    }
}

/// Takes the place of the one process that sends duplicate ACKs.
pub(crate) fn take_place() -> Result<Place, DupackError> {
    Place::take(PLACE).map_err(|error| match error {
        TakeError::Taken { pid } => DupackError::Taken { pid },
        TakeError::Unknown(error) => DupackError::Status(error),
        TakeError::Socket(error) => DupackError::kernel("create a Unix socket", error),
    })
}

/// Answers with the status and what a flow got, on a thread of its own, until the result is dropped.
pub(crate) fn serve(
    place: Place,
    status: impl Fn(Option<Key>) -> Status + Send + 'static,
) -> Result<Served, DupackError> {
    let served = place.serve(status);
    served.map_err(|error| DupackError::kernel("start a thread", error))
}
