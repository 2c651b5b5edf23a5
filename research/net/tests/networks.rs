//! Networks: routes, broadcasts, events at the same time, and refused descriptions.

use crate::common::{Journal, Parcel, Told, endless, link_10_mbit, parcel, star};
use uc_net::{
    BitsPerSec, Dumbbell, Ecn, HostId, LinkId, LinkSpec, Nanos, NetError, Network, Node, SwitchId,
    Topology,
};

fn delivered(journal: &Journal) -> Vec<(u64, u32, u64)> {
    let one = |told: &Told| match told {
        Told::Delivered(at, host, packet) => Some((at.0, host.0, packet.number)),
        _ => None,
    };
    journal.0.iter().filter_map(one).collect()
}

#[test]
fn packet_arrives_after_the_sum_of_its_links_times() {
    let star = star(2, link_10_mbit(endless()));
    let mut network = Network::new(&star.topology, 1).unwrap();
    let mut journal = Journal::default();
    let packet = parcel(0, 1_250, Ecn::Ect0);
    network
        .inject(
            Nanos::from_micros(10),
            star.senders[0],
            star.receiver,
            packet,
        )
        .unwrap();
    while let Some(at) = network.next_event() {
        network.advance(at, &mut journal);
    }
    // 10 us; 100 us and 250 us on the access link; 1 ms and 250 us on the bottleneck.
    assert_eq!(delivered(&journal), [(1_610_000, star.receiver.0, 0)]);
    assert_eq!(network.clock(), Nanos(1_610_000));
    let report = network.link(star.bottleneck).unwrap();
    assert_eq!(
        (report.stats.sent_packets, report.stats.sent_bytes),
        (1, 1_250)
    );
    assert!(network.link(LinkId(99)).is_none());
}

#[test]
fn simultaneous_packets_cross_the_switch_in_injection_order() {
    let star = star(3, link_10_mbit(endless()));
    let mut network = Network::new(&star.topology, 1).unwrap();
    let mut journal = Journal::default();
    for sender in [2u32, 0, 1] {
        let packet = parcel(sender.into(), 500, Ecn::Ect0);
        network
            .inject(
                Nanos::ZERO,
                star.senders[sender as usize],
                star.receiver,
                packet,
            )
            .unwrap();
    }
    network.advance(Nanos::MAX, &mut journal);
    let numbers: Vec<u64> = delivered(&journal).iter().map(|told| told.2).collect();
    assert_eq!(numbers, [2, 0, 1]);
}

#[test]
fn arrivals_precede_simultaneous_injections_however_late_the_driver_is() {
    let dumbbell = Dumbbell::new(2, link_10_mbit(endless()), link_10_mbit(endless())).unwrap();
    let (left, right) = (&dumbbell.left, &dumbbell.right);
    // A packet of 1,250 bytes takes 1,250 us over each link. The packet from the left reaches the
    // first switch when the other is injected on the right; both reach the second switch together.
    let meeting = Nanos::from_micros(1_250);
    for driver_is_late in [false, true] {
        let mut network = Network::new(&dumbbell.topology, 1).unwrap();
        let mut journal = Journal::default();
        network
            .inject(Nanos::ZERO, left[0], right[1], parcel(1, 1_250, Ecn::Ect0))
            .unwrap();
        if !driver_is_late {
            network.advance(meeting, &mut journal);
        }
        network
            .inject(meeting, right[0], right[1], parcel(2, 1_250, Ecn::Ect0))
            .unwrap();
        network.advance(Nanos::MAX, &mut journal);
        let numbers: Vec<u64> = delivered(&journal).iter().map(|told| told.2).collect();
        assert_eq!(numbers, [1, 2], "late: {driver_is_late}");
    }
}

#[test]
fn a_broadcast_reaches_every_other_host_once() {
    let star = star(4, link_10_mbit(endless()));
    let mut network = Network::new(&star.topology, 1).unwrap();
    let mut journal = Journal::default();
    let frame = parcel(7, 60, Ecn::NotEct);
    network
        .inject_broadcast(Nanos::ZERO, star.senders[1], &frame)
        .unwrap();
    network.advance(Nanos::MAX, &mut journal);
    let mut hosts: Vec<u32> = delivered(&journal).iter().map(|told| told.1).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, [0, 2, 3, 4]);
}

#[test]
fn dumbbell_routes_left_to_right_over_the_trunk_and_left_to_left_without_it() {
    let dumbbell = Dumbbell::new(3, link_10_mbit(endless()), link_10_mbit(endless())).unwrap();
    let mut network = Network::new(&dumbbell.topology, 1).unwrap();
    let mut journal = Journal::default();
    let (left, right) = (&dumbbell.left, &dumbbell.right);
    let ways = [
        (left[0], right[2]),
        (left[0], left[1]),
        (right[1], left[2]),
        (right[0], right[1]),
    ];
    for (number, (from, to)) in (0..).zip(ways) {
        network
            .inject(Nanos::ZERO, from, to, parcel(number, 100, Ecn::Ect0))
            .unwrap();
    }
    network.advance(Nanos::MAX, &mut journal);
    let mut arrived: Vec<(u64, u32)> = delivered(&journal)
        .iter()
        .map(|told| (told.2, told.1))
        .collect();
    arrived.sort_unstable();
    assert_eq!(
        arrived,
        [
            (0, right[2].0),
            (1, left[1].0),
            (2, left[2].0),
            (3, right[1].0)
        ]
    );
    for trunk in [dumbbell.forward, dumbbell.backward] {
        assert_eq!(network.link(trunk).unwrap().stats.delivered_packets, 1);
    }
}

#[test]
fn paths_have_the_fewest_hops_and_never_lead_through_a_host() {
    let mut topology = Topology::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| topology.add_host(name).unwrap());
    let [s, t, u] = ["s", "t", "u"].map(|name| topology.add_switch(name).unwrap());
    let spec = || link_10_mbit(endless());
    // a -> b -> c would be short, but b is a host; a -> s -> t -> u -> c and a -> s -> u -> c are
    // left.
    let ends: [(Node, Node); 7] = [
        (a.into(), b.into()),
        (b.into(), c.into()),
        (a.into(), s.into()),
        (s.into(), t.into()),
        (t.into(), u.into()),
        (u.into(), c.into()),
        (s.into(), u.into()),
    ];
    for (from, to) in ends {
        topology.connect(from, to, spec()).unwrap();
    }
    let mut network = Network::new(&topology, 1).unwrap();
    network
        .inject(Nanos::ZERO, a, c, parcel(0, 100, Ecn::Ect0))
        .unwrap();
    let mut journal = Journal::default();
    network.advance(Nanos::MAX, &mut journal);
    assert_eq!(delivered(&journal).len(), 1);
    let used = |network: &mut Network<Parcel>, from: Node, to: Node| {
        let link = topology.link_between(from, to).unwrap();
        network.link(link).unwrap().stats.delivered_packets
    };
    assert_eq!(used(&mut network, s.into(), u.into()), 1);
    assert_eq!(used(&mut network, a.into(), b.into()), 0);
    let back = network
        .inject(Nanos::ZERO, c, a, parcel(1, 100, Ecn::Ect0))
        .unwrap_err();
    assert_eq!(
        back.to_string(),
        "no way from host 2 to host 0; connect them through a switch"
    );
}

#[test]
fn unusable_descriptions_are_refused_by_name() {
    let mut topology = Topology::new();
    let (a, b) = (
        topology.add_host("a").unwrap(),
        topology.add_host("b").unwrap(),
    );
    let spec = || link_10_mbit(endless());
    assert_eq!(
        topology.add_switch("a"),
        Err(NetError::NameTwice {
            name: "a".to_owned()
        })
    );
    topology.connect(a, b, spec()).unwrap();
    let again = topology.connect(a, b, spec()).unwrap_err();
    assert_eq!(
        again,
        NetError::NameTwice {
            name: "a->b".to_owned()
        }
    );
    assert!(matches!(
        topology.connect(a, a, spec()),
        Err(NetError::Loop { .. })
    ));
    let stranger = topology.connect(a, SwitchId(3), spec()).unwrap_err();
    assert!(
        stranger
            .to_string()
            .starts_with("switch 3 is not in this topology")
    );
    topology
        .connect(
            b,
            a,
            LinkSpec {
                rate: BitsPerSec(0),
                ..spec()
            },
        )
        .unwrap();
    let error = Network::<Parcel>::new(&topology, 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "link b->a: the rate is 0; give a positive value"
    );
}

#[test]
fn injections_dated_back_happen_now() {
    let star = star(1, link_10_mbit(endless()));
    let mut network = Network::new(&star.topology, 1).unwrap();
    let mut journal = Journal::default();
    network.advance(Nanos::from_millis(5), &mut journal);
    let packet = parcel(0, 1_250, Ecn::Ect0);
    network
        .inject(Nanos::ZERO, star.senders[0], star.receiver, packet.clone())
        .unwrap();
    network.advance(Nanos::MAX, &mut journal);
    assert_eq!(delivered(&journal)[0].0, 5_000_000 + 1_600_000);
    assert!(
        network
            .inject(Nanos::ZERO, HostId(9), star.receiver, packet.clone())
            .is_err()
    );
    assert!(
        network
            .inject(Nanos::ZERO, star.receiver, star.receiver, packet)
            .is_err()
    );
}
