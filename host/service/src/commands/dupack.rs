//! `uc dupack`: at which ports duplicate ACKs are sent, and when; and what the process answers.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::to_us;
use crate::{PortTask, Ports};

/// The ports at which duplicate ACKs are sent; it may change while the process runs.
pub type Setup = Ports<PortSetup>;

/// When the flows of a port get duplicate ACKs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSetup {
    /// Name of the interface.
    pub name: String,
    /// Index of the interface.
    pub ifindex: u32,
    /// Shortest silence before duplicate ACKs, in microseconds.
    pub least_us: u64,
    /// Three duplicate ACKs also where fewer than four segments are in flight; where one is, so many
    /// microseconds later. `None`: as many as the segments could cause.
    pub short_tails_us: Option<u64>,
}

impl PortSetup {
    /// Creates the settings of a port.
    pub fn new(name: &str, ifindex: u32, least: Duration, short_tails: Option<Duration>) -> Self {
        Self {
            name: name.to_owned(),
            ifindex,
            least_us: to_us(least),
            short_tails_us: short_tails.map(to_us),
        }
    }
}

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
pub type Status = crate::Status<Setup, Done>;

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
    const PLACE: &'static str = "dupack";
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
