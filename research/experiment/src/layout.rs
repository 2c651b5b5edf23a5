//! Construction of an experiment's network in `uc-net`, with the guests' hosts at their switches: the
//! same for the simulator and for real kernels.

use uc_net::{
    Dumbbell, FatTree, HostId, LeafSpine, Length, LinkId, LinkSpec, NetError, ParkingLot,
    QueueSpec, SingleSwitch, Star,
};

use crate::network::{Network, Topology};

/// Limit of a queue that never fills: DropTail, larger than the senders' own windows can ever
/// reach.
const AMPLE: Length = Length::Bytes(1 << 40);

/// The location of one host with guests, and that of their receivers: numbers of switches in a parking lot, of leaves
/// in a leaf–spine network. Other topologies ignore the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Switch of the guests.
    pub from: u32,
    /// Switch of their receivers.
    pub to: u32,
}

/// A network with its hosts.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Hosts, switches and links.
    pub topology: uc_net::Topology,
    /// Hosts of guests, in the order of the places.
    pub guests: Vec<HostId>,
    /// Receivers' hosts, one for each place. In a star all are one host; on a single switch and in a fat-tree they are
    /// the guests' own hosts.
    pub receivers: Vec<HostId>,
    /// Links with the experiment's queue.
    pub bottlenecks: Vec<LinkId>,
}

/// Builds `network`, with a host of guests and their receivers in each of `places`. A single switch and a fat-tree have
/// hosts of their own, and ignore `places`.
///
/// # Errors
/// [`NetError`] for values that `uc-net` refuses, and for a switch that the topology lacks.
pub fn layout(network: &Network, places: &[Place]) -> Result<Layout, NetError> {
    let delay = network.delay;
    let ample = QueueSpec::DropTail { limit: AMPLE };
    let access = LinkSpec {
        processing: network.processing,
        ..LinkSpec::new(network.access_rate(), delay, ample)
    };
    let trunk_delay = network.trunk_delay();
    let trunk = LinkSpec {
        faults: network.fault_rules(),
        ..LinkSpec::new(network.rate, trunk_delay, network.queue_spec())
    };
    let hosts = places.len() as u32;
    match network.topology {
        Topology::Star => {
            let bottleneck = LinkSpec { delay, ..trunk };
            Ok(star(Star::new(hosts, access, bottleneck)?))
        }
        Topology::Dumbbell => Ok(dumbbell(Dumbbell::new(hosts, access, trunk)?)),
        Topology::ParkingLot { hops } => {
            let crowds = Crowds::new(places, hops + 1)?;
            let lot = ParkingLot::new(&crowds.hosts_at, access, trunk)?;
            let forward = places.iter().any(|place| place.from < place.to);
            let backward = places.iter().any(|place| place.from > place.to);
            let used = [(lot.forward, forward), (lot.backward, backward)];
            let used = used.into_iter().filter(|(_, is_used)| *is_used);
            let bottlenecks = used.flat_map(|(links, _)| links).collect();
            Ok(crowds.layout(lot.topology, &lot.hosts, bottlenecks))
        }
        Topology::LeafSpine { leaves, spines } => {
            let crowds = Crowds::new(places, leaves)?;
            let fabric = LeafSpine::new(&crowds.hosts_at, spines, access, trunk)?;
            let bottlenecks = fabric.up.into_iter().chain(fabric.down).flatten().collect();
            Ok(crowds.layout(fabric.topology, &fabric.hosts, bottlenecks))
        }
        Topology::Switch { hosts } => {
            let bottleneck = LinkSpec { delay, ..trunk };
            let switch = SingleSwitch::new(hosts, access, bottleneck)?;
            Ok(Layout {
                guests: switch.hosts.clone(),
                receivers: switch.hosts,
                bottlenecks: switch.down,
                topology: switch.topology,
            })
        }
        Topology::FatTree { ports } => {
            let down = LinkSpec {
                delay,
                ..trunk.clone()
            };
            let tree = FatTree::new(ports, access, down, trunk)?;
            Ok(Layout {
                guests: tree.hosts.clone(),
                receivers: tree.hosts,
                bottlenecks: tree.from_switches,
                topology: tree.topology,
            })
        }
    }
}

/// Hosts at switches: the number at each, and the host of each guest and receiver.
struct Crowds {
    hosts_at: Vec<u32>,
    /// Switch of each guest's host, and the host's index at that switch.
    guests: Vec<(usize, usize)>,
    /// Switch of each receiver's host, and the host's index at that switch.
    receivers: Vec<(usize, usize)>,
}

impl Crowds {
    fn new(places: &[Place], switches: u32) -> Result<Crowds, NetError> {
        let mut crowds = Crowds {
            hosts_at: vec![0; switches as usize],
            guests: Vec::new(),
            receivers: Vec::new(),
        };
        for place in places {
            let guest = crowds.add(place.from)?;
            crowds.guests.push(guest);
            let receiver = crowds.add(place.to)?;
            crowds.receivers.push(receiver);
        }
        Ok(crowds)
    }

    fn add(&mut self, switch: u32) -> Result<(usize, usize), NetError> {
        let Some(count) = self.hosts_at.get_mut(switch as usize) else {
            return Err(NetError::UnknownNode {
                node: format!("switch {switch}"),
            });
        };
        *count += 1;
        Ok((switch as usize, *count as usize - 1))
    }

    fn layout(
        &self,
        topology: uc_net::Topology,
        hosts: &[Vec<HostId>],
        bottlenecks: Vec<LinkId>,
    ) -> Layout {
        let find = |ends: &[(usize, usize)]| {
            let ends = ends.iter();
            ends.map(|&(switch, number)| hosts[switch][number])
                .collect()
        };
        Layout {
            topology,
            guests: find(&self.guests),
            receivers: find(&self.receivers),
            bottlenecks,
        }
    }
}

fn star(star: Star) -> Layout {
    Layout {
        receivers: vec![star.receiver; star.senders.len()],
        guests: star.senders,
        bottlenecks: vec![star.bottleneck],
        topology: star.topology,
    }
}

fn dumbbell(dumbbell: Dumbbell) -> Layout {
    Layout {
        topology: dumbbell.topology,
        guests: dumbbell.left,
        receivers: dumbbell.right,
        bottlenecks: vec![dumbbell.forward],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{ETHERNET_MTU, Family, Queue};
    use crate::queue_length::QueueLength;
    use uc_net::{BitsPerSec, Nanos, Node};
    use uc_words::Bytes;

    fn network(topology: Topology) -> Network {
        Network {
            topology,
            rate: BitsPerSec(1_000_000_000),
            access_rate: None,
            delay: Nanos(10_000),
            trunk_delay: Some(Nanos(30_000)),
            processing: Nanos(0),
            loss: 0.0,
            offload: false,
            mtu: ETHERNET_MTU,
            family: Family::Ipv4,
            queue: Queue::Droptail {
                limit: QueueLength::Bytes(Bytes(100_000)),
            },
        }
    }

    #[test]
    fn hosts_are_at_the_switches_that_their_groups_name() {
        let places = [(0, 2), (1, 2), (2, 0)].map(|(from, to)| Place { from, to });
        let network = network(Topology::ParkingLot { hops: 2 });
        let lot = layout(&network, &places).unwrap();
        let switch_of = |host: HostId| {
            let links = lot.topology.links().iter();
            let mut up = links.filter(|link| link.from == Node::Host(host));
            up.next().map(|link| link.to.to_string())
        };
        let guests: Vec<_> = lot.guests.iter().map(|&host| switch_of(host)).collect();
        let receivers: Vec<_> = lot.receivers.iter().map(|&host| switch_of(host)).collect();
        let switch = |number: u32| Some(format!("switch {number}"));
        assert_eq!(guests, [switch(0), switch(1), switch(2)]);
        assert_eq!(receivers, [switch(2), switch(2), switch(0)]);
        // Both directions carry data, over two trunks each.
        assert_eq!(lot.bottlenecks.len(), 4);
        assert_eq!(network.round_trip(), Nanos::from_micros(160));
    }

    #[test]
    fn round_trips_of_huge_delays_saturate() {
        let mut far = network(Topology::ParkingLot { hops: 2 });
        far.delay = Nanos(u64::MAX / 3);
        far.trunk_delay = None;
        assert_eq!(far.round_trip(), Nanos::MAX);
    }

    #[test]
    fn every_topology_has_a_host_for_each_guest() {
        let places = [Place { from: 0, to: 1 }; 3];
        for (topology, receivers, bottlenecks) in [
            (Topology::Star, 1, 1),
            (Topology::Dumbbell, 3, 1),
            (Topology::ParkingLot { hops: 1 }, 3, 1),
            (Topology::Switch { hosts: 3 }, 3, 3),
            (
                Topology::LeafSpine {
                    leaves: 2,
                    spines: 4,
                },
                3,
                16,
            ),
        ] {
            let found = layout(&network(topology), &places).unwrap();
            let mut distinct = found.receivers.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(found.guests.len(), 3, "{topology:?}");
            assert_eq!(distinct.len(), receivers, "{topology:?}");
            assert_eq!(found.bottlenecks.len(), bottlenecks, "{topology:?}");
        }
    }

    #[test]
    fn a_fat_tree_has_its_own_hosts_and_a_queue_at_every_port_of_a_switch() {
        let network = network(Topology::FatTree { ports: 4 });
        let tree = layout(&network, &[]).unwrap();
        assert_eq!((tree.guests.len(), tree.bottlenecks.len()), (16, 20 * 4));
        assert_eq!(tree.guests, tree.receivers);
        // Two links of hosts and four trunks, there and back.
        assert_eq!(network.round_trip(), Nanos::from_micros(2 * (20 + 120)));
    }

    #[test]
    fn a_switch_number_out_of_range_is_refused() {
        let places = [Place { from: 0, to: 9 }];
        let error = layout(&network(Topology::ParkingLot { hops: 2 }), &places).unwrap_err();
        assert!(error.to_string().contains("switch 9"), "{error}");
    }
}
