//! The ready-made topologies: where flows meet, and how ECMP spreads them.

use crate::common::{Journal, Parcel, Told, endless, link_10_mbit, parcel};
use uc_net::{
    Ecn, HostId, LeafSpine, LinkId, LinkSpec, Nanos, NetError, Network, ParkingLot, Topology,
};

fn spec() -> LinkSpec {
    link_10_mbit(endless())
}

fn of_flow(flow: u32, number: u64) -> Parcel {
    Parcel {
        flow,
        ..parcel(number, 100, Ecn::Ect0)
    }
}

/// Returns the number of packets that each of `links` has carried.
fn carried(network: &mut Network<Parcel>, links: &[LinkId]) -> Vec<u64> {
    let delivered = |link: &LinkId| network.link(*link).unwrap().stats.delivered_packets;
    links.iter().map(delivered).collect()
}

#[test]
fn parking_lot_flow_crosses_only_the_trunks_between_its_switches() {
    let lot = ParkingLot::new(&[2, 1, 1, 2], spec(), spec()).unwrap();
    let numbers: Vec<u32> = lot.hosts.iter().flatten().map(|host| host.0).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
    for from in 0..4 {
        for to in (0..4).filter(|&to| to != from) {
            let mut network = Network::new(&lot.topology, 1).unwrap();
            let mut journal = Journal::default();
            let ends = (lot.hosts[from][0], lot.hosts[to][0]);
            network
                .inject(Nanos::ZERO, ends.0, ends.1, of_flow(0, 0))
                .unwrap();
            network.advance(Nanos::MAX, &mut journal);
            assert!(matches!(journal.0[..], [Told::Delivered(_, host, _)] if host == ends.1));
            let between =
                |trunk: usize, from: usize, to: usize| u64::from(from <= trunk && trunk < to);
            let forward: Vec<u64> = (0..3).map(|trunk| between(trunk, from, to)).collect();
            let backward: Vec<u64> = (0..3).map(|trunk| between(trunk, to, from)).collect();
            assert_eq!(
                carried(&mut network, &lot.forward),
                forward,
                "{from} to {to}"
            );
            assert_eq!(
                carried(&mut network, &lot.backward),
                backward,
                "{from} to {to}"
            );
        }
    }
}

#[test]
fn many_flows_spread_evenly_over_the_spines() {
    let (spines, flows, seed) = (4, 8_000u32, 11);
    let fabric = LeafSpine::new(&[4, 4], spines, spec(), spec()).unwrap();
    let mut network = Network::new(&fabric.topology, seed).unwrap();
    let mut journal = Journal::default();
    for flow in 0..flows {
        let (from, to) = (
            fabric.hosts[0][flow as usize % 4],
            fabric.hosts[1][flow as usize / 4 % 4],
        );
        network
            .inject(Nanos::ZERO, from, to, of_flow(flow, 0))
            .unwrap();
    }
    network.advance(Nanos::MAX, &mut journal);
    assert_eq!(journal.0.len(), flows as usize);
    let up = carried(&mut network, &fabric.up[0]);
    // Expected 2,000 each, standard deviation 39: within five of them.
    assert!(
        up.iter().all(|count| (1_806..2_194).contains(count)),
        "seed {seed}: {up:?}"
    );
    // A spine has one link down to the leaf, and nothing goes up from the other leaf.
    assert_eq!(carried(&mut network, &fabric.down[1]), up);
    assert_eq!(carried(&mut network, &fabric.up[1]), [0; 4]);
    assert_eq!(carried(&mut network, &fabric.down[0]), [0; 4]);
}

#[test]
fn a_flow_keeps_its_spine_and_order_and_its_directions_choose_independently() {
    let (seed, flows) = (3, 64u32);
    let fabric = LeafSpine::new(&[1, 1], 3, spec(), spec()).unwrap();
    let (left, right) = (fabric.hosts[0][0], fabric.hosts[1][0]);
    let path = |network: &mut Network<Parcel>, flow: u32, from: HostId, to: HostId, leaf: usize| {
        let before = carried(network, &fabric.up[leaf]);
        let mut journal = Journal::default();
        for number in 0..20 {
            let now = network.clock() + Nanos(number);
            network
                .inject(now, from, to, of_flow(flow, number))
                .unwrap();
        }
        let limit = network.clock() + Nanos::from_secs(1);
        network.advance(limit, &mut journal);
        let numbers = journal.0.iter().map(|told| match told {
            Told::Delivered(_, _, packet) => packet.number,
            other => panic!("seed {seed}: {other:?}"),
        });
        assert!(numbers.eq(0..20), "seed {seed}, flow {flow}");
        let after = carried(network, &fabric.up[leaf]);
        let grown: Vec<usize> = (0..3)
            .filter(|&spine| after[spine] == before[spine] + 20)
            .collect();
        assert_eq!(
            grown.len(),
            1,
            "seed {seed}, flow {flow}: {before:?}, {after:?}"
        );
        grown[0]
    };
    let mut network = Network::new(&fabric.topology, seed).unwrap();
    let mut again = network.clone();
    let mut alike = 0;
    for flow in 0..flows {
        let out = path(&mut network, flow, left, right, 0);
        assert_eq!(out, path(&mut again, flow, left, right, 0));
        alike += u32::from(out == path(&mut network, flow, right, left, 1));
    }
    // A third of them by chance: 21, standard deviation 3.8.
    assert!(
        (2..41).contains(&alike),
        "seed {seed}: {alike} of {flows} symmetric"
    );
}

#[test]
fn a_different_seed_maps_flows_to_different_spines() {
    let fabric = LeafSpine::new(&[1, 1], 4, spec(), spec()).unwrap();
    let spread = |seed| {
        let mut network = Network::new(&fabric.topology, seed).unwrap();
        for flow in 0..9 {
            let (from, to) = (fabric.hosts[0][0], fabric.hosts[1][0]);
            network
                .inject(Nanos::ZERO, from, to, of_flow(flow, 0))
                .unwrap();
        }
        network.advance(Nanos::MAX, &mut Journal::default());
        carried(&mut network, &fabric.up[0])
    };
    let spreads: std::collections::BTreeSet<Vec<u64>> = (0..20).map(spread).collect();
    assert!(spreads.len() > 5, "{spreads:?}");
}

#[test]
fn five_hundred_hosts_reach_each_other() {
    let fabric = LeafSpine::new(&[25; 20], 8, spec(), spec()).unwrap();
    let mut network = Network::new(&fabric.topology, 1).unwrap();
    let mut journal = Journal::default();
    let hosts: Vec<HostId> = fabric.hosts.iter().flatten().copied().collect();
    assert_eq!(hosts.len(), 500);
    for (number, &from) in (0..).zip(&hosts) {
        network
            .inject_broadcast(Nanos::ZERO, from, &of_flow(number, u64::from(number)))
            .unwrap();
    }
    network.advance(Nanos::MAX, &mut journal);
    assert_eq!(journal.0.len(), 500 * 499);
    let inner: usize = fabric.up.iter().map(Vec::len).sum();
    assert_eq!(
        (inner, fabric.topology.links().len()),
        (160, 2 * (160 + 500))
    );
}

#[test]
fn shapes_without_a_trunk_are_refused() {
    let refused = |result: Result<Topology, NetError>| result.unwrap_err().to_string();
    let lot = ParkingLot::new(&[3], spec(), spec()).map(|lot| lot.topology);
    assert_eq!(refused(lot), "a parking lot of 1 switches; give at least 2");
    for (hosts_at, spines, part) in [(&[1, 1][..], 0, "spines"), (&[], 2, "leaves")] {
        let fabric = LeafSpine::new(hosts_at, spines, spec(), spec()).map(|fabric| fabric.topology);
        assert_eq!(
            refused(fabric),
            format!("a leaf-spine network of 0 {part}; give at least 1")
        );
    }
}
