//! The receivers of a case, before anything is built.

use std::net::IpAddr;

use uc_experiment::{Case, Experiment, Hypervisor, Law, Stack, Watch};

use crate::addresses::{address, mac};
use crate::error::LabError;
use crate::guest::Guest;

/// Name of a case's only receiver in messages.
const SERVER: &str = "the server";

/// A receiver of flows.
#[derive(Debug, Clone)]
pub struct Server {
    /// Label for messages.
    pub label: String,
    /// Number of the server's host in the plan; hosts with guests come first. Where hosts both send and receive, it is
    /// one of them.
    pub host: usize,
    /// IP address of the server's `eth0`.
    pub address: IpAddr,
    /// Link-layer address of the server's `eth0`.
    pub mac: [u8; 6],
    /// TCP settings of the server.
    pub stack: Stack,
    /// Law of the server's port.
    pub law: Option<Law>,
    /// Start law of flows toward the server: that of its first guest with a start law; `None`: no guest has one.
    pub start: Option<Watch>,
    /// Name of the server's port, the interface in the hosts' namespace; `None`: a tap is the server's own interface.
    /// The server has a port if it has a law or shares its host with guests.
    pub port: Option<String>,
    /// Hypervisor that takes the server's CPU away at times; `None`: it always runs.
    pub hypervisor: Option<Hypervisor>,
}

/// Lays out the receivers of `guests`, which are on `hosts` hosts.
pub(crate) fn servers(
    experiment: &Experiment,
    case: &Case,
    guests: &[Guest],
    hosts: usize,
) -> Result<Vec<Server>, LabError> {
    // A LAN has at most 65,534 hosts.
    let topology = experiment.network.topology;
    let shared = topology.hosts();
    let count = shared.unwrap_or(topology.receivers(hosts as u32)) as usize;
    let server = |number: usize| {
        let address_number = guests.len() + number;
        let mut own = guests.iter().filter(|guest| guest.sends_to(number));
        Ok(Server {
            label: match own.clone().next() {
                _ if shared.is_some() => format!("the server of host {number}"),
                Some(first) if count > 1 => format!("the server of {}", first.label),
                _ => SERVER.to_owned(),
            },
            host: shared.map_or(hosts, |_| 0) + number,
            address: address(experiment.network.family, address_number, case)?,
            mac: mac(address_number),
            stack: experiment.receiver_stack(case),
            law: case.receiver_law,
            start: own.find_map(|guest| guest.start.clone()),
            port: (shared.is_some() || case.receiver_law.is_some())
                .then(|| format!("port{address_number}")),
            hypervisor: case.receiver_hypervisor.clone(),
        })
    };
    (0..count).map(server).collect()
}
