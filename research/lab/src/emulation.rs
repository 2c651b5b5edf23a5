//! Construction of an experiment's network in `uc-net`, with the hosts of a plan.

use uc_experiment::Network;
use uc_experiment::layout::{Place, layout};
use uc_net::{HostId, LinkId, NetError, Topology};

use crate::error::LabError;

/// A network that has a host for each tap.
#[derive(Debug, Clone)]
pub struct Emulation {
    /// Hosts, switches and links.
    pub topology: Topology,
    /// Host in the network of each host of the plan: first those with guests, then the receivers'.
    pub hosts: Vec<HostId>,
    /// Links with the experiment's queue; only the queue of the first is sampled.
    pub bottlenecks: Vec<LinkId>,
}

impl Emulation {
    /// Lays out `network` for hosts with guests in these places, and for their receivers.
    ///
    /// # Errors
    /// [`LabError::Network`] for values that `uc-net` refuses.
    pub fn new(network: &Network, places: &[Place]) -> Result<Self, LabError> {
        let found = layout(network, places)?;
        let receivers = network.topology.receivers(places.len() as u32);
        let mut hosts = found.guests;
        // In a star each place has the same receiver.
        hosts.extend(found.receivers.iter().take(receivers as usize));
        Ok(Self {
            topology: found.topology,
            hosts,
            bottlenecks: found.bottlenecks,
        })
    }
}

impl From<NetError> for LabError {
    fn from(source: NetError) -> Self {
        Self::Network(source)
    }
}

#[cfg(test)]
mod tests {
    use uc_experiment::Experiment;

    use super::*;

    #[test]
    fn every_topology_has_one_host_for_each_tap() {
        let text = |topology: &str| {
            format!(
                "name = \"t\"\ntitle = \"t\"\nduration = \"1s\"\n\
                 [network]\ntopology = {topology}\nrate = \"1Mbit\"\ndelay = \"1ms\"\n\
                 queue = {{ kind = \"droptail\", limit = \"9kB\" }}\n[stack.reno]\n\
                 [[case]]\nname = \"c\"\n[[case.guests]]\nname = \"g\"\nstack = \"reno\"\n"
            )
        };
        let places = [(0, 2), (1, 2), (0, 1)].map(|(from, to)| Place { from, to });
        for (topology, hosts) in [
            ("\"star\"", vec![0, 1, 2, 3]),
            ("\"dumbbell\"", vec![0, 1, 2, 3, 4, 5]),
            // Hosts have numbers along the row: two at its start, two in its middle, two at its end.
            ("{ parking-lot = { hops = 2 } }", vec![0, 2, 1, 4, 5, 3]),
        ] {
            let experiment = Experiment::from_str("t", &text(topology)).unwrap();
            let found = Emulation::new(&experiment.network, &places).unwrap();
            let numbers: Vec<u32> = found.hosts.iter().map(|host| host.0).collect();
            assert_eq!(numbers, hosts, "{topology}");
            assert_eq!(found.topology.host_count(), hosts.len(), "{topology}");
        }
    }
}
