//! The fat-tree: its size, the lengths of its paths, and how ECMP spreads flows over its core.

use crate::common::{Journal, Parcel, endless, link_10_mbit, parcel};
use uc_net::{Ecn, FatTree, HostId, LinkId, Nanos, NetError, Network};

fn tree(ports: u32) -> Result<FatTree, NetError> {
    let spec = link_10_mbit(endless());
    FatTree::new(ports, spec.clone(), spec.clone(), spec)
}

/// Returns the name of each link with the number of packets that it has carried.
fn carried(tree: &FatTree, network: &mut Network<Parcel>) -> Vec<(String, u64)> {
    let links = tree.topology.links().iter().enumerate();
    let carried = links.map(|(number, link)| {
        let report = network.link(LinkId(number as u32)).unwrap();
        (link.name.clone(), report.stats.delivered_packets)
    });
    carried.collect()
}

/// Sends a packet of each of `flows` flows between two hosts.
fn send(tree: &FatTree, from: u32, to: u32, flows: u32, seed: u64) -> Vec<(String, u64)> {
    let mut network = Network::new(&tree.topology, seed).unwrap();
    for flow in 0..flows {
        let packet = Parcel {
            flow,
            ..parcel(0, 100, Ecn::Ect0)
        };
        network
            .inject(Nanos::ZERO, HostId(from), HostId(to), packet)
            .unwrap();
    }
    let mut journal = Journal::default();
    network.advance(Nanos::MAX, &mut journal);
    assert_eq!(journal.0.len(), flows as usize);
    carried(tree, &mut network)
}

#[test]
fn every_switch_has_as_many_ports_as_asked_for() {
    for (ports, hosts, switches) in [(2, 2, 5), (4, 16, 20), (8, 128, 80)] {
        let tree = tree(ports).unwrap();
        assert_eq!(tree.hosts.len(), hosts);
        assert_eq!(FatTree::host_count(ports) as usize, hosts);
        let mut ends: Vec<String> = tree
            .topology
            .links()
            .iter()
            .map(|link| link.from.to_string())
            .filter(|name| name.starts_with("switch"))
            .collect();
        assert_eq!(ends.len(), tree.from_switches.len());
        ends.sort();
        let of_each: Vec<usize> = ends.chunk_by(|a, b| a == b).map(<[_]>::len).collect();
        assert_eq!(of_each, vec![ports as usize; switches]);
    }
}

#[test]
fn a_path_has_two_four_or_six_links() {
    let tree = tree(4).unwrap();
    for from in 0..16 {
        for to in (0..16).filter(|&to| to != from) {
            let total: u64 = send(&tree, from, to, 1, 1).iter().map(|(_, n)| n).sum();
            let expected = match (from / 2 == to / 2, from / 4 == to / 4) {
                (true, _) => 2,
                (false, true) => 4,
                (false, false) => 6,
            };
            assert_eq!(total, expected, "{from} to {to}");
        }
    }
}

#[test]
fn many_flows_between_two_pods_spread_evenly_over_the_core() {
    let (flows, seed) = (8_000, 11);
    let tree = tree(4).unwrap();
    let carried = send(&tree, 0, 15, flows, seed);
    let cores: Vec<u64> = carried
        .iter()
        .filter(|(name, _)| name.starts_with("core") && name.contains("->pod3."))
        .map(|(_, packets)| *packets)
        .collect();
    // Expected 2,000 each, standard deviation 39: within five of them.
    assert_eq!(cores.len(), 4);
    assert!(
        cores.iter().all(|count| (1_806..2_194).contains(count)),
        "seed {seed}: {cores:?}"
    );
    // Nothing goes to a pod that is not theirs.
    let astray = carried.iter().filter(|(name, packets)| {
        *packets > 0 && (name.contains("->pod1.") || name.contains("->pod2."))
    });
    assert_eq!(astray.count(), 0);
}

#[test]
fn an_odd_number_of_ports_is_refused() {
    for ports in [0, 3] {
        let refusal = tree(ports).unwrap_err().to_string();
        let expected =
            format!("a fat-tree of switches with {ports} ports; give an even number, at least 2");
        assert_eq!(refusal, expected);
    }
}
