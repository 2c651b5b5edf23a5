//! Flows of a port that drains keep their echo and nothing else, and return to translation.

use crate::ends::{
    ACK, CWR, ECE, FROM_GUEST, IRS, ISS, MSS, Port, TO_GUEST, ack, answer, data, guarded, segment,
    syn, with,
};
use uc_core::{Policy, Reason, Segment, consts};

fn strict() -> Policy {
    Policy {
        modes: consts::MODE_STRICT as u8,
        ..Policy::new(consts::LAW_DCTCP, consts::PROFILE_LINUX)
    }
}

fn policies() -> [Policy; 4] {
    let ecn = Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX);
    let coupled = Policy::new(consts::LAW_COUPLED, consts::PROFILE_RFC);
    [ecn, guarded(), strict(), coupled]
}

/// Data of the peer, which the network may have marked.
fn from_peer(nth: u32, flags: u8, ecn: u32) -> Segment {
    Segment {
        payload_bytes: MSS,
        wire_payload_bytes: MSS as u16,
        ecn: ecn as u8,
        ..segment(TO_GUEST, ACK | flags, IRS + 1 + nth * MSS, ISS + 1 + MSS)
    }
}

/// Answers of the guest, which the port edits, to the peer's first `segments` segments.
fn answered(port: &mut Port, segments: u32) -> u8 {
    let answer = segment(FROM_GUEST, ACK, ISS + 1 + MSS, IRS + 1 + segments * MSS);
    port.pass(&answer).1.flags
}

#[test]
fn marks_are_echoed_until_cwr_and_no_window_is_written() {
    for policy in policies() {
        let mut port = Port::connected(policy);
        assert!(port.flow_mut().leave());
        let (reason, edit) = port.pass(&from_peer(0, 0, consts::CE));
        assert_eq!(reason, Reason::COARSE_WINDOW);
        assert_eq!(u32::from(edit.ecn), consts::NOT_ECT, "the guest sees none");
        assert_eq!(edit.window, 60_000, "the receiver's");
        assert_eq!(answered(&mut port, 1), ACK | ECE);
        port.pass(&from_peer(1, 0, consts::ECT0));
        assert_eq!(answered(&mut port, 2), ACK | ECE);
        port.pass(&from_peer(2, CWR, consts::ECT0));
        assert_eq!(answered(&mut port, 3), ACK);
    }
}

#[test]
fn guest_may_fill_the_receivers_window_and_its_data_are_not_ect() {
    for policy in policies() {
        let mut port = Port::connected(policy);
        assert!(port.flow_mut().leave());
        // with an echo of a mark from before, which the guest must not see
        let (_, edit) = port.pass(&segment(TO_GUEST, ACK | ECE, IRS + 1, ISS + 1 + MSS));
        assert_eq!((edit.flags, edit.window), (ACK, 60_000));
        for nth in 1..60 {
            let (reason, edit) = port.pass(&data(ISS + 1 + nth * MSS));
            assert_eq!((reason, edit.ecn), (Reason::COARSE_WINDOW, 0), "{nth}");
        }
    }
}

#[test]
fn flow_that_returns_is_the_one_that_left() {
    for policy in policies() {
        let mut port = Port::connected(policy);
        let before = *port.flow_mut();
        assert!(port.flow_mut().leave() && port.flow_mut().leaves());
        assert_ne!(*port.flow_mut(), before);
        // twice, as each search of the table does
        assert!(port.flow_mut().leave());
        port.flow_mut().return_to_law();
        port.flow_mut().return_to_law();
        let mut after = *port.flow_mut();
        after.policy.ecn_syns = before.policy.ecn_syns;
        assert_eq!(after, before);
        let (_, edit) = port.pass(&data(ISS + 1 + MSS));
        assert_eq!(u32::from(edit.ecn), consts::ECT0);
        assert!(port.pass(&ack(ISS + 1 + 2 * MSS)).1.window < 60_000);
    }
}

#[test]
fn test_of_the_path_ends_when_the_flow_leaves() {
    for trial in [consts::TRIAL_LOST, consts::TRIAL_MARKED] {
        let mut port = Port::connected(Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX));
        let flow = port.flow_mut();
        flow.trial = trial as u8;
        flow.trial_at = flow.snd_nxt;
        if trial == consts::TRIAL_MARKED {
            flow.policy.modes |= consts::MODE_NO_ECT as u8;
        }
        assert!(flow.leave());
        for nth in 1..4 {
            let (_, edit) = port.pass(&data(ISS + 1 + nth * MSS));
            assert_eq!(u32::from(edit.ecn), consts::NOT_ECT, "{trial} {nth}");
            port.pass(&ack(ISS + 1 + (nth + 1) * MSS));
        }
        port.flow_mut().return_to_law();
        let (_, edit) = port.pass(&data(ISS + 1 + 4 * MSS));
        assert_eq!(u32::from(edit.ecn), consts::ECT0, "{trial}");
    }
}

#[test]
fn flow_in_its_handshake_leaves_when_that_is_over() {
    let mut port = Port::new(guarded());
    port.pass(&syn(FROM_GUEST, ISS));
    assert!(port.flow_mut().leave() && !port.flow_mut().leaves());
    port.pass(&answer(TO_GUEST, IRS, ISS));
    assert!(port.flow_mut().leave() && port.flow_mut().leaves());
}

#[test]
fn flows_that_write_no_window_stay_as_they_are_and_adopted_ones_are_forgotten() {
    let observed = Policy {
        modes: consts::MODE_OBSERVE as u8,
        ..guarded()
    };
    let mut port = Port::connected(observed);
    let before = *port.flow_mut();
    assert!(port.flow_mut().leave());
    assert_eq!(*port.flow_mut(), before);

    let mut adopted = Port::new(strict());
    adopted.pass(&data(ISS + 1));
    assert!(!adopted.flow_mut().leave());

    // its scale is coarse: strict mode drops data, until its port drains
    let scaled = |segment: Segment, wscale| Segment {
        wscale,
        ..with(segment, consts::OPT_WSCALE)
    };
    let mut coarse = Port::new(strict());
    coarse.pass(&scaled(syn(FROM_GUEST, ISS), 7));
    coarse.pass(&scaled(answer(TO_GUEST, IRS, ISS), 12));
    assert!(coarse.flow_mut().leave());
    coarse.pass(&ack(ISS + 1));
    assert_eq!(coarse.blast(ISS + 1), 1_000);
    coarse.flow_mut().return_to_law();
    let unchanged = segment(TO_GUEST, ACK, IRS + 1, ISS + 1 + MSS);
    let (reason, edit) = coarse.pass(&unchanged);
    assert_eq!((reason, edit.window), (Reason::HELD, unchanged.window));
}

#[test]
fn flow_that_the_guest_has_half_closed_is_kept_for_an_hour_if_the_peer_may_send_ect() {
    const FIN: u8 = consts::FIN as u8;
    let closed = |law| {
        let mut port = Port::connected(Policy::new(law, consts::PROFILE_LINUX));
        port.pass(&segment(FROM_GUEST, ACK | FIN, ISS + 1 + MSS, IRS + 1));
        let in_flight_ns = uc_core::idle_max_ns(port.flow_mut());
        port.pass(&ack(ISS + 2 + MSS));
        (port, in_flight_ns)
    };
    let (mut port, in_flight_ns) = closed(consts::LAW_ECN);
    assert_eq!(in_flight_ns, consts::IDLE_UNACKED_NS, "the FIN");
    assert_eq!(uc_core::idle_max_ns(port.flow_mut()), consts::IDLE_OWING_NS);
    port.pass(&segment(TO_GUEST, ACK | FIN, IRS + 1, ISS + 2 + MSS));
    let both = uc_core::idle_max_ns(port.flow_mut());
    assert_eq!(both, consts::IDLE_CLOSED_NS, "both have closed");
    let (mut without_ecn, in_flight_ns) = closed(consts::LAW_DELAY);
    assert_eq!(in_flight_ns, consts::IDLE_CLOSING_NS);
    let idle_ns = uc_core::idle_max_ns(without_ecn.flow_mut());
    assert_eq!(idle_ns, consts::IDLE_CLOSING_NS);
}
