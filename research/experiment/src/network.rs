//! The network of an experiment: `[network]` and `[network.queue]`.

use serde::{Deserialize, Serialize};
use uc_net::{Length, QueueSpec, RedSpec};

use crate::units::{BitsPerSec, Bytes, Nanos};

/// `[network]`: the links and the queue at every bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// How the links are laid.
    #[serde(default)]
    pub topology: Topology,
    /// The bottleneck's rate: the link from a star's switch to its receiver, those from a single
    /// switch to its hosts, the links between switches elsewhere.
    pub rate: BitsPerSec,
    /// The rate of the hosts' links (in a star, the senders'; with a single switch, those to the
    /// switch); the bottleneck's where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_rate: Option<BitsPerSec>,
    /// Propagation delay of one link, one way: a path in a star is two links, in a dumbbell three.
    pub delay: Nanos,
    /// That of a link between switches; `delay` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trunk_delay: Option<Nanos>,
    /// What a host's processor takes for each packet that it sends or receives on its link, one after
    /// the other. Default 0s.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub processing: Nanos,
    /// Whether guests and servers may segment and coalesce in their interfaces (TSO, GSO, GRO).
    /// The papers turn it off, hence the default.
    #[serde(default)]
    pub offload: bool,
    /// Which IP the hosts speak.
    #[serde(default)]
    pub family: Family,
    /// The queue at each bottleneck. All other queues are DropTail and too large to fill.
    pub queue: Queue,
}

fn is_zero(time: &Nanos) -> bool {
    time.0 == 0
}

impl Network {
    /// The rate of the hosts' links.
    pub fn access_rate(&self) -> BitsPerSec {
        self.access_rate.unwrap_or(self.rate)
    }

    /// The bottlenecks' queue as the network of either arm builds it.
    pub fn queue_spec(&self) -> QueueSpec {
        match &self.queue {
            Queue::Droptail { limit } => QueueSpec::DropTail {
                limit: Length::Bytes(limit.0.into()),
            },
            Queue::Threshold {
                limit,
                mark,
                not_ect,
            } => QueueSpec::Threshold {
                limit: Length::Bytes(limit.0.into()),
                mark: Length::Bytes(mark.0.into()),
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
                bandwidth: uc_net::BitsPerSec(rate.unwrap_or(self.rate).0),
                ecn: *ecn,
            }),
        }
    }

    /// The propagation delay of a link between switches.
    pub fn trunk_delay(&self) -> Nanos {
        self.trunk_delay.unwrap_or(self.delay)
    }
}

/// How the links are laid: `"star"`, `"dumbbell"`, `{ parking-lot = { hops = 3 } }`,
/// `{ leaf-spine = { leaves = 4, spines = 2 } }`, `{ switch = { hosts = 17 } }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Topology {
    /// Every host has a link of its own to one switch; all guests send to one receiver, whose link
    /// is the bottleneck.
    #[default]
    Star,
    /// Two switches and the trunk between them, which is the bottleneck: guests on the one side,
    /// a receiver for each on the other.
    Dumbbell,
    /// Switches in a row; each link to the next is a bottleneck. Every guest has a receiver of its
    /// own.
    ParkingLot {
        /// Links between switches, so that there are switches 0 to `hops`.
        hops: u32,
    },
    /// Every leaf has a link to every spine, each of them a bottleneck; a flow's path is drawn by
    /// a hash of its addresses and ports (ECMP). Every guest has a receiver of its own.
    LeafSpine {
        /// Switches with hosts.
        leaves: u32,
        /// Switches between them.
        spines: u32,
    },
    /// One switch; every host both sends and receives, as the groups' `pattern` says, and each link
    /// from the switch to a host is a bottleneck.
    Switch {
        /// How many hosts there are.
        hosts: u32,
    },
}

impl Topology {
    /// The switches or leaves among which a group chooses by `from` and `to`; 0 where it can't.
    pub fn places(self) -> u32 {
        match self {
            Topology::Star | Topology::Dumbbell | Topology::Switch { .. } => 0,
            Topology::ParkingLot { hops } => hops.saturating_add(1),
            Topology::LeafSpine { leaves, .. } => leaves,
        }
    }

    /// Its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Topology::Star => "star",
            Topology::Dumbbell => "dumbbell",
            Topology::ParkingLot { .. } => "parking-lot",
            Topology::LeafSpine { .. } => "leaf-spine",
            Topology::Switch { .. } => "switch",
        }
    }
}

/// Which IP the hosts speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// The IP header without options or extensions, in bytes.
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
    /// First in, first out; what does not fit is dropped.
    Droptail {
        /// Its capacity.
        limit: Bytes,
    },
    /// Random early detection, with the parameters of `tc-red`.
    Red {
        /// The average queue from which packets may be marked (or dropped).
        min: Bytes,
        /// The average queue from which every packet is marked (or dropped).
        max: Bytes,
        /// Its capacity.
        limit: Bytes,
        /// How large a burst the average forgives, in packets: it sets the average's weight.
        burst: u32,
        /// The probability just below `max`, 0 to 1.
        probability: f64,
        /// The mean packet that the average's weight is derived for (`avpkt`).
        packet: Bytes,
        /// Whether ECN-capable packets are marked where others are dropped.
        ecn: bool,
        /// The rate for the average's decay while idle (`bandwidth`); the bottleneck's where
        /// absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<BitsPerSec>,
    },
    /// Marks by the instantaneous queue (DCTCP's switch), drops beyond its capacity.
    Threshold {
        /// Its capacity.
        limit: Bytes,
        /// A packet that finds more than this is marked.
        mark: Bytes,
        /// What becomes of one that can't be marked there. Default `drop`.
        #[serde(default)]
        not_ect: NotEct,
    },
}

/// What becomes of packets that can't be marked and find more than the threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NotEct {
    /// They are dropped, as switches do whose marking is (weighted) RED's: SYNs, and all packets of
    /// flows without ECN.
    #[default]
    Drop,
    /// They wait, up to the queue's capacity, as where marking is apart from dropping.
    Queue,
}
