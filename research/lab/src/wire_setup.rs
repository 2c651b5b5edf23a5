//! The input of the emulated network.

use std::time::Duration;

use uc_experiment::{Hypervisor, Network};

use crate::flow::FiveTuple;
use crate::plan::Plan;
use crate::tap::Tap;

/// The input of the emulator.
#[derive(Debug)]
pub struct WireSetup {
    /// The experiment's network.
    pub network: Network,
    /// Seed of RED's random numbers.
    pub seed: u64,
    /// Interval at which the bottleneck's queue is read.
    pub sample: Duration,
    /// Taps of all hosts of the network, the server's last.
    pub taps: Vec<Tap>,
    /// Host of each link-layer address.
    pub addresses: Vec<([u8; 6], usize)>,
    /// Flows with separate counters; others are counted together.
    pub flows: Vec<FiveTuple>,
    /// Hypervisor that takes the receiver's CPU away at times; `None`: it always runs.
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
        let server = (plan.server.mac, plan.server_host());
        let addresses = guests.chain([server]).collect();
        Self {
            network: network.clone(),
            seed,
            sample,
            taps,
            addresses,
            flows,
            receiver_hypervisor: plan.server.hypervisor.clone(),
        }
    }
}
