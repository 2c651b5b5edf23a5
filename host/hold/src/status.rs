//! The status that a `uc hold` process reports.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use uc_service::PortTask;

use crate::setup::{PortSetup, Setup};

/// A flow: the index of its port, the guest's end and the remote one.
pub type Key = (u32, SocketAddr, SocketAddr);

/// At which ports packets are held, and what was done.
pub type Status = uc_service::Status<Setup, Done>;

/// What the process has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Ports of the setup whose packets can't be held, each with the reason and the remedy; the process tries
    /// again every second.
    pub refused: BTreeMap<String, String>,
    /// The counters of each port, by the port's name and their own.
    pub counts: BTreeMap<String, BTreeMap<String, u64>>,
    /// Packets of held flows that passed, because the process was too slow or the packet too large.
    pub passed: u64,
    /// Times that the process got no CPU for so long that packets passed.
    pub stalls: u64,
    /// What is held of the flow that was asked for; `None`: its packets pass.
    pub flow: Option<HeldFlow>,
}

/// Functions of `uc hold` that apply to a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldFlow {
    /// Whether the flow's ACKs to the guest are spread over a round trip.
    pub paced: bool,
    /// Whether the guest's data is kept until it is acknowledged.
    pub kept: bool,
    /// Retransmissions of the host.
    pub retransmits: u64,
}

impl PortTask for PortSetup {
    const COMMAND: &'static str = "uc hold";
    const PLACE: &'static str = "undercurrent/hold";
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
    /// Returns the sum of a counter over all ports.
    pub fn total(&self, name: &str) -> u64 {
        let counts = self.counts.values();
        counts.filter_map(|counts| counts.get(name)).sum()
    }
}
