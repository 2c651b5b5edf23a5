//! What the host has agreed to in the guest's name is kept, where the flow can't be translated as others.

use crate::ends::{
    ACK, CWR, ECE, FROM_GUEST, IRS, ISS, MSS, Port, SYN, TO_GUEST, ack, answer, data, guarded,
    segment, syn, with,
};
use uc_core::{Policy, Reason, Segment, consts};

fn ecn() -> Policy {
    Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX)
}

fn scaled(segment: Segment, wscale: u8) -> Segment {
    Segment {
        wscale,
        ..with(segment, consts::OPT_WSCALE)
    }
}

fn marked(seq: u32, flags: u8) -> Segment {
    Segment {
        payload_bytes: MSS,
        wire_payload_bytes: MSS as u16,
        ecn: consts::CE as u8,
        ..segment(TO_GUEST, ACK | flags, seq, ISS + 1)
    }
}

/// Opens a flow whose windows can't be written: the scale of the peer, or its broken options.
fn coarse(policy: Policy, broken: bool) -> Port {
    let mut port = Port::new(policy);
    port.pass(&scaled(syn(FROM_GUEST, ISS), 7));
    let answer = if broken {
        with(answer(TO_GUEST, IRS, ISS), consts::OPT_BROKEN)
    } else {
        scaled(answer(TO_GUEST, IRS, ISS), 12)
    };
    let (reason, edit) = port.pass(&answer);
    assert_eq!((reason, edit.flags), (Reason::COARSE_WINDOW, SYN | ACK));
    assert_eq!(edit.window, answer.window);
    port
}

#[test]
fn marks_are_echoed_where_no_window_can_be_written() {
    for broken in [false, true] {
        for guard_segments in [0, 1] {
            let policy = Policy {
                guard_segments,
                ..ecn()
            };
            let mut port = coarse(policy, broken);
            let (reason, edit) = port.pass(&marked(IRS + 1, 0));
            assert_eq!(reason, Reason::COARSE_WINDOW);
            assert_eq!(u32::from(edit.ecn), consts::NOT_ECT, "the guest sees none");
            let echo = segment(FROM_GUEST, ACK, ISS + 1, IRS + 1 + MSS);
            assert_eq!(port.pass(&echo).1.flags, ACK | ECE);
            // until the peer's CWR
            let reduced = Segment {
                ecn: consts::ECT0 as u8,
                ..marked(IRS + 1 + MSS, CWR)
            };
            assert_eq!(port.pass(&reduced).1.flags, ACK);
            let last = segment(FROM_GUEST, ACK, ISS + 1, IRS + 1 + 2 * MSS);
            assert_eq!(port.pass(&last).1.flags, ACK);
        }
    }
}

#[test]
fn the_guests_own_data_are_not_ect_where_no_window_can_answer_a_mark() {
    let mut port = coarse(ecn(), false);
    for nth in 0..40 {
        let (reason, edit) = port.pass(&data(ISS + 1 + nth * MSS));
        assert_eq!((reason, edit.ecn), (Reason::COARSE_WINDOW, 0));
        assert_eq!(edit.flags & ECE, 0);
    }
    let (_, edit) = port.pass(&ack(ISS + 1 + 20 * MSS));
    assert_eq!(edit, uc_core::no_edit(&ack(ISS + 1 + 20 * MSS)));
}

#[test]
fn a_guest_that_answers_agrees_to_nothing_where_no_window_can_be_written() {
    let mut port = Port::new(ecn());
    port.pass(&scaled(syn(TO_GUEST, IRS), 12));
    let answers = scaled(answer(FROM_GUEST, ISS, IRS), 7);
    let (reason, edit) = port.pass(&answers);
    assert_eq!(reason, Reason::COARSE_WINDOW);
    assert_eq!(edit, uc_core::no_edit(&answers));
    assert!(port.flow().is_none());
}

#[test]
fn strict_mode_holds_by_drops_a_flow_whose_options_are_broken() {
    let policy = Policy {
        modes: consts::MODE_STRICT as u8,
        ..ecn()
    };
    let mut port = Port::new(policy);
    port.pass(&syn(FROM_GUEST, ISS));
    port.pass(&with(answer(TO_GUEST, IRS, ISS), consts::OPT_BROKEN));
    assert!(port.blast(ISS + 1) <= 12);
}

#[test]
fn a_guard_limits_by_drops_a_guest_whose_segments_are_smaller_than_the_unit() {
    // an MSS of 100 makes a unit of 128 bytes coarse; a scale of 11 does so for honest guests
    for (guard_segments, mss_bytes, wscale, is_limited) in [
        (1, 100, 7, true),
        (1, 1_000, 10, true),
        (0, 100, 7, false),
        (1, MSS as u16, 11, false),
    ] {
        let policy = Policy {
            guard_segments,
            ..ecn()
        };
        for from in [FROM_GUEST, TO_GUEST] {
            let mut port = Port::new(policy);
            let [guest, peer] = [(FROM_GUEST, ISS), (TO_GUEST, IRS)];
            let [asks, answers] = if from == FROM_GUEST {
                [guest, peer]
            } else {
                [peer, guest]
            };
            let small = |segment| Segment {
                mss_bytes,
                ..scaled(segment, wscale)
            };
            port.pass(&small(syn(asks.0, asks.1)));
            port.pass(&small(answer(answers.0, answers.1, asks.1)));
            port.pass(&ack(ISS + 1));
            let segment = |nth| Segment {
                payload_bytes: u32::from(mss_bytes),
                wire_payload_bytes: mss_bytes,
                ..data(ISS + 1 + nth * u32::from(mss_bytes))
            };
            let sent = (0..1_000).find(|nth| port.reason(&segment(*nth)).drops());
            // ten segments and the guard's
            let expected = is_limited.then_some(11);
            assert_eq!(
                sent, expected,
                "MSS {mss_bytes}, scale {wscale}, SYN from {from}"
            );
        }
    }
}

#[test]
fn data_of_a_syn_that_the_peer_did_not_take_are_no_new_data_when_they_come_again() {
    let mut port = Port::new(ecn());
    let early = Segment {
        payload_bytes: 500,
        wire_payload_bytes: 500,
        ..syn(FROM_GUEST, ISS)
    };
    port.pass(&early);
    port.pass(&answer(TO_GUEST, IRS, ISS));
    // with more behind them, up to a full segment
    let (_, again) = port.pass(&data(ISS + 1));
    assert_eq!(u32::from(again.ecn), consts::NOT_ECT, "RFC 3168 §6.1.5");
    let (_, next) = port.pass(&data(ISS + 1 + MSS));
    assert_eq!(u32::from(next.ecn), consts::ECT0);
    let flow = port.flow().unwrap();
    assert_eq!((flow.losses, flow.snd_nxt), (0, ISS + 1 + 2 * MSS));
}

#[test]
fn an_answer_to_an_earlier_syn_counts_by_its_own_options() {
    // of the guest, and of the peer
    for direction in [FROM_GUEST, TO_GUEST] {
        let mut port = Port::new(guarded());
        let (from, to) = if direction == FROM_GUEST {
            (ISS, IRS)
        } else {
            (IRS, ISS)
        };
        port.pass(&scaled(syn(direction, from), 7));
        port.pass(&syn(direction, from));
        port.pass(&scaled(answer(1 - direction, to, from), 7));
        let flow = port.flow().expect("the flow is known");
        assert_eq!(u32::from(flow.wscale()), 7, "{direction}");
    }
    // and a SYN-ACK without a scale, to the second
    let mut port = Port::new(guarded());
    port.pass(&scaled(syn(FROM_GUEST, ISS), 7));
    port.pass(&syn(FROM_GUEST, ISS));
    port.pass(&answer(TO_GUEST, IRS, ISS));
    assert_eq!(port.flow().unwrap().wscale(), 0);
}

/// Returns whether a new SYN of the guest leaves with the host's offer of ECN.
fn asks(port: &mut Port) -> bool {
    port.pass(&syn(FROM_GUEST, ISS)).1.flags & ECE != 0
}

/// Lets the peer agree to ECN, and the guest reset the flow afterwards.
fn agrees_then_ends(port: &mut Port) {
    port.pass(&answer(TO_GUEST, IRS, ISS));
    port.pass(&segment(
        FROM_GUEST,
        ACK | consts::RST as u8,
        ISS + 1,
        IRS + 1,
    ));
}

#[test]
fn a_server_that_resets_ecn_is_asked_once_unless_it_has_agreed_before_or_resets_all() {
    let rst = segment(TO_GUEST, ACK | consts::RST as u8, 0, ISS + 1);
    let mut port = Port::new(ecn());
    assert!(asks(&mut port));
    port.pass(&rst);
    port.wait_ms(70_000);
    assert!(!asks(&mut port), "the next does not ask");
    // it answers a SYN without the offer: the flow passes
    let plain = segment(TO_GUEST, SYN | ACK, IRS, ISS + 1);
    assert_eq!(port.reason(&plain), Reason::ECN_AVOIDED);
    port.wait_ms(10_000);
    assert!(!asks(&mut port));
    port.wait_ms(3_600_000);
    assert!(asks(&mut port), "an hour later");
    // a service that is down resets both
    port.pass(&rst);
    port.wait_ms(70_000);
    assert!(!asks(&mut port));
    port.pass(&rst);
    port.wait_ms(70_000);
    assert!(asks(&mut port));
    // one that has agreed is down for another reason
    agrees_then_ends(&mut port);
    port.wait_ms(70_000);
    assert!(asks(&mut port));
    port.pass(&rst);
    port.wait_ms(70_000);
    assert!(asks(&mut port));
}

#[test]
fn neither_the_guests_own_reset_nor_a_guarded_guest_makes_an_address_suspect() {
    let own = segment(FROM_GUEST, consts::RST as u8, ISS + 1, 0);
    let theirs = segment(TO_GUEST, ACK | consts::RST as u8, 0, ISS + 1);
    for (policy, reset) in [(ecn(), own), (guarded(), theirs)] {
        let mut port = Port::new(policy);
        assert!(asks(&mut port));
        port.pass(&reset);
        port.wait_ms(70_000);
        assert!(asks(&mut port));
    }
    // an address that agrees after all is not suspect any more
    let mut port = Port::new(ecn());
    assert!(asks(&mut port));
    port.pass(&theirs);
    agrees_then_ends(&mut port);
    port.wait_ms(70_000);
    assert!(asks(&mut port));
}

#[test]
fn syn_into_a_live_flow_asks_for_ecn_as_often_as_policy_says() {
    let policy = Policy {
        ecn_syns: 2,
        ..ecn()
    };
    let mut port = Port::connected(policy);
    let asks = [(); 4].map(|()| port.pass(&syn(FROM_GUEST, 5_000_000)).1.flags & ECE != 0);
    assert_eq!(asks, [true, true, false, false]);
}

#[test]
fn offer_in_any_syn_of_an_observed_guest_counts_in_its_next_connection() {
    let policy = Policy {
        modes: consts::MODE_OBSERVE as u8,
        ..ecn()
    };
    let feedback = |offers: &[u8]| {
        let mut port = Port::new(policy);
        port.pass(&segment(FROM_GUEST, SYN | ECE | CWR, ISS, 0));
        port.pass(&answer(TO_GUEST, IRS, ISS));
        port.pass(&data(ISS + 1));
        port.pass(&ack(ISS + 1 + MSS));
        for offer in offers {
            port.pass(&segment(FROM_GUEST, SYN | offer, 5_000_000, 0));
        }
        port.pass(&answer(TO_GUEST, 50, 5_000_000));
        port.flow()
            .filter(|flow| flow.snd_una == 5_000_001)
            .map(|flow| flow.feedback)
    };
    let offered = feedback(&[ECE | CWR]);
    assert!(offered.is_some());
    assert_eq!(feedback(&[ECE | CWR, 0]), offered);
    assert_ne!(feedback(&[0]), offered);
}
