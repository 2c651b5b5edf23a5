//! The topologies of the papers: star, single switch, dumbbell, parking lot, leaf–spine. A fat-tree is
//! in `fat_tree`.

use crate::error::NetError;
use crate::link_model::LinkSpec;
use crate::topology::{HostId, LinkId, SwitchId, Topology};

/// A star: senders around one switch, and one receiver behind the bottleneck.
#[derive(Clone, Debug)]
pub struct Star {
    /// The network; the senders are hosts 0..n, the receiver is host n.
    pub topology: Topology,
    /// The hosts that send, one for each link to the switch.
    pub senders: Vec<HostId>,
    /// The host that receives.
    pub receiver: HostId,
    /// The switch's port toward the receiver.
    pub bottleneck: LinkId,
}

impl Star {
    /// Builds a star of `n_senders`. `bottleneck` describes the link from the switch to the
    /// receiver, `access` every other link.
    ///
    /// # Errors
    /// None for any number of senders that fits 32 bits; the type is the builder's.
    pub fn new(n_senders: u32, access: LinkSpec, bottleneck: LinkSpec) -> Result<Star, NetError> {
        let mut topology = Topology::new();
        let senders = add_hosts(&mut topology, "sender", n_senders)?;
        let receiver = topology.add_host("receiver")?;
        let switch = topology.add_switch("switch")?;
        attach(&mut topology, &senders, switch, &access, &access)?;
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

/// Hosts around one switch, each of which sends and receives.
#[derive(Clone, Debug)]
pub struct SingleSwitch {
    /// The network; hosts are numbered 0..n.
    pub topology: Topology,
    /// The hosts, in the order of their numbers.
    pub hosts: Vec<HostId>,
    /// The switch's port toward each host.
    pub down: Vec<LinkId>,
}

impl SingleSwitch {
    /// Builds a switch with `n_hosts`. `access` describes every link to the switch, `bottleneck`
    /// every link from it.
    ///
    /// # Errors
    /// [`NetError::TooSmall`] without two hosts.
    pub fn new(
        n_hosts: u32,
        access: LinkSpec,
        bottleneck: LinkSpec,
    ) -> Result<SingleSwitch, NetError> {
        at_least(2, "a single switch", "hosts", n_hosts as usize)?;
        let mut topology = Topology::new();
        let hosts = add_hosts(&mut topology, "host", n_hosts)?;
        let switch = topology.add_switch("switch")?;
        let down = attach(&mut topology, &hosts, switch, &access, &bottleneck)?;
        Ok(SingleSwitch {
            topology,
            hosts,
            down,
        })
    }
}

/// Pairs of hosts on the two sides of one trunk.
#[derive(Clone, Debug)]
pub struct Dumbbell {
    /// The network; hosts 0..n are on the left, n..2n on the right.
    pub topology: Topology,
    /// The hosts at the left switch.
    pub left: Vec<HostId>,
    /// Hosts on the right; the i-th is the peer of the i-th on the left.
    pub right: Vec<HostId>,
    /// The trunk from left to right.
    pub forward: LinkId,
    /// The trunk from right to left.
    pub backward: LinkId,
}

impl Dumbbell {
    /// Builds a dumbbell of `pairs`. `access` describes every host's two links, `trunk` the two
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
        attach(&mut topology, &left, west, &access, &access)?;
        attach(&mut topology, &right, east, &access, &access)?;
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

/// A parking lot: switches in a row, each with hosts. Flows that cross several trunks compete with
/// flows that cross one.
#[derive(Clone, Debug)]
pub struct ParkingLot {
    /// The network; hosts are numbered along the row.
    pub topology: Topology,
    /// The hosts at every switch, by the switch's number.
    pub hosts: Vec<Vec<HostId>>,
    /// The trunks from each switch to the next.
    pub forward: Vec<LinkId>,
    /// The trunks from each switch but the first to the one before it.
    pub backward: Vec<LinkId>,
}

impl ParkingLot {
    /// Builds a parking lot: switches in a row, the first with `hosts_at[0]` hosts, and so on;
    /// `access` and `trunk` are the links' parameters, as in [`Dumbbell::new`].
    ///
    /// # Errors
    /// [`NetError::TooSmall`] with fewer than two switches.
    pub fn new(
        hosts_at: &[u32],
        access: LinkSpec,
        trunk: LinkSpec,
    ) -> Result<ParkingLot, NetError> {
        at_least(2, "a parking lot", "switches", hosts_at.len())?;
        let mut topology = Topology::new();
        let (switches, hosts) = add_crowds(&mut topology, "hop", hosts_at, &access)?;
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        for pair in switches.windows(2) {
            forward.push(topology.connect(pair[0], pair[1], trunk.clone())?);
            backward.push(topology.connect(pair[1], pair[0], trunk.clone())?);
        }
        Ok(ParkingLot {
            topology,
            hosts,
            forward,
            backward,
        })
    }
}

/// Leaf switches with hosts, each connected to every spine switch: between two leaves there are as
/// many equally short paths as spines.
#[derive(Clone, Debug)]
pub struct LeafSpine {
    /// The network; hosts are numbered leaf by leaf.
    pub topology: Topology,
    /// The hosts at every leaf switch, by the switch's number.
    pub hosts: Vec<Vec<HostId>>,
    /// The links from every leaf to every spine.
    pub up: Vec<Vec<LinkId>>,
    /// The links to every leaf from every spine.
    pub down: Vec<Vec<LinkId>>,
}

impl LeafSpine {
    /// Builds a leaf for every number of hosts in `hosts_at`, and `spines` above them. `access`
    /// describes every host's two links, `fabric` every link between leaf and spine.
    ///
    /// # Errors
    /// [`NetError::TooSmall`] without a leaf or a spine.
    pub fn new(
        hosts_at: &[u32],
        spines: u32,
        access: LinkSpec,
        fabric: LinkSpec,
    ) -> Result<LeafSpine, NetError> {
        at_least(1, "a leaf-spine network", "leaves", hosts_at.len())?;
        at_least(1, "a leaf-spine network", "spines", spines as usize)?;
        let mut topology = Topology::new();
        let (leaves, hosts) = add_crowds(&mut topology, "leaf", hosts_at, &access)?;
        let spines = add_switches(&mut topology, "spine", spines)?;
        let (mut up, mut down) = (Vec::new(), Vec::new());
        for &leaf in &leaves {
            let mut connect =
                |from: SwitchId, to: SwitchId| topology.connect(from, to, fabric.clone());
            let above = spines.iter().map(|&spine| connect(leaf, spine));
            up.push(above.collect::<Result<_, _>>()?);
            let below = spines.iter().map(|&spine| connect(spine, leaf));
            down.push(below.collect::<Result<_, _>>()?);
        }
        Ok(LeafSpine {
            topology,
            hosts,
            up,
            down,
        })
    }
}

fn at_least(
    least: usize,
    shape: &'static str,
    part: &'static str,
    count: usize,
) -> Result<(), NetError> {
    if count < least {
        return Err(NetError::TooSmall {
            shape,
            part,
            count,
            least,
        });
    }
    Ok(())
}

/// Adds switches whose names begin with `kind`, and the hosts of each.
fn add_crowds(
    topology: &mut Topology,
    kind: &str,
    hosts_at: &[u32],
    access: &LinkSpec,
) -> Result<(Vec<SwitchId>, Vec<Vec<HostId>>), NetError> {
    let (mut switches, mut crowds) = (Vec::new(), Vec::new());
    for (number, &count) in hosts_at.iter().enumerate() {
        let switch = topology.add_switch(&format!("{kind}{number}"))?;
        let hosts = add_hosts(topology, &format!("{kind}{number}.host"), count)?;
        attach(topology, &hosts, switch, access, access)?;
        switches.push(switch);
        crowds.push(hosts);
    }
    Ok((switches, crowds))
}

/// Adds switches whose names begin with `kind`.
pub(crate) fn add_switches(
    topology: &mut Topology,
    kind: &str,
    count: u32,
) -> Result<Vec<SwitchId>, NetError> {
    (0..count)
        .map(|number| topology.add_switch(&format!("{kind}{number}")))
        .collect()
}

/// Adds hosts whose names begin with `kind`.
pub(crate) fn add_hosts(
    topology: &mut Topology,
    kind: &str,
    count: u32,
) -> Result<Vec<HostId>, NetError> {
    (0..count)
        .map(|number| topology.add_host(&format!("{kind}{number}")))
        .collect()
}

/// Connects hosts to a switch by links `up` and `down`. Returns the links `down`, to the hosts.
pub(crate) fn attach(
    topology: &mut Topology,
    hosts: &[HostId],
    switch: SwitchId,
    up: &LinkSpec,
    down: &LinkSpec,
) -> Result<Vec<LinkId>, NetError> {
    let connect = |&host| {
        topology.connect(host, switch, up.clone())?;
        topology.connect(switch, host, down.clone())
    };
    hosts.iter().map(connect).collect()
}
