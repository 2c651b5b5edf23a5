//! Construction of an experiment's network in `uc-net`.

use uc_experiment::{Network, Topology};
use uc_net::queue::{Length, QueueSpec};
use uc_net::{LinkSpec, NetError, Star};

use crate::error::LabError;

/// Limit of a queue that never fills: DropTail, larger than the senders' own windows can ever
/// reach.
const AMPLE: Length = Length::Bytes(1 << 30);

/// Builds the star of `hosts` senders' hosts and the server. Host numbers are those of the plan.
///
/// # Errors
/// [`LabError::Network`] for values that `uc-net` refuses, [`LabError::Unsupported`] for another
/// topology.
pub fn star(network: &Network, hosts: usize) -> Result<Star, LabError> {
    if network.topology != Topology::Star {
        return Err(LabError::Unsupported {
            what: format!("[network] topology: a {}", network.topology.name()),
            mend: "run it with --on sim",
        });
    }
    let ample = QueueSpec::DropTail { limit: AMPLE };
    let access = LinkSpec::new(network.access_rate(), network.delay, ample);
    let bottleneck = LinkSpec::new(network.rate, network.delay, network.queue_spec());
    // A LAN has at most 254 hosts.
    Ok(Star::new(hosts as u32, access, bottleneck)?)
}

impl From<NetError> for LabError {
    fn from(source: NetError) -> Self {
        Self::Network(source)
    }
}
