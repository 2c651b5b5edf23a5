//! Properties of every network: its outcome depends on the injections alone, and its totals agree.

use std::collections::BTreeMap;

use crate::common::{Journal, Parcel, Told, disciplines, link_10_mbit, parcel, small_red, star};
use proptest::prelude::*;
use uc_net::{
    DropReason, Ecn, Fault, FaultRule, FlowCounts, LinkReport, LinkSpec, Nanos, Network, Star,
};

/// An injection: gap in nanoseconds, sender, size, ECN bits.
type Injection = (u64, u32, u32, u8);

fn injections() -> impl Strategy<Value = Vec<Injection>> {
    let gap = prop_oneof![3 => Just(0u64), 3 => 0..300_000u64, 1 => 0..20_000_000u64];
    prop::collection::vec((gap, 0..4u32, 60..1_515u32, 0..4u8), 1..300)
}

/// Generates injections in steps of half a packet's time on an access link, so that many events
/// coincide.
fn coincidences() -> impl Strategy<Value = Vec<Injection>> {
    let gap = (0..5u64).prop_map(|steps| steps * 50_000);
    prop::collection::vec((gap, 0..4u32, Just(1_250u32), 0..4u8), 1..100)
}

/// Runs a star and returns its journal; `polls` selects the injections before which to advance,
/// `looks` those before which to read a link.
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

/// Returns the bottleneck's reports every `every` nanoseconds until the network is empty.
fn samples(star: &Star, injections: &[Injection], seed: u64, every: u64) -> Vec<LinkReport> {
    let mut network = Network::new(&star.topology, seed).unwrap();
    let (mut now, mut reports) = (Nanos::ZERO, Vec::new());
    let sample = |network: &mut Network<Parcel>, until: Nanos, reports: &mut Vec<LinkReport>| {
        while reports.len() as u64 * every <= until.0 {
            let at = Nanos(reports.len() as u64 * every);
            while network.next_delivery(at, &mut ()).is_some() {}
            assert_eq!(network.clock(), at);
            reports.push(network.link(star.bottleneck).unwrap());
        }
    };
    for (number, &(gap_ns, sender, size_bytes, bits)) in injections.iter().enumerate() {
        // A sample at this very time comes after the packet, as an arrival at this time does.
        now += Nanos(gap_ns);
        sample(&mut network, Nanos(now.0.saturating_sub(1)), &mut reports);
        let packet = parcel(number as u64, size_bytes, Ecn::from_bits(bits));
        network
            .inject(now, star.senders[sender as usize], star.receiver, packet)
            .unwrap();
    }
    sample(&mut network, now + Nanos::from_millis(100), &mut reports);
    reports
}

proptest! {
    #[test]
    fn a_report_does_not_depend_on_earlier_reports(
        injections in prop_oneof![injections(), coincidences()], seed: u64,
    ) {
        let every = 1_000_000;
        for queue in disciplines() {
            for spec in [link_10_mbit(queue.clone()), faulty(queue.clone())] {
                let star = star(4, spec);
                let fine = samples(&star, &injections, seed, every);
                let coarse = samples(&star, &injections, seed, 7 * every);
                let of_fine: Vec<LinkReport> = fine.into_iter().step_by(7).collect();
                prop_assert_eq!(of_fine, coarse, "seed {}", seed);
            }
        }
    }

    #[test]
    fn polling_and_reading_do_not_change_the_outcome(
        injections in prop_oneof![injections(), coincidences()],
        seed: u64,
        stride in 2..30usize,
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
    fn sink_calls_come_in_the_order_of_time(injections in injections(), seed: u64) {
        let star = star(4, faulty(small_red(true)));
        let (told, _) = run(&star, &injections, seed, |n| n % 7 == 0, false);
        let times: Vec<Nanos> = told.iter().map(|told| match told {
            Told::Delivered(at, ..) | Told::Dropped(at, ..) | Told::Marked(at, ..) => *at,
        }).collect();
        prop_assert!(times.is_sorted(), "seed {}", seed);
    }

    #[test]
    fn totals_equal_the_calls_to_the_sink(injections in injections(), seed: u64) {
        for queue in disciplines() {
            let star = star(4, faulty(queue));
            let (told, mut network) = run(&star, &injections, seed, |_| false, false);
            let stats = network.link(star.bottleneck).unwrap().stats;
            let mut flows = BTreeMap::<u32, FlowCounts>::new();
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
            prop_assert_eq!(network.flows().iter().collect::<BTreeMap<_, _>>(), flows, "seed {}", seed);
            prop_assert_eq!(
                stats.offered_packets + stats.duplicated_packets,
                stats.delivered_packets + stats.dropped_packets(),
                "seed {}", seed
            );
            prop_assert_eq!(stats.offered_packets, injections.len() as u64);
        }
    }
}
