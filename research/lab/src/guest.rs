//! A guest of a case, before anything is built.

use std::net::IpAddr;

use uc_experiment::{Coupling, Dupack, Hold, Hypervisor, Law, Parameters, Profile, Stack, Watch};

use crate::incast::Incast;
use crate::pages::Pages;
use crate::part::Part;

/// One guest: a sender in a namespace or VM of its own.
#[derive(Debug, Clone)]
pub struct Guest {
    /// Label `group[index]`, for messages.
    pub label: String,
    /// Name of the guest's group.
    pub group: String,
    /// Number of the guest in its group, from 0.
    pub index: u32,
    /// Number of the host whose bridge and uplink the guest uses.
    pub host: usize,
    /// Index in [`Plan::servers`] of the receiver of the guest's flows; of several, of the first part's first.
    pub server: usize,
    /// Name of the guest's port: the interface in the hosts' namespace.
    pub port: String,
    /// IP address of the guest's `eth0`.
    pub address: IpAddr,
    /// Link-layer address of the guest's `eth0`.
    pub mac: [u8; 6],
    /// TCP settings of the guest.
    pub stack: Stack,
    /// Law of the guest's port; `None`: no program on the port.
    pub law: Option<Law>,
    /// Parameters of the port's law.
    pub parameters: Parameters,
    /// TCP sender that the law's shadow imitates.
    pub profile: Profile,
    /// Hypervisor that takes the guest's CPU away at times; `None`: it always runs.
    pub hypervisor: Option<Hypervisor>,
    /// Start law `watch` with its settings; `None`: flows start as their TCP does.
    pub start: Option<Watch>,
    /// Settings for packets that the guest's port holds; `None`: it holds none.
    pub hold: Option<Hold>,
    /// Settings for duplicate ACKs that the guest's port sends; `None`: it sends none.
    pub dupack: Option<Dupack>,
    /// Number of the guest's parallel flows.
    pub flows: u32,
    /// Flows by group, in the file's order; the flows of a group are adjacent.
    pub parts: Vec<Part>,
    /// Sharing of a window by the guest's flows, with others of the same group; `None`: each flow has its own.
    pub coupling: Option<Coupling>,
    /// Whether the flows share that window by their shadows on the guest's port, not by the guest's own TCP.
    pub is_coupled_by_port: bool,
    /// Whether the group divides the sum of the laws' windows (`share`).
    pub shares_sum: bool,
    /// Pages, if a web server in the guest serves the guest's flows.
    pub pages: Option<Pages>,
    /// Blocks, if the guest's flows carry blocks that the receiver requests.
    pub incast: Option<Incast>,
}

impl Guest {
    /// Returns the part that contains flow number `flow` of the guest; the last part if the guest has no such flow.
    pub fn part_of(&self, flow: u32) -> &Part {
        let mut before = 0;
        let is_it = |part: &&Part| {
            before += part.flows;
            flow < before
        };
        let found = self.parts.iter().find(is_it);
        found.unwrap_or(&self.parts[self.parts.len() - 1])
    }

    /// Returns whether any flow of the guest goes to receiver number `server`.
    pub fn sends_to(&self, server: usize) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| part.servers.contains(&server))
    }

    /// Returns whether the guest's own connections share a window, not their shadows on its port.
    pub fn couples(&self) -> bool {
        self.coupling.is_some() && !self.is_coupled_by_port
    }

    /// Returns the number of flows that the guest opens, each on one connection; 0 for a guest that
    /// serves pages.
    pub fn opened_flows(&self) -> u32 {
        if self.pages.is_some() { 0 } else { self.flows }
    }
}
