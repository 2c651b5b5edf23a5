//! The input of the emulated network.

use std::time::Duration;

use uc_experiment::layout::Place;
use uc_experiment::{Hypervisor, Network};

use crate::flow::{Connections, FiveTuple};
use crate::plan::Plan;
use crate::tap::Tap;

/// The input of the emulator.
#[derive(Debug)]
pub struct WireSetup {
    /// The experiment's network.
    pub network: Network,
    /// Seed of the network's random numbers: RED's, and those of random loss.
    pub seed: u64,
    /// Interval at which the bottleneck's queue is read.
    pub sample: Duration,
    /// Location of each host with guests.
    pub places: Vec<Place>,
    /// Taps of all hosts, in the plan's order: those with guests, then the receivers'.
    pub taps: Vec<Tap>,
    /// Number in the plan of the host of each link-layer address.
    pub addresses: Vec<([u8; 6], usize)>,
    /// Flows with separate counters; others are counted together.
    pub flows: Vec<FiveTuple>,
    /// Flows with many connections.
    pub connections: Connections,
    /// Hypervisor that takes the only receiver's CPU away at times; `None`: receivers always run.
    pub receiver_hypervisor: Option<Hypervisor>,
}

impl WireSetup {
    /// Creates the input for a plan.
    pub fn new(
        plan: &Plan,
        network: &Network,
        taps: Vec<Tap>,
        flows: Vec<FiveTuple>,
        seed: u64,
        sample: Duration,
    ) -> Self {
        let guests = plan.guests.iter().map(|guest| (guest.mac, guest.host));
        let servers = plan.servers.iter().map(|server| (server.mac, server.host));
        Self {
            network: network.clone(),
            seed,
            sample,
            places: plan.places.clone(),
            taps,
            addresses: guests.chain(servers).collect(),
            flows,
            connections: Connections::of(plan),
            receiver_hypervisor: match &plan.servers[..] {
                [only] => only.hypervisor.clone(),
                _ => None,
            },
        }
    }
}
