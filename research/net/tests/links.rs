//! Properties of every link: it sends at its rate, and polling does not shift departures.

use crate::common::{Parcel, disciplines, endless, parcel};
use proptest::prelude::*;
use uc_net::{
    BitsPerSec, Ecn, Fault, FaultRule, Length, Link, LinkSpec, Nanos, QueueSpec, RedParameters,
    RedSpec, Verdict,
};

/// Generates the gap in nanoseconds and the size of each packet.
fn traffic() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let gap = prop_oneof![Just(0u64), 0..2_000_000u64, 0..50_000_000u64];
    prop::collection::vec((gap, 60..9_015u32), 1..200)
}

/// Returns the arrival times at the far end when the link is polled after every packet for whose
/// number `asks` holds.
fn arrivals(
    spec: &LinkSpec,
    trace: &[(u64, u32)],
    seed: u64,
    asks: impl Fn(u64) -> bool,
) -> Vec<(Nanos, Parcel)> {
    let mut link = Link::new(spec, seed, "a->b").unwrap();
    let (mut now, mut arrived) = (Nanos::ZERO, Vec::new());
    for (number, &(gap_ns, size_bytes)) in (0..).zip(trace) {
        now += Nanos(gap_ns);
        if asks(number) {
            while let Some(arrival) = link.receive(now) {
                arrived.push(arrival);
            }
        }
        link.offer(
            now,
            parcel(number, size_bytes, Ecn::Ect0),
            &mut |_, _: &Parcel| {},
        );
    }
    while let Some(arrival) = link.receive(Nanos::MAX) {
        arrived.push(arrival);
    }
    arrived
}

fn long_link(rate: u64) -> LinkSpec {
    LinkSpec::new(BitsPerSec(rate), Nanos::from_millis(3), endless())
}

proptest! {
    #[test]
    fn departures_are_those_of_the_exact_schedule(
        trace in traffic(), rate in 1_000_000..2_000_000_000u64,
    ) {
        // In units of 1/rate nanoseconds, so without rounding: work-conserving, at the rate.
        let (mut now, mut free) = (0u128, 0u128);
        let arrived = arrivals(&long_link(rate), &trace, 1, |_| false);
        prop_assert_eq!(arrived.len(), trace.len());
        for (&(gap_ns, size_bytes), (at, _)) in trace.iter().zip(&arrived) {
            now += u128::from(gap_ns) * u128::from(rate);
            // The network's resolution is a nanosecond: a packet that comes within the nanosecond
            // in which the link becomes idle follows without a gap.
            let follows_on = free / u128::from(rate) >= now / u128::from(rate);
            free = if follows_on { free } else { now } + u128::from(size_bytes) * 8_000_000_000;
            let exact = free / u128::from(rate) + 3_000_000;
            prop_assert_eq!(u128::from(at.0), exact, "rate {}", rate);
        }
    }

    #[test]
    fn no_interval_carries_more_than_the_rate(
        trace in traffic(), rate in 1_000_000..2_000_000_000u64,
    ) {
        let arrived = arrivals(&long_link(rate), &trace, 1, |_| false);
        for (first, (start, _)) in arrived.iter().enumerate() {
            let mut bytes = 0u128;
            for (at, packet) in &arrived[first + 1..] {
                bytes += u128::from(packet.size_bytes);
                // Departures are rounded down to a nanosecond: one of tolerance.
                let room = u128::from(at.0 - start.0 + 1) * u128::from(rate);
                prop_assert!(bytes * 8_000_000_000 <= room, "rate {}: {} to {}", rate, start, at);
            }
        }
    }

    #[test]
    fn late_polling_sees_the_same_times_as_early_polling(
        trace in traffic(), seed: u64, stride in 2..20u64, held_ppm in 0..500_000u32,
    ) {
        let reorder = Fault::Reorder { hold: Nanos::from_millis(7) };
        let faults = [
            FaultRule { chance_ppm: 10_000, flow: None, fault: Fault::Loss },
            FaultRule { chance_ppm: held_ppm, flow: None, fault: reorder },
        ];
        for queue in disciplines() {
            let mut spec = LinkSpec::new(BitsPerSec::from_mbit(10), Nanos::from_micros(250), queue);
            spec.faults = faults.to_vec();
            let eager = arrivals(&spec, &trace, seed, |_| true);
            let late = arrivals(&spec, &trace, seed, |number| number % stride == 0);
            let last = arrivals(&spec, &trace, seed, |_| false);
            prop_assert_eq!(&eager, &late, "seed {}", seed);
            prop_assert_eq!(&eager, &last, "seed {}", seed);
        }
    }

    #[test]
    fn next_event_is_never_too_late(trace in traffic(), seed: u64, held_ppm in 0..500_000u32) {
        // Driven by next_event alone, every packet is received exactly at its time of arrival.
        let mut spec = long_link(10_000_000);
        let reorder = Fault::Reorder { hold: Nanos::from_millis(7) };
        spec.faults.push(FaultRule { chance_ppm: held_ppm, flow: None, fault: reorder });
        let mut link = Link::new(&spec, seed, "a->b").unwrap();
        let mut now = Nanos::ZERO;
        let mut pending = trace.iter().enumerate().peekable();
        let mut due = Nanos::ZERO;
        loop {
            let offer_at = pending.peek().map(|(_, (gap_ns, _))| due + Nanos(*gap_ns));
            match (link.next_event(), offer_at) {
                (Some(event), offer) if offer.is_none_or(|offer| event <= offer) => {
                    now = now.max(event);
                    if let Some((at, _)) = link.receive(now) {
                        prop_assert_eq!(at, now, "seed {}", seed);
                    }
                }
                (_, Some(offer)) => {
                    (now, due) = (offer, offer);
                    let (number, &(_, size)) = pending.next().unwrap();
                    let packet = parcel(number as u64, size, Ecn::Ect0);
                    link.offer(now, packet, &mut |_, _: &Parcel| {});
                }
                _ => break,
            }
        }
        prop_assert_eq!(link.report(now).stats.delivered_packets, trace.len() as u64);
    }
}

#[test]
fn packets_overtake_a_delayed_packet() {
    let hold = Nanos::from_millis(5);
    let fault = Fault::Reorder { hold };
    let mut spec = long_link(10_000_000);
    spec.faults = vec![FaultRule {
        chance_ppm: 1_000_000,
        flow: Some(Ecn::Ce.bits().into()),
        fault,
    }];
    let mut link = Link::new(&spec, 1, "a->b").unwrap();
    for (number, ecn) in [(0, Ecn::Ce), (1, Ecn::Ect0), (2, Ecn::Ect0)] {
        link.offer(
            Nanos::ZERO,
            parcel(number, 1_250, ecn),
            &mut |_, _: &Parcel| {},
        );
    }
    let arrived: Vec<(u64, u64)> = std::iter::from_fn(|| link.receive(Nanos::MAX))
        .map(|(at, packet)| (at.0 / 1_000_000, packet.number))
        .collect();
    assert_eq!(arrived, [(5, 1), (6, 2), (9, 0)]);
    assert_eq!(link.report(Nanos::MAX).stats.reordered_packets, 1);
}

#[test]
fn first_matching_fault_rule_decides() {
    let rule = |chance_ppm, flow, fault| FaultRule {
        chance_ppm,
        flow,
        fault,
    };
    let mut spec = long_link(1_000_000_000);
    spec.faults = vec![
        rule(0, None, Fault::Loss),
        rule(1_000_000, Some(0), Fault::Loss),
        rule(1_000_000, Some(2), Fault::Duplicate),
        rule(1_000_000, Some(2), Fault::Loss),
    ];
    let mut link = Link::new(&spec, 1, "a->b").unwrap();
    for (number, ecn) in [(0, Ecn::NotEct), (1, Ecn::Ect1), (2, Ecn::Ect0)] {
        link.offer(
            Nanos::ZERO,
            parcel(number, 100, ecn),
            &mut |_, _: &Parcel| {},
        );
    }
    let arrived: Vec<u64> = std::iter::from_fn(|| link.receive(Nanos::MAX))
        .map(|(_, packet)| packet.number)
        .collect();
    assert_eq!(arrived, [1, 2, 2]);
    let stats = link.report(Nanos::MAX).stats;
    assert_eq!((stats.dropped_packets(), stats.duplicated_packets), (1, 1));
}

#[test]
fn loss_rate_equals_the_configured_chance() {
    let mut spec = long_link(1_000_000_000);
    spec.faults = vec![FaultRule {
        chance_ppm: 50_000,
        flow: None,
        fault: Fault::Loss,
    }];
    let trace = vec![(1_000_000, 100); 40_000];
    let lost = trace.len() - arrivals(&spec, &trace, 9, |_| false).len();
    // Expected 2,000, standard deviation 44.
    assert!(
        (1_780..2_220).contains(&lost),
        "seed 9: {lost} of 40000 lost"
    );
}

#[test]
fn links_with_rate_zero_or_a_chance_above_one_are_refused() {
    let refused = |spec: LinkSpec| {
        Link::<Parcel>::new(&spec, 1, "a->b")
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused(long_link(0)),
        "the rate is 0; give a positive value"
    );
    let mut spec = long_link(1);
    spec.faults = vec![FaultRule {
        chance_ppm: 1_000_001,
        flow: None,
        fault: Fault::Loss,
    }];
    assert!(refused(spec).contains("1000001 ppm is a probability above 1"));
}

/// Describes vCC's RED1 on a smaller scale: min is 3 packets and max a byte more.
fn red1() -> RedSpec {
    RedSpec {
        min_bytes: 4_500,
        max_bytes: 4_501,
        limit_bytes: 100_000,
        burst_packets: 4,
        packet_bytes: 1_500,
        probability_ppm: 1_000_000,
        bandwidth: BitsPerSec::from_mbit(10),
        ecn: true,
    }
}

/// Builds a link whose RED queue was filled by 60 packets at time zero and is empty again after
/// 72.7 ms.
fn overflowed_red() -> Link<Parcel> {
    let spec = LinkSpec {
        queue: QueueSpec::Red(red1()),
        ..long_link(10_000_000)
    };
    let mut link = Link::new(&spec, 1, "a->b").unwrap();
    for number in 0..60 {
        link.offer(
            Nanos::ZERO,
            parcel(number, 1_514, Ecn::Ect0),
            &mut |_, _: &Parcel| {},
        );
    }
    link
}

/// Offers a SYN, which is never ECT, at `millis` and returns whether it gets in.
fn syn_gets_in(link: &mut Link<Parcel>, millis: u64) -> bool {
    let mut got_in = false;
    let mut saw = |verdict, _: &Parcel| got_in = verdict == Verdict::Queued;
    link.offer(
        Nanos::from_millis(millis),
        parcel(millis, 74, Ecn::NotEct),
        &mut saw,
    );
    got_in
}

#[test]
fn reports_show_the_average_of_red_and_none_of_other_disciplines() {
    let wlog = RedParameters::derive(&red1()).unwrap().wlog;
    // The first packet goes to the transmitter and the second finds nothing waiting.
    let waiting = (0..59).map(|packets: u64| packets * 1_514);
    let scaled = waiting.fold(0, |average, bytes| average + bytes - (average >> wlog));
    let mut link = overflowed_red();
    assert_eq!(link.report(Nanos::ZERO).average_bytes, Some(scaled >> wlog));
    assert!(scaled >> wlog > 4_501);
    let later = link.report(Nanos::from_secs(1));
    assert_eq!(
        (later.backlog.packets, later.average_bytes),
        (0, Some(scaled >> wlog))
    );
    let mut plain = Link::<Parcel>::new(&long_link(10_000_000), 1, "a->b").unwrap();
    assert_eq!(plain.report(Nanos::ZERO).average_bytes, None);
}

#[test]
fn overflowed_red_queue_admits_a_syn_after_an_idle_period() {
    let mut link = overflowed_red();
    assert!(!syn_gets_in(&mut link, 0), "above max a SYN is dropped");
    assert!(
        syn_gets_in(&mut link, 1_000),
        "the queue has long been empty and still drops"
    );
}

#[test]
fn dropped_syn_starts_a_new_idle_period() {
    // The average lies at 19 times min. In an idle period of up to 65 ms it falls by half at most
    // (16 cells of 4096 us; the first one is linear), so the fifth SYN is the first to get in.
    let mut link = overflowed_red();
    let got_in = [100, 150, 200, 250, 300].map(|millis| syn_gets_in(&mut link, millis));
    assert_eq!(got_in, [false, false, false, false, true]);
}

#[test]
fn packet_in_transmission_is_not_in_the_queue() {
    let queue = QueueSpec::DropTail {
        limit: Length::Packets(1),
    };
    let spec = LinkSpec {
        queue,
        ..long_link(8_000_000)
    };
    let mut link = Link::new(&spec, 1, "a->b").unwrap();
    for number in 0..3 {
        link.offer(
            Nanos::ZERO,
            parcel(number, 1_000, Ecn::Ect0),
            &mut |_, _: &Parcel| {},
        );
    }
    let report = link.report(Nanos(999_999));
    assert_eq!((report.backlog.packets, report.backlog.bytes), (1, 1_000));
    assert_eq!(report.stats.dropped_packets(), 1);
    assert_eq!(link.report(Nanos::from_millis(1)).backlog.packets, 0);
}

#[test]
fn processing_time_is_added_to_each_packet_in_turn() {
    // 1000 bytes at 1 Gb/s are 8 us, and each is worked on for 5 us more
    let spec = LinkSpec {
        processing: Nanos(5_000),
        ..long_link(1_000_000_000)
    };
    let trace = [(0, 1000), (0, 1000), (0, 1000), (100_000, 1000)];
    let at: Vec<u64> = arrivals(&spec, &trace, 1, |_| true)
        .iter()
        .map(|(at, _)| at.0 - 3_000_000)
        .collect();
    assert_eq!(at, [13_000, 26_000, 39_000, 113_000]);
}
