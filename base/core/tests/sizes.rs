//! The law's unit is the guest's segment, and the guest says how large that is: a lie about it must
//! gain nothing.

use crate::flows::law::laws;
use crate::flows::{FROM_GUEST, Home, TO_GUEST, flag, for_all};
use crate::guest::{Guest, MSS};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::{prop_assert, prop_assert_eq};
use uc_core::{Policy, Segment, consts};

fn guarded(law: u32, profile: u32) -> Policy {
    Policy {
        guard_segments: 1,
        ..Policy::new(law, profile)
    }
}

/// Sends `bytes` in one frame whose segments on the wire have `wire` bytes, as the frame says.
fn claim(guest: &mut Guest, bytes: u32, wire: u16) {
    let claimed = Segment {
        payload_bytes: bytes,
        wire_payload_bytes: wire,
        ..guest.data(guest.nxt)
    };
    guest.pass(&claimed);
}

#[test]
fn frame_of_a_whole_window_leaves_the_window_of_a_marked_flow_at_two_segments() {
    for profile in [consts::PROFILE_LINUX, consts::PROFILE_RFC] {
        for wire in [10_000u16, 9_999] {
            let mut guest = Guest::under(guarded(consts::LAW_ECN, profile), true);
            claim(&mut guest, 10_000, wire);
            guest.send(10);
            assert_eq!(u32::from(guest.flow.mss_bytes), MSS, "{wire}");
            for _ in 0..12 {
                let flight = guest.flight();
                guest.ack_ece(flight);
                let room = guest.window() / MSS;
                guest.send(room);
            }
            assert!(guest.window() <= 2 * MSS, "{} of {wire}", guest.window());
        }
    }
}

#[test]
fn window_gathered_in_small_segments_is_no_larger_in_large_ones_under_a_guard() {
    let small = 50;
    let mut guest = Guest::under(guarded(consts::LAW_ECN, consts::PROFILE_LINUX), true);
    let mut grown = 0;
    for _ in 0..8 {
        // a super-segment shows its size for certain
        let segments = (guest.window() / small).clamp(2, 190);
        claim(&mut guest, segments * small, small as u16);
        guest.nxt = guest.nxt.wrapping_add(segments * small);
        guest.ack_bytes(segments * small);
        grown = guest.window();
    }
    assert_eq!(u32::from(guest.flow.mss_bytes), small);
    guest.send(1);
    assert_eq!(u32::from(guest.flow.mss_bytes), MSS);
    assert!(guest.window() <= grown, "{} after {grown}", guest.window());
}

#[test]
fn guest_on_a_path_of_smaller_segments_is_not_taken_for_one_without_nagles_rule() {
    let path = MSS - 100;
    for profile in [consts::PROFILE_LINUX, consts::PROFILE_RFC] {
        let mut guest = Guest::under(Policy::new(consts::LAW_ECN, profile), true);
        let send = |guest: &mut Guest, bytes: u32| {
            claim(guest, bytes, bytes as u16);
            guest.nxt = guest.nxt.wrapping_add(bytes);
        };
        for nth in 0..10 {
            send(&mut guest, path);
            assert!(nth < 8 || u32::from(guest.flow.mss_bytes) == path);
        }
        let taught = consts::FLOW_NODELAY | consts::FLOW_RUNTS;
        assert_eq!(guest.flow.bits & taught, 0, "{:?}", guest.flow);
        // two segments below the new size at once are a guest's without the rule
        send(&mut guest, path / 2);
        send(&mut guest, path / 3);
        assert_ne!(guest.flow.bits & consts::FLOW_NODELAY, 0);
    }
}

#[test]
fn unit_never_exceeds_what_both_ends_have_agreed_on() {
    let sizes = vec((any::<u16>(), 0u32..70_000, any::<bool>()), 1..60);
    let ends = (laws(), any::<bool>(), 48u16..3_000, 48u16..3_000);
    for_all(
        2_000,
        &(ends, sizes),
        |((law, linux, guest, peer), sizes)| {
            let mut home = Home::new(law.policy(linux));
            let offer = |mss_bytes, direction| Segment {
                window: 65_535,
                mss_bytes,
                options: consts::OPT_MSS as u8,
                direction,
                ..Segment::default()
            };
            let syn = offer(guest, FROM_GUEST);
            home.pass(
                &Segment {
                    flags: flag::SYN,
                    ..syn
                },
                1_000_000,
            );
            let answer = Segment {
                ack: 1,
                flags: flag::SYN | flag::ACK | flag::ECE,
                ..offer(peer, TO_GUEST)
            };
            home.pass(&answer, 2_000_000);
            let (mut nxt, mut now_ns) = (1u32, 2_000_000);
            for (wire, payload_bytes, push) in sizes {
                now_ns += 10_000;
                let data = Segment {
                    seq: nxt,
                    ack: 1,
                    payload_bytes,
                    wire_payload_bytes: wire.min(payload_bytes as u16),
                    flags: flag::ACK | if push { flag::PSH } else { 0 },
                    direction: FROM_GUEST,
                    ..Segment::default()
                };
                home.pass(&data, now_ns);
                nxt += payload_bytes;
                let flow = home.flow().expect("a flow");
                prop_assert!(flow.mss_bytes <= guest.min(peer), "{:?}", flow);
                prop_assert_eq!(flow.mss_agreed_bytes, guest.min(peer));
                let ack = Segment {
                    seq: 1,
                    ack: nxt,
                    flags: flag::ACK,
                    ..offer(0, TO_GUEST)
                };
                home.pass(&ack, now_ns + 1_000);
            }
            Ok(())
        },
    );
}
