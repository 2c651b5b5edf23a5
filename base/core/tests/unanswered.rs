//! Marks on data of a flow that the port does not know: they are dropped where the guest answers none,
//! and pass wherever that is not sure.

use crate::ends::{
    ACK, CWR, ECE, FROM_GUEST, IRS, ISS, MSS, Port, TO_GUEST, answer, segment, syn, with,
};
use uc_core::unanswered::{SILENT_MARKS, SILENT_NS};
use uc_core::{Policy, Reason, Segment, consts};

const RST: u8 = consts::RST as u8;
const FIN: u8 = consts::FIN as u8;

fn policy() -> Policy {
    Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX)
}

/// Data of the peer with this number of segments before it.
fn data(nth: u32, ecn: u32) -> Segment {
    Segment {
        payload_bytes: MSS,
        wire_payload_bytes: MSS as u16,
        ecn: ecn as u8,
        ..segment(TO_GUEST, ACK, IRS + 1 + nth * MSS, ISS + 1)
    }
}

/// The guest's ACK of so many segments.
fn acks(segments: u32, flags: u8) -> Segment {
    segment(FROM_GUEST, ACK | flags, ISS + 1, IRS + 1 + segments * MSS)
}

/// Sends marked segments, each of which the guest acknowledges with these flags. Returns how many pass
/// before the first that is dropped; 100: none is.
fn passing(port: &mut Port, from: u32, mut answer: impl FnMut(u32) -> Segment) -> u32 {
    let passes = |nth: &u32| {
        let reason = port.reason(&data(from + nth, consts::CE));
        assert!([Reason::NO_HANDSHAKE, Reason::UNANSWERED].contains(&reason));
        if reason == Reason::NO_HANDSHAKE {
            port.reason(&answer(from + nth + 1));
        }
        reason == Reason::NO_HANDSHAKE
    };
    (0..100).take_while(passes).count() as u32
}

/// A port whose flow's guest has answered no mark.
fn deaf() -> Port {
    let mut port = Port::new(policy());
    let passed = passing(&mut port, 0, |nth| acks(nth, 0));
    // and the first one, before which the port has heard no ACK
    assert_eq!(passed, SILENT_MARKS + 1);
    port
}

#[test]
fn marks_are_dropped_after_the_guest_has_left_some_unanswered_and_other_segments_never() {
    let mut port = deaf();
    for nth in 5..50 {
        let marked = data(nth, consts::CE);
        assert_eq!(
            port.pass(&marked),
            (Reason::UNANSWERED, uc_core::no_edit(&marked))
        );
        for ecn in [consts::NOT_ECT, consts::ECT0, consts::ECT1] {
            assert_eq!(port.reason(&data(nth, ecn)), Reason::NO_HANDSHAKE);
        }
        port.reason(&acks(nth, 0));
    }
    let ce = consts::CE as u8;
    let bare = segment(TO_GUEST, ACK, IRS + 1 + 50 * MSS, ISS + 1);
    for flags in [
        ACK,
        ACK | FIN,
        ACK | RST,
        RST,
        ACK | ECE,
        ACK | consts::SYN as u8,
    ] {
        let (ecn, payload_bytes) = (ce, if flags & (RST | 2) == 0 { 0 } else { 10 });
        let reason = port.reason(&Segment {
            flags,
            ecn,
            payload_bytes,
            ..bare
        });
        assert!(!reason.drops(), "{flags:#x}");
    }
}

#[test]
fn marks_pass_for_good_once_the_guest_shows_ecn_in_any_way() {
    let ect = |ecn: u32| Segment {
        ecn: ecn as u8,
        ..acks(0, 0)
    };
    let shown = [
        acks(0, ECE),
        acks(0, CWR),
        with(acks(0, 0), consts::OPT_AE),
        ect(consts::ECT0),
        ect(consts::ECT1),
    ];
    for signal in shown {
        // at each point of the test, and after its verdict
        for before in 0..6 {
            let mut port = Port::new(policy());
            let early = passing(&mut port, 0, |nth| match nth > before {
                true => Segment {
                    ack: IRS + 1 + nth * MSS,
                    ..signal
                },
                false => acks(nth, 0),
            });
            if before > SILENT_MARKS {
                assert_eq!(early, SILENT_MARKS + 1);
                port.reason(&signal);
            } else {
                assert_eq!(early, 100);
            }
            assert_eq!(passing(&mut port, 200, |nth| acks(nth, 0)), 100, "{before}");
        }
    }
}

#[test]
fn a_guest_whose_counter_of_marks_wraps_to_zero_is_not_taken_for_deaf() {
    // AccECN (RFC 9768 §3.2.2): the three bits are the number of marks plus 5, modulo 8
    let accurate = |nth: u32| {
        let count = nth + 5;
        let flags = if count & 1 != 0 { ECE } else { 0 } | if count & 2 != 0 { CWR } else { 0 };
        let options = if count & 4 != 0 { consts::OPT_AE } else { 0 };
        with(acks(nth, flags), options)
    };
    for missed in 0..8 {
        let mut port = Port::new(policy());
        assert_eq!(passing(&mut port, missed, accurate), 100, "{missed}");
    }
}

#[test]
fn marks_pass_while_the_guests_answer_is_not_seen() {
    let mut port = Port::new(policy());
    let passes = |port: &mut Port, nth| port.reason(&data(nth, consts::CE)) == Reason::NO_HANDSHAKE;
    assert!((0..100).all(|nth| passes(&mut port, nth)), "no ACK at all");
    port.reason(&acks(10, 0));
    // the last ACK is of data before
    assert!((10..200).all(|nth| passes(&mut port, nth)));
    assert!((0..100).all(|_| passes(&mut port, 11)));
}

#[test]
fn marked_data_that_the_guest_has_already_or_that_a_stranger_guesses_tests_nobody() {
    let mut port = Port::new(policy());
    port.reason(&data(0, consts::CE));
    port.reason(&acks(1_000, 0));
    for round in 0..100u32 {
        // acknowledged before, and 4 MiB and more beyond the guest's last ACK
        for nth in [0, 999, 1_000 + 4_500, 2_000_000] {
            let reason = port.reason(&data(nth, consts::CE));
            assert_eq!(reason, Reason::NO_HANDSHAKE, "{round}: {nth}");
        }
        port.reason(&acks(1_000, 0));
    }
    let passed = passing(&mut port, 1_000, |nth| acks(nth, 0));
    assert_eq!(passed, SILENT_MARKS);
}

#[test]
fn dropped_data_passes_the_second_time_and_the_next_new_data_is_dropped_again() {
    let mut port = deaf();
    for nth in (5..2_000_000).step_by(50_001) {
        let marked = data(nth, consts::CE);
        assert_eq!(port.reason(&marked), Reason::UNANSWERED);
        let later = data(nth + 2, consts::CE);
        assert_eq!(port.reason(&later), Reason::UNANSWERED, "new, too");
        for again in [nth, nth + 1, nth + 2, nth] {
            assert_eq!(port.reason(&data(again, consts::CE)), Reason::NO_HANDSHAKE);
        }
        port.reason(&acks(nth + 3, 0));
    }
}

#[test]
fn policy_law_pass_and_observing_drop_no_mark() {
    let with_modes = |modes: u32| Policy {
        modes: modes as u8,
        ..policy()
    };
    for policy in [
        Policy::default(),
        with_modes(consts::MODE_OBSERVE),
        with_modes(consts::MODE_PASS_UNANSWERED),
    ] {
        let mut port = Port::new(policy);
        assert_eq!(passing(&mut port, 0, |nth| acks(nth, 0)), 100);
    }
}

#[test]
fn a_deaf_guest_is_tested_again_after_ten_minutes_and_at_once_after_its_syn() {
    let mut port = deaf();
    port.wait_ms(SILENT_NS / 1_000_000 - 10);
    assert_eq!(port.reason(&data(9, consts::CE)), Reason::UNANSWERED);
    port.wait_ms(10);
    let passed = passing(&mut port, 9, |nth| acks(nth, 0));
    assert_eq!(passed, SILENT_MARKS + 1);
    // another connection on the same ports, which the guest negotiates itself and the port passes
    let offer = segment(FROM_GUEST, consts::SYN as u8 | ECE | CWR, ISS, 0);
    assert_eq!(port.reason(&offer), Reason::GUEST_SPEAKS_ECN);
    assert_eq!(port.reason(&data(9, consts::CE)), Reason::NO_HANDSHAKE);
}

#[test]
fn marks_of_a_known_flow_are_echoed_and_of_the_same_flow_forgotten_are_heard_by_drops() {
    let mut port = Port::new(policy());
    port.pass(&syn(FROM_GUEST, ISS));
    port.pass(&answer(TO_GUEST, IRS, ISS));
    for nth in 0..10 {
        assert_eq!(port.reason(&data(nth, consts::CE)), Reason::TRANSLATED);
        assert_eq!(port.pass(&acks(nth + 1, 0)).1.flags, ACK | ECE);
    }
    port.forget();
    let passed = passing(&mut port, 10, |nth| acks(nth, 0));
    assert_eq!(passed, SILENT_MARKS + 1);
}
