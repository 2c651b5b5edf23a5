//! The network of an experiment: `[network]` and `[network.queue]`.

use serde::{Deserialize, Serialize};

use crate::units::{BitsPerSec, Bytes, Nanos};

/// `[network]`: the links and the one bottleneck queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// How the links are laid.
    #[serde(default)]
    pub topology: Topology,
    /// The bottleneck's rate: the link from the switch to the receiver.
    pub rate: BitsPerSec,
    /// The rate of the senders' links; the bottleneck's where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_rate: Option<BitsPerSec>,
    /// Propagation delay of one link, one way: a path in a star is two links.
    pub delay: Nanos,
    /// Whether guests and servers may segment and coalesce in their interfaces (TSO, GSO, GRO).
    /// The papers turn it off, hence the default.
    #[serde(default)]
    pub offload: bool,
    /// Which IP the hosts speak.
    #[serde(default)]
    pub family: Family,
    /// The queue at the bottleneck. All other queues are DropTail and too large to fill.
    pub queue: Queue,
}

impl Network {
    /// The rate of the senders' links.
    pub fn access_rate(&self) -> BitsPerSec {
        self.access_rate.unwrap_or(self.rate)
    }
}

/// How the links are laid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// Every host has a link of its own to one switch; the receiver's is the bottleneck.
    #[default]
    Star,
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

/// `[network.queue]`: the discipline at the switch's port toward the receiver.
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
        /// A packet that finds more than this is marked, or dropped if it can't be.
        mark: Bytes,
    },
}
