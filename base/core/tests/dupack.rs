//! The host's duplicate ACKs: when a guest gets them, and how many.

use std::time::Duration;

use crate::ends::{
    FROM_GUEST, IRS, ISS, MSS, Port, TO_GUEST, ack, answer, data, segment, syn, with,
};
use uc_core::dupack::{self, Rounds};
use uc_core::{Policy, Segment, consts};

/// The first number that is not acknowledged in [`Port::connected`].
const UNA: u32 = ISS + 1 + MSS;
const LEAST: Duration = Duration::from_millis(5);

fn law() -> Policy {
    Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX)
}

fn bounded() -> dupack::Policy {
    dupack::Policy::new(LEAST, None)
}

fn unbounded(delayed_ms: u64) -> dupack::Policy {
    dupack::Policy::new(LEAST, Some(Duration::from_millis(delayed_ms)))
}

/// A flow of which this many segments are in flight, after so many real duplicate ACKs.
fn in_flight(segments: u32, duplicates: u32) -> Port {
    let mut port = Port::connected(law());
    for number in 0..segments {
        port.pass(&data(UNA + number * MSS));
    }
    for _ in 0..duplicates {
        port.pass(&ack(UNA));
    }
    port
}

/// Returns the silence after which a round is due, in ms.
fn wait_ms(port: &Port, rounds: &Rounds, policy: &dupack::Policy) -> Option<u64> {
    let flow = port.flow().unwrap();
    let due_ns = rounds.due_ns(policy, flow)?;
    Some((due_ns - flow.seen_ns) / 1_000_000)
}

/// Waits for the next round, and passes its duplicate ACKs to the guest; returns how many they are.
fn round(port: &mut Port, rounds: &mut Rounds, policy: &dupack::Policy) -> u32 {
    let Some(ms) = wait_ms(port, rounds, policy) else {
        return 0;
    };
    let flow = *port.flow().unwrap();
    let due_ns = flow.seen_ns + ms * 1_000_000;
    let mut early = *rounds;
    assert_eq!(early.take(policy, &flow, due_ns - 1), 0, "early");
    port.wait_ms(ms);
    let count = rounds.take(policy, &flow, due_ns);
    for _ in 0..count {
        let flow = *port.flow().unwrap();
        port.pass(&dupack::segment(&flow));
    }
    count
}

#[test]
fn a_silent_flow_gets_three_and_none_once_its_guest_has_retransmitted() {
    let (mut port, mut rounds) = (in_flight(5, 0), Rounds::default());
    assert_eq!(wait_ms(&port, &rounds, &bounded()), Some(5));
    assert_eq!(round(&mut port, &mut rounds, &bounded()), 3);
    assert_eq!(port.flow().unwrap().dup_acks, 3);
    port.pass(&data(UNA));
    let flow = port.flow().unwrap();
    // The shadow takes it for the fast retransmit that it is, not for a timeout.
    assert_eq!((u32::from(flow.ca), flow.losses), (consts::CA_RECOVERY, 1));
    assert_eq!(wait_ms(&port, &rounds, &bounded()), None);
}

#[test]
fn no_more_come_than_the_segments_behind_the_lost_one_could_cause() {
    for segments in 1..=9 {
        for real in 0..segments {
            let (mut port, mut rounds) = (in_flight(segments, real), Rounds::default());
            let first = round(&mut port, &mut rounds, &bounded());
            let left = segments - 1 - real;
            let wanted = if real < 3 { 3 - real } else { 1 };
            assert_eq!(first, wanted.min(left), "{segments} in flight, {real} real");
            let mut all = first;
            for _ in 0..20 {
                all += round(&mut port, &mut rounds, &bounded());
            }
            assert_eq!(all, left, "{segments} in flight, {real} real");
        }
    }
}

#[test]
fn a_fin_is_no_segment_of_its_own() {
    for (segments, expected) in [(3, 2), (4, 3)] {
        let mut port = in_flight(segments - 1, 0);
        let last = data(UNA + (segments - 1) * MSS);
        port.pass(&Segment {
            flags: last.flags | consts::FIN as u8,
            ..last
        });
        let mut rounds = Rounds::default();
        assert_eq!(round(&mut port, &mut rounds, &bounded()), expected);
    }
}

#[test]
fn short_tails_get_three_by_policy_and_a_lone_segment_later() {
    for (segments, wait) in [(1, 45), (2, 5), (3, 5)] {
        let (mut port, mut rounds) = (in_flight(segments, 0), Rounds::default());
        let policy = unbounded(40);
        assert_eq!(wait_ms(&port, &rounds, &policy), Some(wait));
        assert_eq!(round(&mut port, &mut rounds, &policy), 3);
        assert_eq!(wait_ms(&port, &rounds, &policy), None);
    }
    let port = in_flight(1, 0);
    assert_eq!(wait_ms(&port, &Rounds::default(), &unbounded(0)), Some(5));
}

#[test]
fn the_wait_doubles_until_data_sent_after_a_round_is_acknowledged() {
    let (mut port, mut rounds) = (in_flight(8, 0), Rounds::default());
    let policy = bounded();
    let mut waits = Vec::new();
    for expected in [3, 1, 1, 1, 1, 0] {
        waits.extend(wait_ms(&port, &rounds, &policy));
        assert_eq!(round(&mut port, &mut rounds, &policy), expected);
    }
    assert_eq!(waits, [5, 10, 20, 40, 80]);
    // The ACK of what was sent before the round shows nothing, that of later data does.
    port.pass(&data(UNA));
    let mut end = UNA + 8 * MSS;
    for is_later in [false, true] {
        port.pass(&ack(end));
        assert_eq!(wait_ms(&port, &rounds, &policy), None, "nothing in flight");
        for number in 0..5 {
            port.pass(&data(end + number * MSS));
        }
        end += 5 * MSS;
        let flow = port.flow().unwrap();
        let path_ms = u64::from((flow.srtt_us >> 3) + flow.rttvar_us) / 1_000;
        let expected = if is_later { path_ms.max(5) } else { 5 << 5 };
        assert_eq!(wait_ms(&port, &rounds, &policy), Some(expected));
    }
}

#[test]
fn the_path_decides_the_wait_above_the_least_time() {
    let mut port = Port::new(law());
    port.pass(&syn(FROM_GUEST, ISS));
    port.wait_ms(99);
    port.pass(&answer(TO_GUEST, IRS, ISS));
    for number in 0..5 {
        port.pass(&data(ISS + 1 + number * MSS));
    }
    // RFC 6298: srtt 100 ms, rttvar 50 ms.
    assert_eq!(
        wait_ms(&port, &Rounds::default(), &bounded()),
        Some(100 + 4 * 50)
    );
}

#[test]
fn flows_that_duplicate_acks_cannot_help_get_none() {
    let waits = |port: &Port| wait_ms(port, &Rounds::default(), &unbounded(0));
    for offers in [consts::OPT_SACK, consts::OPT_TIMESTAMPS] {
        let mut port = Port::new(law());
        port.pass(&with(syn(FROM_GUEST, ISS), offers));
        port.pass(&with(answer(TO_GUEST, IRS, ISS), offers));
        for number in 0..5 {
            port.pass(&data(ISS + 1 + number * MSS));
        }
        assert_eq!(waits(&port), None, "options {offers:#x}");
    }
    let observing = Policy {
        modes: consts::MODE_OBSERVE as u8,
        ..law()
    };
    for (policy, expected) in [(law(), Some(5)), (observing, None)] {
        let mut port = Port::connected(policy);
        for number in 0..5 {
            port.pass(&data(UNA + number * MSS));
        }
        assert_eq!(waits(&port), expected);
    }
    let idle = Port::connected(law());
    assert_eq!(waits(&idle), None);
    let after = |last: &Segment| {
        let mut port = in_flight(5, 0);
        port.pass(last);
        waits(&port)
    };
    let closed = Segment {
        window: 0,
        ..ack(UNA)
    };
    assert_eq!(after(&closed), None, "a closed window");
    let reset = segment(FROM_GUEST, consts::RST as u8, UNA + 5 * MSS, 0);
    assert_eq!(after(&reset), None, "a reset");
    assert_eq!(after(&data(UNA)), None, "a retransmission");
    // Until the timeout is repaired, senders ignore duplicate ACKs.
    let mut port = in_flight(5, 0);
    port.wait_ms(300);
    port.pass(&data(UNA));
    port.pass(&ack(UNA + MSS));
    assert_eq!(u32::from(port.flow().unwrap().ca), consts::CA_LOSS);
    assert_eq!(waits(&port), None, "after a timeout");
}
