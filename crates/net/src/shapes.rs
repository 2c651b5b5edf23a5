//! The two topologies of the papers, ready made.

use crate::error::NetError;
use crate::link::LinkSpec;
use crate::topology::{HostId, LinkId, SwitchId, Topology};

/// Senders around one switch, and one receiver behind the bottleneck.
#[derive(Clone, Debug)]
pub struct Star {
    /// The network; the senders are hosts 0..n, the receiver is host n.
    pub topology: Topology,
    /// The sending hosts.
    pub senders: Vec<HostId>,
    /// The receiving host.
    pub receiver: HostId,
    /// The switch's port toward the receiver.
    pub bottleneck: LinkId,
}

impl Star {
    /// A star of `n_senders`. Every link is as `access` says, both ways, but for the one from the
    /// switch to the receiver, which is as `bottleneck` says.
    ///
    /// # Errors
    /// None for any number of senders that fits 32 bits; the type is the builder's.
    pub fn new(n_senders: u32, access: LinkSpec, bottleneck: LinkSpec) -> Result<Star, NetError> {
        let mut topology = Topology::new();
        let senders = add_hosts(&mut topology, "sender", n_senders)?;
        let receiver = topology.add_host("receiver")?;
        let switch = topology.add_switch("switch")?;
        attach(&mut topology, &senders, switch, &access)?;
        topology.connect(receiver, switch, access)?;
        let bottleneck = topology.connect(switch, receiver, bottleneck)?;
        Ok(Star {
            topology,
            senders,
            receiver,
            bottleneck,
        })
    }
}

/// Pairs of hosts on the two sides of one trunk.
#[derive(Clone, Debug)]
pub struct Dumbbell {
    /// The network; hosts 0..n are on the left, n..2n on the right.
    pub topology: Topology,
    /// Hosts on the left.
    pub left: Vec<HostId>,
    /// Hosts on the right; the i-th belongs to the i-th on the left.
    pub right: Vec<HostId>,
    /// The trunk from left to right.
    pub forward: LinkId,
    /// The trunk from right to left.
    pub backward: LinkId,
}

impl Dumbbell {
    /// A dumbbell of `pairs`, with `access` for every host's two links and `trunk` for the two
    /// directions between the switches.
    ///
    /// # Errors
    /// None for any number of pairs that fits 31 bits; the type is the builder's.
    pub fn new(pairs: u32, access: LinkSpec, trunk: LinkSpec) -> Result<Dumbbell, NetError> {
        let mut topology = Topology::new();
        let left = add_hosts(&mut topology, "left", pairs)?;
        let right = add_hosts(&mut topology, "right", pairs)?;
        let west = topology.add_switch("west")?;
        let east = topology.add_switch("east")?;
        attach(&mut topology, &left, west, &access)?;
        attach(&mut topology, &right, east, &access)?;
        let forward = topology.connect(west, east, trunk.clone())?;
        let backward = topology.connect(east, west, trunk)?;
        Ok(Dumbbell {
            topology,
            left,
            right,
            forward,
            backward,
        })
    }
}

fn add_hosts(topology: &mut Topology, kind: &str, count: u32) -> Result<Vec<HostId>, NetError> {
    (0..count)
        .map(|number| topology.add_host(&format!("{kind}{number}")))
        .collect()
}

fn attach(
    topology: &mut Topology,
    hosts: &[HostId],
    switch: SwitchId,
    spec: &LinkSpec,
) -> Result<(), NetError> {
    for &host in hosts {
        topology.connect(host, switch, spec.clone())?;
        topology.connect(switch, host, spec.clone())?;
    }
    Ok(())
}
