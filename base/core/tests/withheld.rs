//! Offers that a port removes from SYN and SYN-ACK by policy.

use crate::ends::{FROM_GUEST, IRS, ISS, Port, SYN, TO_GUEST, ack, answer, data, syn, with};
use uc_core::{Edit, Policy, Reason, Segment, consts};

const ALL: u32 = consts::OPT_WSCALE | consts::OPT_SACK | consts::OPT_TIMESTAMPS;

/// Removes these offers, bits of [`ALL`].
fn policy(withheld: u32) -> Policy {
    Policy {
        modes: (withheld << consts::WITHHELD_SHIFT) as u8,
        ..Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX)
    }
}

/// A SYN or SYN-ACK that offers everything; its windows count units of 128 bytes.
fn full(segment: Segment) -> Segment {
    Segment {
        wscale: 7,
        mss_bytes: 1_460,
        ..with(segment, ALL)
    }
}

/// Returns what a segment still offers.
fn left(segment: &Segment, edit: &Edit) -> u32 {
    u32::from(segment.options & !edit.removed) & ALL
}

#[test]
fn each_offer_is_removed_from_syn_and_syn_ack_of_both_ends() {
    for withheld in [
        consts::OPT_WSCALE,
        consts::OPT_SACK,
        consts::OPT_TIMESTAMPS,
        ALL,
    ] {
        for opener in [FROM_GUEST, TO_GUEST] {
            let mut port = Port::new(policy(withheld));
            let (own, others) = match opener {
                FROM_GUEST => (ISS, IRS),
                _ => (IRS, ISS),
            };
            let opening = full(syn(opener, own));
            let (_, edit) = port.pass(&opening);
            assert_eq!(left(&opening, &edit), ALL & !withheld);
            let answering = full(answer(FROM_GUEST + TO_GUEST - opener, others, own));
            let (reason, edit) = port.pass(&answering);
            assert_eq!(reason, Reason::TRANSLATED);
            assert_eq!(left(&answering, &edit), ALL & !withheld);
            // what both ends then believe
            let flow = port.flow().unwrap();
            let bits = flow.bits;
            let kept = |offer: u32| withheld & offer == 0;
            assert_eq!(bits & consts::FLOW_SACK != 0, kept(consts::OPT_SACK));
            let stamps = bits & consts::FLOW_TIMESTAMPS != 0;
            assert_eq!(stamps, kept(consts::OPT_TIMESTAMPS));
            let scale = if kept(consts::OPT_WSCALE) { 7 } else { 0 };
            assert_eq!(flow.wscale(), scale);
            assert_eq!(flow.mss_bytes, if stamps { 1_448 } else { 1_460 });
        }
    }
}

#[test]
fn an_unscaled_window_is_written_to_the_byte() {
    let window = |withheld: u32| {
        let mut port = Port::new(policy(withheld));
        port.pass(&full(syn(FROM_GUEST, ISS)));
        port.pass(&full(answer(TO_GUEST, IRS, ISS)));
        port.pass(&data(ISS + 1));
        let (_, edit) = port.pass(&ack(ISS + 1 + 1_000));
        (port.flow().unwrap().wscale(), edit.window)
    };
    let (scale, units) = window(0);
    let (unscaled, bytes) = window(consts::OPT_WSCALE);
    assert_eq!((scale, unscaled), (7, 0));
    assert_eq!(u32::from(bytes), 10 * 1_448);
    assert_ne!(u32::from(units) << 7, u32::from(bytes));
}

#[test]
fn signed_observed_and_untranslated_flows_keep_their_offers() {
    let signed = full(with(syn(FROM_GUEST, ISS), consts::OPT_SIGNED));
    let own_ecn = Segment {
        flags: SYN | (consts::ECE | consts::CWR) as u8,
        ..full(syn(FROM_GUEST, ISS))
    };
    let withholding = policy(ALL);
    let observing = Policy {
        modes: withholding.modes | consts::MODE_OBSERVE as u8,
        ..withholding
    };
    for (policy, opening, counted) in [
        (withholding, signed, Reason::SIGNED),
        (withholding, own_ecn, Reason::GUEST_SPEAKS_ECN),
        (observing, full(syn(FROM_GUEST, ISS)), Reason::TRANSLATED),
    ] {
        let (reason, edit) = Port::new(policy).pass(&opening);
        assert_eq!(reason, counted);
        assert_eq!(left(&opening, &edit), ALL);
    }
}

#[test]
fn an_offer_removed_by_policy_is_no_downgrade() {
    let mut port = Port::new(policy(ALL));
    let opening = full(syn(FROM_GUEST, ISS));
    let (reason, edit) = port.pass(&opening);
    assert_eq!(reason.counted(&opening, &edit), Reason::TRANSLATED);
}
