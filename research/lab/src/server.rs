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
    /// Number of its host in the plan; those with guests come first.
    pub host: usize,
    /// IP address of its `eth0`.
    pub address: IpAddr,
    /// Link-layer address of its `eth0`.
    pub mac: [u8; 6],
    /// TCP settings of the server.
    pub stack: Stack,
    /// Law of the server's port. The server has a port, on a host of its own, only if it has a law.
    pub law: Option<Law>,
    /// Start law of flows toward it: that of its first guest with a start law.
    pub start: Option<Watch>,
    /// Name of its port, the interface in the hosts' namespace, if it has one.
    pub port: String,
    /// Hypervisor that takes the server's CPU away at times; `None`: it always runs.
    pub hypervisor: Option<Hypervisor>,
}

/// Lays out the receivers of `guests`, which are on this many hosts.
pub(crate) fn servers(
    experiment: &Experiment,
    case: &Case,
    guests: &[Guest],
    hosts: usize,
) -> Result<Vec<Server>, LabError> {
    // A LAN has at most 254 hosts.
    let count = experiment.network.topology.receivers(hosts as u32) as usize;
    let server = |number: usize| {
        let address_number = guests.len() + number;
        let mut own = guests.iter().filter(|guest| guest.server == number);
        Ok(Server {
            label: match own.clone().next() {
                Some(first) if count > 1 => format!("the server of {}", first.label),
                _ => SERVER.to_owned(),
            },
            host: hosts + number,
            address: address(experiment.network.family, address_number, case)?,
            mac: mac(address_number),
            stack: experiment.receiver_stack(case),
            law: case.receiver_law,
            start: own.find_map(|guest| guest.start.clone()),
            port: format!("port{address_number}"),
            hypervisor: case.receiver_hypervisor.clone(),
        })
    };
    (0..count).map(server).collect()
}
