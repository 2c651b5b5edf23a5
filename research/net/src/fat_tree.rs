//! The fat-tree of equal switches (Al-Fares, Loukissas and Vahdat, SIGCOMM 2008, §3).

use crate::error::NetError;
use crate::link_model::LinkSpec;
use crate::shapes::{add_hosts, add_switches, attach};
use crate::topology::{HostId, LinkId, SwitchId, Topology};

/// A fat-tree of switches with k ports each: k pods of k/2 edge and k/2 aggregation switches, (k/2)² core switches
/// above them, k/2 hosts at each edge switch. Between two hosts of different pods there are (k/2)² equally short paths
/// of six links. Any half of the hosts can send to the other half at full rate, if the paths are chosen well.
#[derive(Clone, Debug)]
pub struct FatTree {
    /// The network; hosts are numbered edge switch by edge switch, pod by pod.
    pub topology: Topology,
    /// The hosts, in the order of their numbers.
    pub hosts: Vec<HostId>,
    /// The links out of switches: first those to the hosts, in the hosts' order, then those to other switches.
    pub from_switches: Vec<LinkId>,
}

impl FatTree {
    /// Returns the number of hosts of a fat-tree of switches with `ports` ports: k³/4.
    pub fn host_count(ports: u32) -> u32 {
        let half = ports / 2;
        half.saturating_mul(half).saturating_mul(ports)
    }

    /// Builds the fat-tree of switches with `ports` ports. `access` describes the links from the hosts, `down` the
    /// links to the hosts, `fabric` the links between switches.
    ///
    /// # Errors
    /// [`NetError::OddPorts`] unless `ports` is even and positive.
    pub fn new(
        ports: u32,
        access: LinkSpec,
        down: LinkSpec,
        fabric: LinkSpec,
    ) -> Result<FatTree, NetError> {
        if ports == 0 || !ports.is_multiple_of(2) {
            return Err(NetError::OddPorts { ports });
        }
        let half = ports / 2;
        let mut topology = Topology::new();
        let cores = add_switches(&mut topology, "core", half * half)?;
        let (mut hosts, mut to_hosts, mut between) = (Vec::new(), Vec::new(), Vec::new());
        for pod in 0..ports {
            let edges = add_switches(&mut topology, &format!("pod{pod}.edge"), half)?;
            let aggregations = add_switches(&mut topology, &format!("pod{pod}.agg"), half)?;
            let mut join = |topology: &mut Topology, lower: SwitchId, upper: SwitchId| {
                between.push(topology.connect(lower, upper, fabric.clone())?);
                between.push(topology.connect(upper, lower, fabric.clone())?);
                Ok::<(), NetError>(())
            };
            for (number, &edge) in edges.iter().enumerate() {
                let kind = format!("pod{pod}.edge{number}.host");
                let own = add_hosts(&mut topology, &kind, half)?;
                to_hosts.extend(attach(&mut topology, &own, edge, &access, &down)?);
                hosts.extend(own);
                for &aggregation in &aggregations {
                    join(&mut topology, edge, aggregation)?;
                }
            }
            // The i-th aggregation switch of each pod leads to the i-th set of k/2 core switches.
            let sets = cores.chunks(half as usize);
            for (&aggregation, set) in aggregations.iter().zip(sets) {
                for &core in set {
                    join(&mut topology, aggregation, core)?;
                }
            }
        }
        to_hosts.extend(between);
        Ok(FatTree {
            topology,
            hosts,
            from_switches: to_hosts,
        })
    }
}
