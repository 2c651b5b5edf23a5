//! A half-blind port, through the programs: which SYNs ask for ECN, and what the counters say.

mod kernel;

use std::net::SocketAddr;
use std::time::Duration;

use kernel::frame::{Oddity, PLAIN, frame, make_odd};
use kernel::{IFINDEX, context, policy, programs};
use uc_core::{Reason, Segment, consts};
use uc_port::{Direction, Programs};

fn segment(direction: u32, flags: u32) -> Segment {
    let from_guest = direction == consts::FROM_GUEST;
    let syn = flags & consts::SYN != 0;
    Segment {
        seq: (if from_guest { 1001 } else { 9001 }) - u32::from(syn),
        ack: if from_guest { 9001 } else { 1001 },
        window: 65535,
        mss_bytes: 1460,
        options: if syn { consts::OPT_MSS as u8 } else { 0 },
        flags: flags as u8,
        direction: direction as u8,
        ..Segment::default()
    }
}

/// Passes a segment of the connection from this port of the guest. Returns the frame's ECN
/// codepoint and TCP flags, and the verdict.
fn pass(programs: &Programs, port: u16, segment: &Segment) -> (u32, u32, i32) {
    let guest = SocketAddr::new("10.77.0.1".parse().unwrap(), port);
    let remote = "10.77.0.2:5001".parse().unwrap();
    let direction = match u32::from(segment.direction) {
        consts::FROM_GUEST => Direction::FromGuest,
        _ => Direction::ToGuest,
    };
    let frame = frame(segment, guest, remote, &PLAIN);
    let run = programs.test_run(direction, &frame, context()).unwrap();
    (
        u32::from(run.packet[15] & 3),
        u32::from(run.packet[47]),
        run.verdict,
    )
}

fn asks(programs: &Programs, port: u16) -> bool {
    let (_, flags, _) = pass(programs, port, &segment(consts::FROM_GUEST, consts::SYN));
    flags & consts::ECE != 0
}

fn data(direction: u32, seq: u32, ecn: u32) -> Segment {
    Segment {
        seq,
        payload_bytes: 100,
        wire_payload_bytes: 100,
        ecn: ecn as u8,
        ..segment(direction, consts::ACK)
    }
}

fn connect(programs: &Programs, port: u16) {
    assert!(asks(programs, port), "port {port}");
    let answer = segment(consts::TO_GUEST, consts::SYN | consts::ACK | consts::ECE);
    let (_, flags, _) = pass(programs, port, &answer);
    assert_eq!(flags, consts::SYN | consts::ACK);
}

fn half_blind(programs: &Programs) -> Option<Direction> {
    programs.ports().unwrap()[0].half_blind()
}

#[test]
fn live_a_port_in_doubt_asks_for_ecn_after_its_hook_to_the_guest_has_seen_a_segment() {
    let Some(programs) = programs(64) else {
        return;
    };
    programs.set_plan(IFINDEX, &policy().into()).unwrap();
    programs.reset_hooks(IFINDEX, |_| false).unwrap();
    assert!(!asks(&programs, 1));
    assert_eq!(half_blind(&programs), Some(Direction::ToGuest));
    assert_eq!(programs.counters().unwrap().get(Reason::HALF_BLIND), 1);
    // of a flow that is not in the table
    let answer = segment(consts::TO_GUEST, consts::SYN | consts::ACK);
    assert_eq!(pass(&programs, 1, &answer).1, consts::SYN | consts::ACK);
    assert_eq!(half_blind(&programs), None);
    connect(&programs, 2);
    let counters = programs.counters().unwrap();
    assert_eq!(counters.seen(Direction::FromGuest), 2);
    assert_eq!(counters.seen(Direction::ToGuest), 2);
    assert_eq!(counters.get(Reason::TRANSLATED), 2);
}

#[test]
fn live_after_one_missed_answer_no_syn_asks_for_ecn() {
    let Some(programs) = programs(64) else {
        return;
    };
    programs.set_plan(IFINDEX, &policy().into()).unwrap();
    connect(&programs, 1);
    // the hook to the guest is hidden from here on
    assert!(asks(&programs, 2));
    pass(&programs, 2, &segment(consts::FROM_GUEST, consts::ACK));
    for port in 3..20 {
        assert!(!asks(&programs, port), "port {port}");
        pass(&programs, port, &segment(consts::FROM_GUEST, consts::ACK));
    }
    assert_eq!(half_blind(&programs), Some(Direction::ToGuest));
}

#[test]
fn live_answer_that_cannot_be_read_ends_ecn_for_no_other_connection() {
    let Some(programs) = programs(64) else {
        return;
    };
    programs.set_plan(IFINDEX, &policy().into()).unwrap();
    connect(&programs, 1);
    let answer = segment(consts::TO_GUEST, consts::SYN | consts::ACK | consts::ECE);
    let fragment = Oddity::Fragment(0x2000);
    for (port, oddity) in [
        (2, fragment),
        (3, Oddity::VlanStack),
        (4, Oddity::Truncate(40)),
    ] {
        assert!(asks(&programs, port));
        let guest = SocketAddr::new("10.77.0.1".parse().unwrap(), port);
        let mut bytes = frame(&answer, guest, "10.77.0.2:5001".parse().unwrap(), &PLAIN);
        make_odd(&mut bytes, &oddity);
        let run = programs
            .test_run(Direction::ToGuest, &bytes, context())
            .unwrap();
        assert_eq!(run.verdict, -1);
        pass(&programs, port, &segment(consts::FROM_GUEST, consts::ACK));
        assert!(asks(&programs, port + 10), "{oddity:?}");
    }
    assert_eq!(half_blind(&programs), None);
}

#[test]
fn live_an_open_flow_sends_no_ect_after_a_second_without_answers() {
    let Some(programs) = programs(64) else {
        return;
    };
    programs.set_plan(IFINDEX, &policy().into()).unwrap();
    connect(&programs, 1);
    let mut seq = 1001;
    let mut send = || {
        let sent = pass(
            &programs,
            1,
            &data(consts::FROM_GUEST, seq, consts::NOT_ECT),
        );
        seq += 100;
        std::thread::sleep(Duration::from_millis(100));
        sent
    };
    assert_eq!(send().0, consts::ECT0);
    // a run begins again when the machine stalls for a second
    let blind = (0..100)
        .map(|_| send())
        .find(|sent| sent.0 == consts::NOT_ECT);
    let (_, flags, _) = blind.expect("the port finds that nothing comes back");
    assert_eq!(flags, consts::ACK | consts::CWR);
    assert!(!asks(&programs, 2));
    // one ACK, and all is well
    pass(&programs, 1, &segment(consts::TO_GUEST, consts::ACK));
    assert_eq!(send().0, consts::ECT0);
    assert!(asks(&programs, 3));
}

#[test]
fn live_marks_on_data_to_a_guest_whose_answers_are_hidden_are_drops() {
    let Some(programs) = programs(64) else {
        return;
    };
    programs.set_plan(IFINDEX, &policy().into()).unwrap();
    connect(&programs, 1);
    let mut seq = 9001;
    let mut receive = |ecn| {
        let got = pass(&programs, 1, &data(consts::TO_GUEST, seq, ecn));
        seq += 100;
        got
    };
    assert_eq!(receive(consts::CE), (consts::NOT_ECT, consts::ACK, -1));
    let dropped = (0..100).find(|_| {
        std::thread::sleep(Duration::from_millis(100));
        receive(consts::CE).2 == 2
    });
    assert!(dropped.is_some());
    assert_eq!(half_blind(&programs), Some(Direction::FromGuest));
    assert_eq!(receive(consts::ECT0), (consts::NOT_ECT, consts::ACK, -1));
    assert!(programs.counters().unwrap().get(Reason::UNECHOED) >= 1);
    // one ACK, and within 67 ms all is well
    pass(&programs, 1, &segment(consts::FROM_GUEST, consts::ACK));
    assert_eq!(half_blind(&programs), None);
    let passed = (0..100).find(|_| {
        std::thread::sleep(Duration::from_millis(10));
        receive(consts::CE) == (consts::NOT_ECT, consts::ACK, -1)
    });
    assert!(passed.is_some(), "marks must pass again");
}
