//! Networks: routes, broadcasts, totals, and an outcome that depends on nothing but the injections.

mod common;

use common::{Parcel, disciplines, endless, link_10_mbit, parcel, small_red};
use proptest::prelude::*;
use uc_net::{
    BitsPerSec, DropReason, Dumbbell, Ecn, Fault, FaultRule, FlowCounts, HostId, LinkId, LinkSpec,
    Nanos, NetError, Network, Node, Sink, Star, SwitchId, Topology,
};

/// One thing that a network told its sink.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Delivered(Nanos, HostId, Parcel),
    Dropped(Nanos, LinkId, Parcel, DropReason),
    Marked(Nanos, LinkId, Parcel),
}

#[derive(Default)]
struct Journal(Vec<Told>);

impl Sink<Parcel> for Journal {
    fn deliver(&mut self, at: Nanos, host: HostId, packet: Parcel) {
        self.0.push(Told::Delivered(at, host, packet));
    }

    fn dropped(&mut self, at: Nanos, link: LinkId, packet: &Parcel, reason: DropReason) {
        self.0.push(Told::Dropped(at, link, packet.clone(), reason));
    }

    fn marked(&mut self, at: Nanos, link: LinkId, packet: &Parcel) {
        self.0.push(Told::Marked(at, link, packet.clone()));
    }
}

fn star(senders: u32, bottleneck: LinkSpec) -> Star {
    let access = LinkSpec::new(
        BitsPerSec::from_mbit(100),
        Nanos::from_micros(250),
        endless(),
    );
    Star::new(senders, access, bottleneck).unwrap()
}

fn delivered(journal: &Journal) -> Vec<(u64, u32, u64)> {
    let one = |told: &Told| match told {
        Told::Delivered(at, host, packet) => Some((at.0, host.0, packet.number)),
        _ => None,
    };
    journal.0.iter().filter_map(one).collect()
}

#[test]
fn a_packet_takes_the_time_of_its_links() {
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
fn packets_of_one_moment_cross_the_switch_in_the_order_in_which_they_were_injected() {
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
fn a_dumbbell_leads_left_to_right_over_the_trunk_and_left_to_left_beside_it() {
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
fn a_way_never_leads_through_a_host_and_takes_the_fewest_hops() {
    let mut topology = Topology::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| topology.add_host(name).unwrap());
    let [s, t, u] = ["s", "t", "u"].map(|name| topology.add_switch(name).unwrap());
    let spec = || link_10_mbit(endless());
    // a -> b -> c would be short, but b is a host; a -> s -> t -> u -> c and a -> s -> u -> c.
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
fn a_wrong_description_is_refused_by_name() {
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
fn an_injection_can_not_be_dated_back() {
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

/// Gap in nanoseconds, sender, size, ECN bits.
type Injection = (u64, u32, u32, u8);

fn injections() -> impl Strategy<Value = Vec<Injection>> {
    let gap = prop_oneof![3 => Just(0u64), 3 => 0..300_000u64, 1 => 0..20_000_000u64];
    prop::collection::vec((gap, 0..4u32, 60..1_515u32, 0..4u8), 1..300)
}

/// Runs a star whose sinks' journal is returned; `polls` says before which injections to advance,
/// `looks` before which of those to read a link.
fn run(
    star: &Star,
    injections: &[Injection],
    seed: u64,
    polls: impl Fn(usize) -> bool,
    looks: bool,
) -> (Vec<Told>, Network<Parcel>) {
    let mut network = Network::new(&star.topology, seed).unwrap();
    let (mut journal, mut now) = (Journal::default(), Nanos::ZERO);
    for (number, &(gap_ns, sender, size_bytes, bits)) in injections.iter().enumerate() {
        now += Nanos(gap_ns);
        if polls(number) {
            network.advance(now, &mut journal);
            if looks {
                network.link(star.bottleneck).unwrap();
            }
        }
        let packet = parcel(number as u64, size_bytes, Ecn::from_bits(bits));
        network
            .inject(now, star.senders[sender as usize], star.receiver, packet)
            .unwrap();
    }
    network.advance(Nanos::MAX, &mut journal);
    (journal.0, network)
}

fn faulty(queue: uc_net::QueueSpec) -> LinkSpec {
    let mut spec = link_10_mbit(queue);
    let rule = |chance_ppm, fault| FaultRule {
        chance_ppm,
        flow: None,
        fault,
    };
    spec.faults = vec![
        rule(20_000, Fault::Loss),
        rule(20_000, Fault::Duplicate),
        rule(
            100_000,
            Fault::Reorder {
                hold: Nanos::from_millis(4),
            },
        ),
    ];
    spec
}

proptest! {
    #[test]
    fn polling_and_looking_change_nothing(
        injections in injections(), seed: u64, stride in 2..30usize,
    ) {
        for queue in disciplines() {
            for spec in [link_10_mbit(queue.clone()), faulty(queue.clone())] {
                let star = star(4, spec);
                let (eager, _) = run(&star, &injections, seed, |_| true, true);
                let (late, _) = run(&star, &injections, seed, |n| n % stride == 0, false);
                let (last, _) = run(&star, &injections, seed, |_| false, false);
                prop_assert_eq!(&eager, &late, "seed {}", seed);
                prop_assert_eq!(&eager, &last, "seed {}", seed);
            }
        }
    }

    #[test]
    fn the_sink_is_told_in_the_order_of_time(injections in injections(), seed: u64) {
        let star = star(4, faulty(small_red(true)));
        let (told, _) = run(&star, &injections, seed, |n| n % 7 == 0, false);
        let times: Vec<Nanos> = told.iter().map(|told| match told {
            Told::Delivered(at, ..) | Told::Dropped(at, ..) | Told::Marked(at, ..) => *at,
        }).collect();
        prop_assert!(times.is_sorted(), "seed {}", seed);
    }

    #[test]
    fn the_totals_are_what_the_sink_was_told(injections in injections(), seed: u64) {
        for queue in disciplines() {
            let star = star(4, faulty(queue));
            let (told, mut network) = run(&star, &injections, seed, |_| false, false);
            let stats = network.link(star.bottleneck).unwrap().stats;
            let mut flows = std::collections::BTreeMap::<u32, FlowCounts>::new();
            let (mut delivered, mut dropped, mut marked) = (0, [0; 5], 0);
            for told in &told {
                match told {
                    Told::Delivered(..) => delivered += 1,
                    Told::Dropped(_, link, packet, reason) => {
                        prop_assert_eq!(*link, star.bottleneck);
                        dropped[*reason as usize] += 1;
                        flows.entry(packet.flow).or_default().dropped_packets += 1;
                    }
                    Told::Marked(_, _, packet) => {
                        marked += 1;
                        flows.entry(packet.flow).or_default().marked_packets += 1;
                    }
                }
            }
            prop_assert_eq!(stats.delivered_packets, delivered, "seed {}", seed);
            prop_assert_eq!(stats.marked_packets, marked, "seed {}", seed);
            for reason in DropReason::ALL {
                let told = dropped[reason as usize];
                prop_assert_eq!(stats.dropped(reason), told, "seed {}, {}", seed, reason.name());
            }
            prop_assert_eq!(network.flows(), &flows, "seed {}", seed);
            prop_assert_eq!(
                stats.offered_packets + stats.duplicated_packets,
                stats.delivered_packets + stats.dropped_packets(),
                "seed {}", seed
            );
            prop_assert_eq!(stats.offered_packets, injections.len() as u64);
        }
    }
}
