//! Flows that carry gigabytes: sequence numbers wrap, and what is compared with them must not fall
//! half the circle behind.

use uc_core::{Flow, Policy, Reason, Segment, consts};

const PIECE_BYTES: u32 = 1_448_000;

fn flow(profile: u32) -> Flow {
    let policy = Policy {
        ecn_syns: 2,
        ..Policy::new(consts::LAW_ECN, profile)
    };
    let mut flow = Flow::default();
    let options = (consts::OPT_MSS | consts::OPT_WSCALE) as u8;
    let syn = Segment {
        seq: 999,
        flags: consts::SYN as u8,
        mss_bytes: 1448,
        wscale: 7,
        options,
        direction: consts::FROM_GUEST as u8,
        ..Segment::default()
    };
    assert_eq!(
        crate::steps::open(&mut flow, &policy, &syn, 1).0,
        Reason::TRANSLATED
    );
    let answer = Segment {
        ack: 1000,
        flags: (consts::SYN | consts::ACK | consts::ECE) as u8,
        window: 65535,
        direction: consts::TO_GUEST as u8,
        ..syn
    };
    assert_eq!(
        uc_core::COMPILED.translate(&mut flow, &answer, 2).0,
        Reason::TRANSLATED
    );
    flow
}

/// The guest sends a piece and the peer acknowledges it, with or without ECE.
fn carry(flow: &mut Flow, now_ns: u64, ece: bool) {
    let data = Segment {
        seq: flow.snd_nxt,
        payload_bytes: PIECE_BYTES,
        wire_payload_bytes: 1448,
        ack: 1000,
        window: 65535,
        flags: consts::ACK as u8,
        direction: consts::FROM_GUEST as u8,
        ..Segment::default()
    };
    uc_core::COMPILED.translate(flow, &data, now_ns);
    let ack = Segment {
        seq: 1000,
        ack: flow.snd_nxt,
        window: 65535,
        flags: (consts::ACK | if ece { consts::ECE } else { 0 }) as u8,
        direction: consts::TO_GUEST as u8,
        ..Segment::default()
    };
    uc_core::COMPILED.translate(flow, &ack, now_ns + 1000);
}

#[test]
fn a_mark_after_gigabytes_without_one_still_cuts() {
    for profile in [consts::PROFILE_LINUX, consts::PROFILE_RFC] {
        for gibibytes in 1..=5u64 {
            let mut flow = flow(profile);
            let pieces = (gibibytes << 30) / u64::from(PIECE_BYTES);
            for piece in 0..pieces {
                carry(&mut flow, 10_000 * (piece + 1), false);
            }
            let before = uc_core::COMPILED.window_bytes(&flow);
            carry(&mut flow, 10_000 * (pieces + 1), true);
            assert_eq!(flow.cuts, 1, "profile {profile}, {gibibytes} GiB");
            assert!(uc_core::COMPILED.window_bytes(&flow) <= before);
        }
    }
}

#[test]
fn a_runt_of_gigabytes_ago_is_not_in_flight() {
    let mut flow = flow(consts::PROFILE_LINUX);
    for piece in 0..(3u64 << 30) / u64::from(PIECE_BYTES) {
        carry(&mut flow, 10_000 * (piece + 1), false);
        let ahead = flow.runt_seq.wrapping_sub(flow.snd_una) as i32;
        assert!(ahead <= 0, "after piece {piece}");
    }
}
