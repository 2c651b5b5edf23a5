//! What the one process that sends duplicate ACKs in a network namespace answers to those who ask.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use uc_service::PortTask;

use crate::dupack::setup::{PortSetup, Setup};

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
pub type Status = uc_service::Status<Setup, Done>;

/// How many duplicate ACKs the process has sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Ports of the setup at which none can be sent, each with the reason and the remedy; the process tries
    /// again every second.
    pub refused: BTreeMap<String, String>,
    /// How much was sent, by the port's name.
    pub counts: BTreeMap<String, Counts>,
    /// How much the flow got that was asked for, since its first round.
    pub flow: Option<Counts>,
}

impl PortTask for PortSetup {
    const COMMAND: &'static str = "uc dupack";
    const PLACE: &'static str = "undercurrent/dupack";
    type Done = Done;

    fn name(&self) -> &str {
        &self.name
    }

    fn ifindex(&self) -> u32 {
        self.ifindex
    }

    fn refused(done: &Done) -> &BTreeMap<String, String> {
        &done.refused
    }
}

impl Done {
    /// Returns how much was sent at all ports together.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.counts.values().for_each(|counts| total += *counts);
        total
    }
}
