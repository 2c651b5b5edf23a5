//! Checks of links and queues.

use std::ops::RangeInclusive;

use super::fault::{Check, ensure};
use crate::network::{Network, Queue, Topology};
use crate::queue_length::QueueLength;
use crate::units::Bytes;

pub(super) fn check_network(network: &Network) -> Check {
    let rate = |key: &str, bps: u64| {
        ensure(bps > 0, key, || {
            "is 0; nothing would ever arrive: give for example 10Mbit".into()
        })
    };
    rate("network.rate", network.rate.0)?;
    rate("network.access_rate", network.access_rate().0)?;
    ensure((0.0..1.0).contains(&network.loss), "network.loss", || {
        let loss = network.loss;
        format!(
            "{loss} is not a probability below 1; give a number from 0 to below 1, for example 0.02"
        )
    })?;
    ensure(MTU.contains(&network.mtu), "network.mtu", || {
        let (mtu, least, most) = (network.mtu, MTU.start(), MTU.end());
        format!("is {mtu}; give {least} to {most}")
    })?;
    check_topology(network)?;
    check_queue("network.queue", &network.queue)
}

/// Checks the queue of a network, or of one case.
pub(super) fn check_queue(key: &str, queue: &Queue) -> Check {
    match queue {
        Queue::Droptail { limit } => check_limit(key, *limit),
        Queue::Threshold { limit, mark, .. } => {
            check_limit(key, *limit)?;
            let is_below = mark.is_below(*limit);
            let key = format!("{key}.mark");
            ensure(is_below.is_some(), &key, || {
                format!(
                    "{mark} and the limit {limit} have different units; give both in bytes or in packets"
                )
            })?;
            ensure(is_below == Some(true), &key, || {
                format!("{mark} is not below the limit {limit}: it would never mark")
            })
        }
        Queue::Red { .. } => check_red(key, queue),
    }
}

/// Maximum number of links between switches in a row. This limit and the next three keep tables of routes small.
const HOPS_MAX: u32 = 64;
const SWITCHES_MAX: u32 = 1_000;
const HOSTS_MAX: u32 = 1_000;
const PORTS_MAX: u32 = 16;
/// Range of the MTU: from the minimum of IPv6 (RFC 8200 §5) to jumbo frames.
const MTU: RangeInclusive<Bytes> = Bytes(1_280)..=Bytes(9_000);

fn check_topology(network: &Network) -> Check {
    let key = "network.topology";
    let between = |name: &str, value: u32, least: u32, most: u32| {
        ensure((least..=most).contains(&value), key, || {
            format!("{name} is {value}; give {least} to {most}")
        })
    };
    let no_trunk = || {
        ensure(network.trunk_delay.is_none(), "network.trunk_delay", || {
            let name = network.topology.name();
            format!("a {name} has no links between switches; leave it out")
        })
    };
    match network.topology {
        Topology::Star => no_trunk(),
        Topology::Dumbbell => Ok(()),
        Topology::ParkingLot { hops } => between("hops", hops, 1, HOPS_MAX),
        Topology::LeafSpine { leaves, spines } => {
            between("leaves", leaves, 2, SWITCHES_MAX)?;
            between("spines", spines, 1, SWITCHES_MAX)
        }
        Topology::Switch { hosts } => {
            between("hosts", hosts, 2, HOSTS_MAX)?;
            no_trunk()
        }
        Topology::FatTree { ports } => {
            between("ports", ports, 2, PORTS_MAX)?;
            ensure(ports.is_multiple_of(2), key, || {
                format!("ports is {ports}; half of a switch's ports lead up: give an even number")
            })
        }
    }
}

fn check_limit(key: &str, limit: QueueLength) -> Check {
    // A queue that can't hold one full Ethernet frame passes nothing.
    let least = match limit {
        QueueLength::Bytes(_) => QueueLength::Bytes(Bytes(1514)),
        QueueLength::Packets(_) => QueueLength::Packets(1),
    };
    ensure(
        limit.is_below(least) == Some(false),
        &format!("{key}.limit"),
        || format!("holds not even one full packet; give at least {least}"),
    )
}

fn check_red(key: &str, queue: &Queue) -> Check {
    let Queue::Red {
        min,
        max,
        limit,
        burst,
        probability,
        packet,
        rate,
        ..
    } = queue
    else {
        return Ok(());
    };
    check_limit(key, QueueLength::Bytes(*limit))?;
    ensure(min.0 > 0, &format!("{key}.min"), || {
        "is 0; give for example 30000B".into()
    })?;
    ensure(min < max, &format!("{key}.max"), || {
        format!("{max} is not above min {min}")
    })?;
    ensure(max <= limit, &format!("{key}.limit"), || {
        format!("{limit} is below max {max}")
    })?;
    ensure(
        (0.0..=1.0).contains(probability),
        &format!("{key}.probability"),
        || format!("{probability} is not a probability; give a number from 0 to 1"),
    )?;
    ensure(packet.0 > 0, &format!("{key}.packet"), || {
        "is 0; give for example 1500B".into()
    })?;
    // tc-red derives the average's weight from burst + 1 − min/avpkt, which must stay positive.
    let least = min.0 / packet.0;
    ensure(
        *burst > 0 && *burst + 1 > least,
        &format!("{key}.burst"),
        || {
            format!(
                "{burst} packets are less than min/packet; give at least {}",
                least.max(1)
            )
        },
    )?;
    ensure(
        rate.is_none_or(|rate| rate.0 > 0),
        &format!("{key}.rate"),
        || "is 0; leave it out for the bottleneck's rate".into(),
    )
}
