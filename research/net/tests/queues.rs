//! Properties of every discipline: every loss is counted, order is kept, only ECT is marked.

use crate::common::{Parcel, disciplines, link_10_mbit, parcel};
use proptest::prelude::*;
use uc_net::{DropReason, Ecn, Length, Link, LinkSpec, Nanos, QueueSpec, Verdict};

/// Generates packets: gap to the packet before in microseconds, size, ECN bits.
fn traffic() -> impl Strategy<Value = Vec<(u64, u32, u8)>> {
    // At 10 Mb/s a packet of 1,000 bytes takes 800 us: the queues fill, and empty now and then.
    let gap = prop_oneof![8 => 0..900u64, 1 => 0..50_000u64];
    prop::collection::vec((gap, 60..1_515u32, 0..4u8), 1..400)
}

/// A link's verdicts and deliveries on a trace.
struct Outcome {
    verdicts: Vec<(Verdict, Parcel)>,
    delivered: Vec<(Nanos, Parcel)>,
    link: Link<Parcel>,
    now: Nanos,
}

fn run(spec: &LinkSpec, trace: &[(u64, u32, u8)], seed: u64) -> Outcome {
    let link = Link::new(spec, seed, "a->b").unwrap();
    let mut outcome = Outcome {
        verdicts: Vec::new(),
        delivered: Vec::new(),
        link,
        now: Nanos::ZERO,
    };
    for (number, &(gap_us, size_bytes, bits)) in (0..).zip(trace) {
        outcome.now += Nanos::from_micros(gap_us);
        let packet = parcel(number, size_bytes, Ecn::from_bits(bits));
        let verdicts = &mut outcome.verdicts;
        let mut saw = |verdict, packet: &Parcel| verdicts.push((verdict, packet.clone()));
        outcome.link.offer(outcome.now, packet, &mut saw);
        outcome.delivered.extend(outcome.link.receive(outcome.now));
    }
    outcome
}

proptest! {
    #[test]
    fn every_packet_is_delivered_or_counted_as_dropped(trace in traffic(), seed: u64) {
        for queue in disciplines() {
            let mut outcome = run(&link_10_mbit(queue.clone()), &trace, seed);
            let report = outcome.link.report(outcome.now);
            let (stats, waiting) = (report.stats, report.backlog);
            prop_assert_eq!(stats.offered_packets, trace.len() as u64);
            prop_assert_eq!(
                stats.offered_packets,
                stats.dropped_packets() + waiting.packets + stats.sent_packets,
                "seed {}, {:?}", seed, queue
            );
            prop_assert_eq!(stats.delivered_packets, outcome.delivered.len() as u64);
            let dropped: u64 = outcome.verdicts.iter()
                .filter(|(verdict, _)| matches!(verdict, Verdict::Dropped(_)))
                .map(|(_, packet)| u64::from(packet.size_bytes)).sum();
            prop_assert_eq!(stats.offered_bytes, dropped + waiting.bytes + stats.sent_bytes);
            // When the link is empty, every packet sent has arrived.
            while outcome.link.receive(Nanos::MAX).is_some() {}
            let stats = outcome.link.report(Nanos::MAX).stats;
            prop_assert_eq!(stats.delivered_packets + stats.dropped_packets(), trace.len() as u64);
        }
    }

    #[test]
    fn packets_arrive_in_the_order_in_which_they_were_offered(trace in traffic(), seed: u64) {
        for queue in disciplines() {
            let mut outcome = run(&link_10_mbit(queue.clone()), &trace, seed);
            while let Some(arrival) = outcome.link.receive(Nanos::MAX) {
                outcome.delivered.push(arrival);
            }
            let sorted = outcome.delivered.windows(2).all(|pair| {
                pair[0].1.number < pair[1].1.number && pair[0].0 <= pair[1].0
            });
            prop_assert!(sorted, "seed {}, {:?}", seed, queue);
        }
    }

    #[test]
    fn only_ect_packets_are_marked_and_only_by_marking_queues(trace in traffic(), seed: u64) {
        for queue in disciplines() {
            let outcome = run(&link_10_mbit(queue.clone()), &trace, seed);
            for (verdict, packet) in &outcome.verdicts {
                let came_with = Ecn::from_bits(trace[packet.number as usize].2);
                match verdict {
                    Verdict::Marked => prop_assert!(
                        came_with != Ecn::NotEct && packet.ecn == Ecn::Ce, "seed {}", seed),
                    _ => prop_assert_eq!(packet.ecn, came_with, "seed {}", seed),
                }
                let marks = !matches!(&queue, QueueSpec::DropTail { .. })
                    && !matches!(&queue, QueueSpec::Red(red) if !red.ecn);
                prop_assert!(marks || *verdict != Verdict::Marked, "seed {}, {:?}", seed, queue);
                // RED and strict thresholds drop packets that they can't mark, and never one that
                // they can.
                let by_choice = matches!(verdict, Verdict::Dropped(reason)
                    if *reason != DropReason::Full);
                prop_assert!(!by_choice || !marks || came_with == Ecn::NotEct, "seed {}", seed);
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_outcome(trace in traffic(), seed: u64) {
        for queue in disciplines() {
            let spec = link_10_mbit(queue);
            let (one, two) = (run(&spec, &trace, seed), run(&spec, &trace, seed));
            prop_assert_eq!(one.verdicts, two.verdicts, "seed {}", seed);
            prop_assert_eq!(one.delivered, two.delivered, "seed {}", seed);
        }
    }
}

/// Returns the verdicts on a simultaneous burst of 1,000-byte packets; the first goes to the
/// transmitter.
fn burst(queue: QueueSpec, ecn: &[Ecn]) -> Vec<Verdict> {
    burst_of(1_000, queue, ecn)
}

fn burst_of(size_bytes: u32, queue: QueueSpec, ecn: &[Ecn]) -> Vec<Verdict> {
    let mut link = Link::new(&link_10_mbit(queue), 1, "a->b").unwrap();
    let mut verdicts = Vec::new();
    for (number, &ecn) in (0..).zip(ecn) {
        let mut saw = |verdict, _: &Parcel| verdicts.push(verdict);
        link.offer(Nanos::ZERO, parcel(number, size_bytes, ecn), &mut saw);
    }
    verdicts
}

#[test]
fn small_packets_fill_a_queue_that_counts_packets_and_not_one_that_counts_bytes() {
    let threshold = |limit, mark| QueueSpec::Threshold {
        limit,
        mark,
        drop_not_ect: false,
    };
    let packets = threshold(Length::Packets(5), Length::Packets(2));
    let bytes = threshold(Length::Bytes(5_000), Length::Bytes(2_000));
    let offered = [Ecn::Ect0; 7];
    let of = |size_bytes, queue: &QueueSpec| burst_of(size_bytes, queue.clone(), &offered);
    assert_eq!(of(64, &packets), of(1_000, &packets));
    assert_eq!(of(1_000, &bytes), of(1_000, &packets));
    assert_eq!(of(64, &bytes), [Verdict::Queued; 7]);
}

#[test]
fn droptail_queues_exactly_its_limit() {
    let full = Verdict::Dropped(DropReason::Full);
    let expected = [[Verdict::Queued; 4].as_slice(), &[full; 2]].concat();
    for limit in [
        Length::Packets(3),
        Length::Bytes(3_000),
        Length::Bytes(3_999),
    ] {
        assert_eq!(
            burst(QueueSpec::DropTail { limit }, &[Ecn::Ect0; 6]),
            expected,
            "{limit}"
        );
    }
}

#[test]
fn threshold_marks_packets_that_find_more_than_k_waiting() {
    use Verdict::{Dropped, Marked, Queued};
    let threshold = |mark, drop_not_ect| QueueSpec::Threshold {
        limit: Length::Packets(5),
        mark,
        drop_not_ect,
    };
    let offered = [Ecn::Ect0; 8];
    let expected = [
        Queued,
        Queued,
        Queued,
        Queued,
        Marked,
        Marked,
        Dropped(DropReason::Full),
    ];
    for mark in [Length::Packets(2), Length::Bytes(2_000)] {
        assert_eq!(
            burst(threshold(mark, true), &offered)[..7],
            expected,
            "{mark}"
        );
    }
    // Without ECT: queued until the limit, or dropped above K, as the spec says.
    let expected = [
        Queued,
        Queued,
        Queued,
        Queued,
        Queued,
        Queued,
        Dropped(DropReason::Full),
    ];
    assert_eq!(
        burst(threshold(Length::Packets(2), false), &[Ecn::NotEct; 7]),
        expected
    );
    let above = burst(threshold(Length::Packets(2), true), &[Ecn::NotEct; 6]);
    assert_eq!(above[4..], [Dropped(DropReason::AboveThreshold); 2]);
}

#[test]
fn queues_with_limit_zero_or_unreachable_threshold_are_refused() {
    let refused = |queue| Link::<Parcel>::new(&link_10_mbit(queue), 1, "a->b").unwrap_err();
    let zero = refused(QueueSpec::DropTail {
        limit: Length::Packets(0),
    });
    assert_eq!(
        zero.to_string(),
        "the queue's limit is 0; give a positive value"
    );
    let (limit, mark) = (Length::Bytes(5_000), Length::Bytes(5_000));
    let beyond = refused(QueueSpec::Threshold {
        limit,
        mark,
        drop_not_ect: false,
    });
    assert!(beyond.to_string().contains("mark at 5000B"), "{beyond}");
}
