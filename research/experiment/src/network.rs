//! The network of an experiment: `[network]` and `[network.queue]`.

use serde::{Deserialize, Serialize};
use uc_net::{FatTree, Fault, FaultRule, QueueSpec, RedSpec};

use crate::queue_length::QueueLength;
use crate::units::{BitsPerSec, Bytes, Nanos};

/// `[network]`: the links and the queue at every bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Arrangement of the links. Default `star`.
    #[serde(default)]
    pub topology: Topology,
    /// Rate of the bottleneck: the link from a star's switch to its receiver, those from a single
    /// switch to its hosts, all links from the switches of a fat-tree, the links between switches
    /// elsewhere.
    pub rate: BitsPerSec,
    /// Rate of the hosts' links (in a star, the senders'; with a single switch or a fat-tree, those
    /// to the switch); the bottleneck's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_rate: Option<BitsPerSec>,
    /// Propagation delay of one link in one direction: a path in a star has two links, in a
    /// dumbbell three.
    pub delay: Nanos,
    /// Propagation delay of a link between switches; `delay` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trunk_delay: Option<Nanos>,
    /// CPU time that a host spends on each packet that it sends or receives on its link; it handles one packet after
    /// the other. Default 0s.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub processing: Nanos,
    /// Probability that a bottleneck loses a packet before its queue. Default 0.
    #[serde(default, skip_serializing_if = "is_never")]
    pub loss: f64,
    /// Whether guests and servers may segment and coalesce in their interfaces (TSO, GSO, GRO). The
    /// papers turn it off, hence the default false.
    #[serde(default)]
    pub offload: bool,
    /// IP version of the hosts. Default `ipv4`.
    #[serde(default)]
    pub family: Family,
    /// Maximum size of an IP packet on all interfaces. Default 1500B, Ethernet's.
    #[serde(default = "ethernet_mtu", skip_serializing_if = "is_ethernet_mtu")]
    pub mtu: Bytes,
    /// Queue at each bottleneck. All other queues are DropTail and too large to fill.
    pub queue: Queue,
}

fn is_zero(time: &Nanos) -> bool {
    time.0 == 0
}

fn is_never(probability: &f64) -> bool {
    *probability == 0.0
}

/// Maximum size of an IP packet on Ethernet.
pub(crate) const ETHERNET_MTU: Bytes = Bytes(1_500);

fn ethernet_mtu() -> Bytes {
    ETHERNET_MTU
}

fn is_ethernet_mtu(mtu: &Bytes) -> bool {
    *mtu == ETHERNET_MTU
}

impl Network {
    /// Returns the rate of the hosts' links.
    pub fn access_rate(&self) -> BitsPerSec {
        self.access_rate.unwrap_or(self.rate)
    }

    /// Returns the rate of the link to a receiver.
    pub fn receiver_rate(&self) -> BitsPerSec {
        if self.topology.ends_in_bottleneck() {
            self.rate
        } else {
            self.access_rate()
        }
    }

    /// Returns the propagation delay in both directions on the longest path: over the access link, the
    /// trunks, the other access link; and back.
    pub fn round_trip(&self) -> Nanos {
        let trunks_ns = self.trunk_delay().0.saturating_mul(self.topology.trunks());
        let one_way_ns = trunks_ns.saturating_add(self.delay.0.saturating_mul(2));
        Nanos(one_way_ns.saturating_mul(2))
    }

    /// Returns the random loss at the bottlenecks as `uc-net` describes it.
    pub fn fault_rules(&self) -> Vec<FaultRule> {
        let chance_ppm = (self.loss * 1e6).round() as u32;
        let rule = (chance_ppm > 0).then_some(FaultRule {
            chance_ppm,
            flow: None,
            fault: Fault::Loss,
        });
        rule.into_iter().collect()
    }

    /// Returns the bottlenecks' queue as `uc-net` describes it.
    pub fn queue_spec(&self) -> QueueSpec {
        match &self.queue {
            Queue::Droptail { limit } => QueueSpec::DropTail {
                limit: (*limit).into(),
            },
            Queue::Threshold {
                limit,
                mark,
                not_ect,
            } => QueueSpec::Threshold {
                limit: (*limit).into(),
                mark: (*mark).into(),
                drop_not_ect: *not_ect == NotEct::Drop,
            },
            Queue::Red {
                min,
                max,
                limit,
                burst,
                probability,
                packet,
                ecn,
                rate,
            } => QueueSpec::Red(RedSpec {
                min_bytes: min.0,
                max_bytes: max.0,
                limit_bytes: limit.0,
                burst_packets: *burst,
                packet_bytes: packet.0,
                probability_ppm: (probability * 1e6).round() as u32,
                bandwidth: rate.unwrap_or(self.rate),
                ecn: *ecn,
            }),
        }
    }

    /// Returns the propagation delay of a link between switches.
    pub fn trunk_delay(&self) -> Nanos {
        self.trunk_delay.unwrap_or(self.delay)
    }
}

/// The arrangement of the links: `"star"`, `"dumbbell"`, `{ parking-lot = { hops = 3 } }`, `{
/// leaf-spine = { leaves = 4, spines = 2 } }`, `{ switch = { hosts = 17 } }`, `{ fat-tree = { ports = 8 } }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Topology {
    /// Every host has a link of its own to one switch; all guests send to one receiver, whose link
    /// is the bottleneck.
    #[default]
    Star,
    /// Two switches and the trunk between them, which is the bottleneck: guests on one side, a
    /// receiver for each on the other.
    Dumbbell,
    /// Switches in a row; each link to the next is a bottleneck. Every guest has a receiver of its
    /// own.
    ParkingLot {
        /// Number of links between switches in the row; the switches are numbered 0 to `hops`.
        hops: u32,
    },
    /// Leaf switches and spine switches. Every leaf has a link to every spine, each of them a
    /// bottleneck; a hash of a flow's addresses and ports selects its path (ECMP). Every guest has
    /// a receiver of its own.
    LeafSpine {
        /// Number of switches with hosts.
        leaves: u32,
        /// Number of spine switches, which connect the leaf switches.
        spines: u32,
    },
    /// One switch; every host both sends and receives, as the groups' `pattern` specifies, and each
    /// link from the switch to a host is a bottleneck.
    Switch {
        /// Number of hosts.
        hosts: u32,
    },
    /// A fat-tree of equal switches in three layers. Every host both sends and receives, as the
    /// groups' `pattern` specifies; each link from a switch is a bottleneck, and paths are selected
    /// as in a leaf–spine network.
    FatTree {
        /// Number of each switch's ports, even. The network has `ports`³ / 4 hosts.
        ports: u32,
    },
}

impl Topology {
    /// Returns the number of switches or leaves that `from` and `to` can select; 0 where the topology leaves no choice.
    pub fn places(self) -> u32 {
        match self {
            Topology::Star
            | Topology::Dumbbell
            | Topology::Switch { .. }
            | Topology::FatTree { .. } => 0,
            Topology::ParkingLot { hops } => hops.saturating_add(1),
            Topology::LeafSpine { leaves, .. } => leaves,
        }
    }

    /// Returns the number of links between switches on the longest path.
    pub fn trunks(self) -> u64 {
        match self {
            Topology::Star | Topology::Switch { .. } => 0,
            Topology::Dumbbell => 1,
            Topology::ParkingLot { hops } => hops.into(),
            Topology::LeafSpine { .. } => 2,
            Topology::FatTree { .. } => 4,
        }
    }

    /// Returns the topology's name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Topology::Star => "star",
            Topology::Dumbbell => "dumbbell",
            Topology::ParkingLot { .. } => "parking-lot",
            Topology::LeafSpine { .. } => "leaf-spine",
            Topology::Switch { .. } => "switch",
            Topology::FatTree { .. } => "fat-tree",
        }
    }

    /// Returns the number of receivers if the guests are on `hosts` hosts; 0 where every host both sends and receives.
    pub fn receivers(self, hosts: u32) -> u32 {
        match self {
            Topology::Star => 1,
            Topology::Dumbbell | Topology::ParkingLot { .. } | Topology::LeafSpine { .. } => hosts,
            Topology::Switch { .. } | Topology::FatTree { .. } => 0,
        }
    }

    /// Returns the number of hosts where every host both sends and receives; `None` for the other topologies.
    pub fn hosts(self) -> Option<u32> {
        match self {
            Topology::Switch { hosts } => Some(hosts),
            Topology::FatTree { ports } => Some(FatTree::host_count(ports)),
            _ => None,
        }
    }

    /// Returns whether the link to a receiver is a bottleneck.
    pub fn ends_in_bottleneck(self) -> bool {
        matches!(self, Topology::Star) || self.hosts().is_some()
    }
}

/// The IP version of the hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IP version 4.
    #[default]
    Ipv4,
    /// IP version 6.
    Ipv6,
}

impl Family {
    /// Returns the size of the IP header without options or extensions, in bytes.
    pub fn header_bytes(self) -> u32 {
        match self {
            Family::Ipv4 => 20,
            Family::Ipv6 => 40,
        }
    }
}

/// `[network.queue]`: the discipline at a bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Queue {
    /// First in, first out; packets that do not fit are dropped.
    Droptail {
        /// Capacity of the queue; packets beyond it are dropped.
        limit: QueueLength,
    },
    /// Random early detection, with the parameters of `tc-red`.
    Red {
        /// Average queue from which packets may be marked (or dropped).
        min: Bytes,
        /// Average queue from which every packet is marked (or dropped).
        max: Bytes,
        /// Capacity of the queue; packets beyond it are dropped.
        limit: Bytes,
        /// Burst in packets that the average tolerates; it determines the average's weight.
        burst: u32,
        /// Probability of marking (or dropping) just below `max`, 0 to 1.
        probability: f64,
        /// Mean packet size from which the average's weight is derived (`avpkt`).
        packet: Bytes,
        /// Whether ECN-capable packets are marked where others are dropped.
        ecn: bool,
        /// Rate for the average's decay while idle (`bandwidth`); the bottleneck's if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<BitsPerSec>,
    },
    /// Step marking by the instantaneous queue (DCTCP's switch); packets beyond the capacity are
    /// dropped.
    Threshold {
        /// Capacity of the queue; packets beyond it are dropped.
        limit: QueueLength,
        /// Threshold, in the unit of `limit`: a packet that finds a longer queue is marked.
        mark: QueueLength,
        /// Treatment of a packet above the threshold that can't be marked. Default `drop`.
        #[serde(default)]
        not_ect: NotEct,
    },
}

/// The treatment of packets that find a queue above the threshold and can't be marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NotEct {
    /// Such packets are dropped, as in switches that mark by (weighted) RED: SYNs, and all packets
    /// of flows without ECN.
    #[default]
    Drop,
    /// Such packets wait, up to the queue's capacity, as in switches that mark and drop by separate limits.
    Queue,
}
