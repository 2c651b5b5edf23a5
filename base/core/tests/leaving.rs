//! A guest's SYNs and SYN-ACKs that never reach the peer end no translation.

use crate::ends::{
    ACK, ECE, FROM_GUEST, IRS, ISS, MSS, Port, TO_GUEST, ack, answer, data, guarded, segment, syn,
    with,
};
use uc_core::{Reason, Segment, consts};

/// Checks that the guard stops the guest one segment beyond its ten, from `seq` on.
fn is_guarded(port: &mut Port, seq: u32, what: &str) {
    assert_eq!(port.blast(seq), 11, "{what}");
}

#[test]
fn syn_and_syn_ack_of_the_guest_in_mid_flow_let_the_flow_go_on() {
    for decoys in [
        vec![answer(FROM_GUEST, 5, 6)],
        vec![syn(FROM_GUEST, 5_000_000), answer(FROM_GUEST, 5, 6)],
        vec![syn(FROM_GUEST, ISS), answer(FROM_GUEST, ISS, IRS)],
        vec![
            with(syn(FROM_GUEST, 5), consts::OPT_MPTCP),
            answer(FROM_GUEST, 5, IRS),
        ],
    ] {
        let mut port = Port::connected(guarded());
        for decoy in &decoys {
            assert!(!port.reason(decoy).forgets(), "{decoy:?}");
        }
        let edge = port.flow().unwrap().furthest_edge;
        let passed = port.blast(ISS + 1 + MSS);
        assert_eq!(passed, (edge - ISS - 1 - MSS) / MSS + 1, "{decoys:?}");
    }
}

#[test]
fn decoys_before_and_behind_the_real_syn_let_its_answer_open_the_flow() {
    let odd = [
        syn(FROM_GUEST, 77),
        with(syn(FROM_GUEST, 78), consts::OPT_MPTCP),
        with(syn(FROM_GUEST, 79), consts::OPT_AE),
        with(syn(FROM_GUEST, 80), consts::OPT_WSCALE),
        answer(FROM_GUEST, 77, 5),
    ];
    for (before, behind) in [(0, 1), (0, 5), (1, 0), (1, 4), (0, 2)] {
        let mut port = Port::new(guarded());
        for decoy in &odd[..before] {
            port.pass(decoy);
        }
        port.pass(&syn(FROM_GUEST, ISS));
        for decoy in &odd[before..before + behind] {
            port.pass(decoy);
        }
        let (reason, edit) = port.pass(&answer(TO_GUEST, IRS, ISS));
        assert_eq!(reason, Reason::TRANSLATED, "{before} {behind}");
        assert_eq!(u32::from(edit.window), 10 * MSS);
        is_guarded(&mut port, ISS + 1, &format!("{before} {behind}"));
    }
}

#[test]
fn answer_to_no_syn_of_the_guest_opens_nothing() {
    let mut port = Port::new(guarded());
    port.pass(&syn(FROM_GUEST, ISS));
    port.pass(&syn(FROM_GUEST, ISS));
    assert_eq!(port.reason(&answer(TO_GUEST, IRS, 5)), Reason::NO_HANDSHAKE);
}

#[test]
fn decoy_syn_ack_of_a_server_guest_is_corrected_by_the_first_ack_of_the_peer() {
    for (first, second) in [(ISS, 5_000_000), (5_000_000, ISS)] {
        let mut port = Port::new(guarded());
        port.pass(&syn(TO_GUEST, IRS));
        port.pass(&answer(FROM_GUEST, first, IRS));
        port.pass(&answer(FROM_GUEST, second, IRS));
        let (reason, edit) = port.pass(&ack(ISS + 1));
        assert_eq!(reason, Reason::TRANSLATED);
        assert_eq!(u32::from(edit.window), 10 * MSS);
        is_guarded(&mut port, ISS + 1, &format!("{first} {second}"));
    }
}

#[test]
fn decoy_syn_of_a_server_guest_lets_its_answer_establish_the_flow() {
    for decoy in [
        syn(FROM_GUEST, 5),
        with(syn(FROM_GUEST, 5), consts::OPT_SIGNED),
    ] {
        let mut port = Port::new(guarded());
        port.pass(&syn(TO_GUEST, IRS));
        port.pass(&decoy);
        let (reason, edit) = port.pass(&answer(FROM_GUEST, ISS, IRS));
        assert_eq!((reason, edit.flags & ECE), (Reason::TRANSLATED, ECE));
        port.pass(&ack(ISS + 1));
        is_guarded(&mut port, ISS + 1, "server");
    }
}

#[test]
fn simultaneous_open_is_translated_in_any_order_of_its_segments() {
    let guest = [syn(FROM_GUEST, ISS), answer(FROM_GUEST, ISS, IRS)];
    let peer = [syn(TO_GUEST, IRS), answer(TO_GUEST, IRS, ISS)];
    let orders: [[Segment; 4]; 4] = [
        [guest[0], peer[0], guest[1], peer[1]],
        [guest[0], peer[0], peer[1], guest[1]],
        [peer[0], guest[0], guest[1], peer[1]],
        [peer[0], guest[0], peer[1], guest[1]],
    ];
    for order in orders {
        let mut port = Port::new(guarded());
        for segment in &order {
            assert!(!port.reason(segment).forgets(), "{order:?}");
        }
        let (reason, edit) = port.pass(&ack(ISS + 1));
        assert_eq!(reason, Reason::TRANSLATED);
        assert_eq!(u32::from(edit.window), 10 * MSS, "{order:?}");
        is_guarded(&mut port, ISS + 1, &format!("{order:?}"));
    }
}

#[test]
fn answer_of_the_guest_to_a_copy_of_the_peers_syn_is_corrected_by_the_peers_next_ack() {
    let mut port = Port::new(guarded());
    port.pass(&syn(TO_GUEST, IRS));
    port.pass(&answer(FROM_GUEST, ISS, IRS));
    port.pass(&ack(ISS + 1));
    port.pass(&data(ISS + 1));
    // the network repeats the SYN, and the guest answers it with a number of its own choice
    port.pass(&syn(TO_GUEST, IRS));
    port.pass(&answer(FROM_GUEST, 5_000_000, IRS));
    port.pass(&ack(ISS + 1 + MSS));
    is_guarded(&mut port, ISS + 1 + MSS, "after the decoy");
}

#[test]
fn reset_of_the_guest_in_mid_flow_lets_the_flow_go_on() {
    let mut port = Port::connected(guarded());
    port.pass(&segment(
        FROM_GUEST,
        consts::RST as u8 | ACK,
        ISS + 1 + MSS,
        0,
    ));
    assert!(port.blast(ISS + 1 + MSS) < 20);
}
