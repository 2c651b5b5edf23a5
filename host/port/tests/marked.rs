//! Marked data of a flow that the table has forgotten, through the programs: it is dropped where the guest
//! answers no mark, and passes where it does or where policy says so.

mod kernel;

use std::net::SocketAddr;

use kernel::frame::{PLAIN, frame};
use kernel::{IFINDEX, context, policy, programs};
use uc_core::unanswered::SILENT_MARKS;
use uc_core::{Policy, Reason, Segment, consts};
use uc_port::{Direction, Programs};

const NEXT: i32 = -1;
const SHOT: i32 = 2;
const BYTES: u32 = 100;

fn segment(direction: u32, flags: u32, nth: u32) -> Segment {
    let (own, other) = match direction {
        consts::FROM_GUEST => (1001, 9001 + nth * BYTES),
        _ => (9001 + nth * BYTES, 1001),
    };
    let syn = flags & consts::SYN != 0;
    Segment {
        seq: own - u32::from(syn),
        ack: other,
        window: 65_535,
        mss_bytes: 1_460,
        options: if syn { consts::OPT_MSS as u8 } else { 0 },
        flags: flags as u8,
        direction: direction as u8,
        ..Segment::default()
    }
}

/// Passes a segment of the connection from this port of the guest; returns the verdict. The frame leaves
/// as it came, unless its flow is known.
fn pass(programs: &Programs, port: u16, segment: &Segment) -> i32 {
    let guest = SocketAddr::new("10.77.0.1".parse().unwrap(), port);
    let remote = "10.77.0.2:5001".parse().unwrap();
    let direction = match u32::from(segment.direction) {
        consts::FROM_GUEST => Direction::FromGuest,
        _ => Direction::ToGuest,
    };
    let bytes = frame(segment, guest, remote, &PLAIN);
    let run = programs.test_run(direction, &bytes, context()).unwrap();
    if programs.flows().unwrap().is_empty() {
        assert_eq!(run.packet, bytes);
    }
    run.verdict
}

/// Passes marked data of the peer with so many segments before it.
fn marked(programs: &Programs, port: u16, nth: u32) -> i32 {
    let data = Segment {
        payload_bytes: BYTES,
        wire_payload_bytes: BYTES as u16,
        ecn: consts::CE as u8,
        ..segment(consts::TO_GUEST, consts::ACK, nth)
    };
    pass(programs, port, &data)
}

fn acks(programs: &Programs, port: u16, nth: u32, flags: u32) {
    let ack = segment(consts::FROM_GUEST, consts::ACK | flags, nth);
    assert_eq!(pass(programs, port, &ack), NEXT);
}

/// Sends 50 marked segments, which the guest acknowledges with these flags; returns how many pass before the
/// first that is dropped. From then on all must be.
fn passing(programs: &Programs, port: u16, flags: u32) -> usize {
    let verdicts: Vec<i32> = (0..50)
        .map(|nth| {
            let verdict = marked(programs, port, nth);
            acks(programs, port, nth + 1, flags);
            verdict
        })
        .collect();
    let passed = verdicts
        .iter()
        .take_while(|verdict| **verdict == NEXT)
        .count();
    assert!(verdicts[passed..].iter().all(|verdict| *verdict == SHOT));
    passed
}

#[test]
fn live_marks_of_a_forgotten_flow_are_dropped_if_the_guest_answers_none() {
    let Some(programs) = programs(64) else {
        return;
    };
    programs.set_plan(IFINDEX, &policy().into()).unwrap();
    pass(&programs, 1, &segment(consts::FROM_GUEST, consts::SYN, 0));
    let answer = consts::SYN | consts::ACK | consts::ECE;
    pass(&programs, 1, &segment(consts::TO_GUEST, answer, 0));
    assert_eq!(passing(&programs, 1, 0), 50, "the port knows the flow");
    programs.forget_flows(IFINDEX).unwrap();
    let dropped = 50 - (SILENT_MARKS as usize + 1);
    assert_eq!(passing(&programs, 1, 0), 50 - dropped);
    let counters = programs.counters().unwrap();
    assert_eq!(counters.get(Reason::UNANSWERED), dropped as u64);
    let told = programs.passed().unwrap();
    let told: Vec<_> = told.iter().map(|passed| passed.reason).collect();
    assert_eq!(told, [Reason::UNANSWERED], "once for the flow");
    // another flow of the guest, which has negotiated ECN itself
    assert_eq!(passing(&programs, 2, consts::ECE), 50);
    // the first flow's ports, for another connection
    let offer = consts::SYN | consts::ECE | consts::CWR;
    pass(&programs, 1, &segment(consts::FROM_GUEST, offer, 0));
    assert_eq!(marked(&programs, 1, 0), NEXT);
    // and for a guest on another interface of this number
    assert_eq!(passing(&programs, 3, 0), 50 - dropped);
    programs.forget_flows(IFINDEX).unwrap();
    assert_eq!(passing(&programs, 3, 0), 50 - dropped);
}

#[test]
fn live_a_policy_that_passes_observes_or_forbids_it_drops_no_mark_and_takes_effect_at_once() {
    let Some(programs) = programs(64) else {
        return;
    };
    let modes = |modes: u32| Policy {
        modes: modes as u8,
        ..policy()
    };
    assert_eq!(passing(&programs, 1, 0), 50, "there is no plan");
    let policies = [
        Policy::default(),
        modes(consts::MODE_OBSERVE),
        modes(consts::MODE_PASS_UNANSWERED),
    ];
    for (passes, nth) in policies.into_iter().zip(50..) {
        programs.set_plan(IFINDEX, &passes.into()).unwrap();
        assert_eq!(passing(&programs, 1, 0), 50);
        programs.set_plan(IFINDEX, &policy().into()).unwrap();
        assert_eq!(marked(&programs, 1, nth), SHOT);
    }
    assert_eq!(programs.counters().unwrap().get(Reason::UNANSWERED), 3);
}
