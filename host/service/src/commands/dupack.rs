//! `uc dupack`: the ports at which duplicate ACKs are sent, and when; and the status of the process.

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
    /// Name of the port's interface.
    pub name: String,
    /// Index of the port's interface.
    pub ifindex: u32,
    /// Shortest silence before duplicate ACKs, in microseconds.
    pub least_us: u64,
    /// If given, a guest gets three duplicate ACKs even if fewer than four of its segments are in flight; with one
    /// segment in flight, this many microseconds later. `None`: it gets as many as its segments could cause.
    pub short_tails_us: Option<u64>,
}

impl PortSetup {
    /// Creates the settings of one port.
    pub fn new(name: &str, ifindex: u32, least: Duration, short_tails: Option<Duration>) -> Self {
        Self {
            name: name.to_owned(),
            ifindex,
            least_us: to_us(least),
            short_tails_us: short_tails.map(to_us),
        }
    }
}

/// Counters of duplicate ACKs since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Number of rounds of duplicate ACKs; a flow may get several rounds.
    pub rounds: u64,
    /// Number of duplicate ACKs that were sent to the ports.
    pub duplicate_acks: u64,
    /// Number of rounds in which nothing was sent, because the guest has opened or accepted no connection since the
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

/// The status of `uc dupack`: its ports, and the duplicate ACKs that it has sent.
pub type Status = crate::Status<Setup, Done>;

/// The duplicate ACKs that the process has sent, and the ports that it can't serve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Ports of the setup at which no duplicate ACKs can be sent, each with the reason and the remedy; the process
    /// tries again every second.
    pub refused: BTreeMap<String, String>,
    /// Counters of each port, by the port's name.
    pub counts: BTreeMap<String, Counts>,
    /// Counters of the flow that was asked for, since its first round; `None` if no flow was asked for, or it had no
    /// round.
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
    /// Returns the sums of the counters of all ports.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.counts.values().for_each(|counts| total += *counts);
        total
    }
}
