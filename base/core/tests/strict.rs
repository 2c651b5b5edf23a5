//! Strict mode: what can't be translated is downgraded, held or dropped.

use crate::ends::{
    ACK, CWR, ECE, FROM_GUEST, IRS, ISS, MSS, Port, SYN, TO_GUEST, ack, answer, data, segment, syn,
    with,
};
use uc_core::{Policy, Reason, Segment, consts};

fn strict_of(law: u32) -> Policy {
    Policy {
        modes: consts::MODE_STRICT as u8,
        ..Policy::new(law, consts::PROFILE_LINUX)
    }
}

fn strict() -> Policy {
    strict_of(consts::LAW_ECN)
}

fn label(port: &mut Port, segment: &Segment) -> &'static str {
    let (reason, edit) = port.pass(segment);
    reason.counted(segment, &edit).label()
}

/// Returns what stays of a SYN's or SYN-ACK's options, and its flags.
fn plain(segment: &Segment, edit: &uc_core::Edit) -> (u8, u8) {
    (segment.options & !edit.removed, edit.flags)
}

#[test]
fn accurate_ecn_and_mptcp_are_removed_from_the_guests_syn_and_the_flow_is_translated() {
    let accurate = Segment {
        flags: SYN | ECE | CWR,
        ..with(syn(FROM_GUEST, ISS), consts::OPT_AE)
    };
    let classic = Segment {
        flags: SYN | ECE | CWR,
        ..syn(FROM_GUEST, ISS)
    };
    for (law, asks) in [
        (consts::LAW_ECN, ECE | CWR),
        (consts::LAW_DCTCP, ECE | CWR),
        (consts::LAW_DELAY, 0),
    ] {
        for (odd, counted) in [
            (accurate, "downgraded"),
            (with(syn(FROM_GUEST, ISS), consts::OPT_MPTCP), "downgraded"),
            (with(accurate, consts::OPT_MPTCP), "downgraded"),
            (classic, "translated"),
        ] {
            let mut port = Port::new(strict_of(law));
            let (reason, edit) = port.pass(&odd);
            assert_eq!(reason.counted(&odd, &edit).label(), counted);
            assert_eq!(plain(&odd, &edit), (consts::OPT_MSS as u8, SYN | asks));
            let (reason, edit) = port.pass(&answer(TO_GUEST, IRS, ISS));
            assert_eq!((reason, edit.flags), (Reason::TRANSLATED, SYN | ACK));
            assert!(port.blast(ISS + 1) <= 11, "law {law}");
        }
    }
}

#[test]
fn accurate_ecn_and_mptcp_are_removed_from_the_peers_syn_before_the_guest_sees_it() {
    let odd = with(syn(TO_GUEST, IRS), consts::OPT_AE | consts::OPT_MPTCP);
    let mut port = Port::new(strict());
    let (_, edit) = port.pass(&odd);
    assert_eq!(plain(&odd, &edit), (consts::OPT_MSS as u8, SYN));
    // a guest that agrees to what it was never offered
    let agrees = Segment {
        flags: SYN | ACK | ECE | CWR,
        ..with(
            answer(FROM_GUEST, ISS, IRS),
            consts::OPT_AE | consts::OPT_MPTCP,
        )
    };
    let (reason, edit) = port.pass(&agrees);
    assert_eq!(reason.counted(&agrees, &edit), Reason::DOWNGRADED);
    assert_eq!(
        plain(&agrees, &edit),
        (consts::OPT_MSS as u8, SYN | ACK | ECE)
    );
    port.pass(&ack(ISS + 1));
    assert_eq!(port.blast(ISS + 1), 11);
}

#[test]
fn peer_without_ecn_leaves_the_law_without_marks_and_the_guest_under_it() {
    for law in [consts::LAW_ECN, consts::LAW_DCTCP] {
        let mut port = Port::new(strict_of(law));
        port.pass(&syn(FROM_GUEST, ISS));
        let refuses = segment(TO_GUEST, SYN | ACK, IRS, ISS + 1);
        let (reason, edit) = port.pass(&refuses);
        assert_eq!((reason, edit.flags), (Reason::TRANSLATED, SYN | ACK));
        let (_, edit) = port.pass(&data(ISS + 1));
        assert_eq!(
            u32::from(edit.ecn),
            consts::NOT_ECT,
            "no mark would be answered"
        );
        assert_eq!(port.blast(ISS + 1 + MSS), 10);

        let mut port = Port::new(strict_of(law));
        port.pass(&segment(TO_GUEST, SYN, IRS, 0));
        let (reason, edit) = port.pass(&answer(FROM_GUEST, ISS, IRS));
        assert_eq!((reason, edit.flags), (Reason::TRANSLATED, SYN | ACK));
    }
}

#[test]
fn signed_syns_odd_handshakes_and_early_data_of_the_guest_are_dropped_and_change_nothing() {
    let mut port = Port::new(strict());
    let signed = with(syn(FROM_GUEST, ISS), consts::OPT_SIGNED);
    assert_eq!(label(&mut port, &signed), "strict_signed");
    assert!(port.flow().is_none());
    // an answer to a SYN that was not seen, and data before any answer
    port.pass(&syn(FROM_GUEST, ISS));
    assert_eq!(label(&mut port, &data(ISS + 1)), "strict_no_handshake");
    let stray = answer(TO_GUEST, IRS, ISS + 5);
    assert_eq!(label(&mut port, &stray), "strict_no_handshake");
    // into an established flow
    let mut port = Port::connected(strict());
    let before = *port.flow().unwrap();
    assert_eq!(label(&mut port, &signed), "strict_signed");
    assert_eq!(*port.flow().unwrap(), before);
    for odd in [answer(FROM_GUEST, 5, 6), answer(TO_GUEST, 5, 6)] {
        assert_eq!(label(&mut port, &odd), "strict_no_handshake");
    }
    // RFC 9293 §3.10.7.2 knows no SYN with FIN
    let both = segment(FROM_GUEST, SYN | consts::FIN as u8, 5, 0);
    assert_eq!(label(&mut port, &both), "strict_no_handshake");
    // a server guest, before the peer has acknowledged its answer
    let mut port = Port::new(strict());
    port.pass(&syn(TO_GUEST, IRS));
    port.pass(&answer(FROM_GUEST, ISS, IRS));
    assert_eq!(label(&mut port, &data(ISS + 1)), "beyond_edge");
    port.pass(&ack(ISS + 1));
    assert_eq!(port.blast(ISS + 1), 11);
    // and a signed SYN of the peer, which passes: the guest's answer to it doesn't
    let mut port = Port::new(strict());
    assert_eq!(
        label(&mut port, &with(syn(TO_GUEST, IRS), consts::OPT_SIGNED)),
        "signed"
    );
    assert_eq!(
        label(&mut port, &answer(FROM_GUEST, ISS, IRS)),
        "strict_no_handshake"
    );
}

#[test]
fn coarse_window_is_not_written_and_data_beyond_the_laws_own_is_dropped() {
    let mut port = Port::new(strict());
    let offer = |segment| Segment {
        wscale: 14,
        ..with(segment, consts::OPT_WSCALE)
    };
    port.pass(&offer(syn(FROM_GUEST, ISS)));
    port.pass(&offer(answer(TO_GUEST, IRS, ISS)));
    let (reason, edit) = port.pass(&ack(ISS + 1));
    assert_eq!((reason, edit.window), (Reason::HELD, 60_000));
    assert_eq!(port.blast(ISS + 1), 11);
    // the window grows with what is acknowledged, by slow start
    port.pass(&ack(ISS + 1 + 11 * MSS));
    let more = port.blast(ISS + 1 + 11 * MSS);
    assert!((12..=23).contains(&more), "{more}");
    let (reason, edit) = port.pass(&ack(ISS + 1));
    assert_eq!((reason, edit.window), (Reason::HELD, 60_000), "overtaken");
}

#[test]
fn connection_without_a_handshake_is_held_where_the_peer_acknowledges_it() {
    let mut port = Port::new(strict());
    assert_eq!(port.reason(&ack(ISS)), Reason::NO_HANDSHAKE);
    let bare = segment(FROM_GUEST, ACK, ISS, IRS);
    assert_eq!(port.reason(&bare), Reason::NO_HANDSHAKE, "no data, no flow");
    // a number that isn't the connection's gains nothing: the peer acknowledges the true one
    let far = 1 << 30;
    let mut bogus = data(far);
    bogus.ecn = consts::ECT0 as u8;
    let (reason, edit) = port.pass(&bogus);
    assert_eq!((reason, edit), (Reason::HELD, uc_core::no_edit(&bogus)));
    assert!(port.reason(&data(ISS)).drops());
    assert_eq!(port.reason(&ack(ISS)), Reason::HELD);
    assert_eq!(port.blast(ISS), 11);
    let mut echo = ack(ISS + 11 * MSS);
    echo.flags |= ECE;
    let (_, edit) = port.pass(&echo);
    assert_eq!(
        edit,
        uc_core::no_edit(&echo),
        "the ends' own ECN stays theirs"
    );
    assert!(port.blast(ISS + 11 * MSS) >= 12);
}

#[test]
fn flows_that_policy_passes_pass_whatever_they_are() {
    for segment in [
        with(syn(FROM_GUEST, ISS), consts::OPT_SIGNED),
        with(syn(FROM_GUEST, ISS), consts::OPT_MPTCP | consts::OPT_AE),
        answer(FROM_GUEST, ISS, IRS),
        data(ISS),
    ] {
        let (reason, edit) = Port::new(strict_of(consts::LAW_PASS)).pass(&segment);
        assert!(!reason.drops(), "{reason}");
        assert_eq!(edit, uc_core::no_edit(&segment));
    }
}

#[test]
fn each_reason_to_drop_is_the_strict_form_of_a_reason_to_pass() {
    for reason in Reason::all() {
        let strict = reason.strict();
        if strict == reason {
            continue;
        }
        assert!(
            !reason.drops() && strict.drops() && !strict.forgets(),
            "{reason}"
        );
        assert_eq!(strict.label(), format!("strict_{reason}"));
    }
    let dropped = Reason::all().filter(|reason| reason.drops()).count();
    let strict = Reason::all()
        .filter(|reason| reason.strict() != *reason)
        .count();
    assert_eq!(
        dropped,
        strict + 3,
        "those, beyond_edge, unechoed and unanswered"
    );
}

#[test]
fn segments_that_strict_mode_drops_leave_the_flow_as_it_was() {
    let mut port = Port::new(strict());
    port.pass(&syn(FROM_GUEST, ISS));
    let open = *port.flow().unwrap();
    // data before any answer
    assert_eq!(label(&mut port, &data(ISS + 1)), "strict_no_handshake");
    assert_eq!(port.flow(), Some(&open));
    // SYN and FIN, which no handshake has; a signed answer with another number; both too late
    let mut port = Port::new(strict());
    port.pass(&syn(TO_GUEST, IRS));
    port.pass(&answer(FROM_GUEST, ISS, IRS));
    let answered = *port.flow().unwrap();
    let fin = segment(FROM_GUEST, SYN | consts::FIN as u8, ISS + 1, 0);
    assert_eq!(label(&mut port, &fin), "strict_no_handshake");
    let signed = with(answer(FROM_GUEST, ISS + 7, IRS), consts::OPT_SIGNED);
    assert_eq!(label(&mut port, &signed), "strict_signed");
    assert_eq!(port.flow(), Some(&answered));
}

#[test]
fn scale_of_a_segment_without_the_option_is_not_read() {
    let mut port = Port::new(strict());
    let odd = Segment {
        wscale: 15,
        ..data(ISS + 1)
    };
    assert_eq!(port.reason(&odd), Reason::HELD);
    assert_eq!(port.flow().unwrap().wscale(), 0);
}

#[test]
fn scale_above_the_largest_counts_as_the_largest_from_the_syn_on() {
    let mut port = Port::new(strict());
    port.pass(&Segment {
        wscale: 16,
        ..with(syn(FROM_GUEST, ISS), consts::OPT_WSCALE)
    });
    assert_eq!(port.flow().unwrap().wscale(), 14);
}

#[test]
fn signed_answer_to_a_syn_into_a_live_flow_leaves_the_flow_as_it_was() {
    let mut port = Port::connected(strict());
    port.pass(&syn(TO_GUEST, IRS + 77_777));
    let live = *port.flow().unwrap();
    let signed = with(
        answer(FROM_GUEST, ISS + 77_777, IRS + 77_777),
        consts::OPT_SIGNED,
    );
    assert_eq!(label(&mut port, &signed), "strict_signed");
    assert_eq!(port.flow(), Some(&live));
}
