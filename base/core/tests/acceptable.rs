//! Invariant "out-of-window segments": an attacker off the path, who has to guess sequence and ACK
//! numbers, changes nothing in a flow.

use std::cell::Cell;

use crate::ends::{FROM_GUEST, ISS, Port, answer, segment, syn, with};
use crate::flows::forge::{Ends, KINDS, Noise, victims};
use crate::flows::{Home, TO_GUEST, case_count, flag, for_all, walk};
use crate::guest::{Guest, IRS, MSS};
use proptest::test_runner::TestCaseError;
use proptest::{prop_assert, prop_assert_eq};
use uc_core::{Flow, Reason, Segment, consts};

const FORGED_BEHIND_EACH: u8 = 7;

struct Attack {
    ends: Ends,
    noise: Noise,
    /// Forged segments by kind; the last: into a handshake.
    sent: [u64; KINDS as usize + 1],
}

impl Attack {
    /// Sends forged segments into the flow as it is now. Every one must leave it as it was.
    fn strike(&mut self, home: &mut Home, now_ns: u64) -> Result<(), TestCaseError> {
        let Some(flow) = home.flow().copied() else {
            return Ok(());
        };
        for turn in 0..FORGED_BEHIND_EACH {
            let Some((kind, segment)) = self.ends.strike(&flow, turn, &mut self.noise) else {
                continue;
            };
            self.sent[kind] += 1;
            let passed = home.pass(&segment, now_ns + 1_000);
            let after = passed.after.as_ref();
            prop_assert_eq!(after, Some(&flow), "{:?} by {:?}", segment, self.ends);
            prop_assert!(!passed.reason.drops(), "{:?}", segment);
            if kind < usize::from(KINDS) && u32::from(flow.policy.modes) & consts::MODE_OBSERVE == 0
            {
                let edit = passed.edit;
                prop_assert_eq!(edit.flags & (flag::ECE | flag::CWR), 0);
                prop_assert_eq!(u32::from(edit.ecn), consts::NOT_ECT);
            }
        }
        Ok(())
    }
}

#[test]
fn segment_that_its_receiver_discards_changes_no_field_of_the_flow() {
    let total = Cell::new([0u64; KINDS as usize + 1]);
    for_all(case_count(600), &victims(), |(plan, noise)| {
        let mut home = Home::sharing(plan.setup.policy(), plan.setup.share);
        let mut attack = Attack {
            ends: Ends::new(&plan),
            noise: Noise(noise | 1),
            sent: [0; KINDS as usize + 1],
        };
        let mut failed = Ok(());
        walk(&plan, &mut |segment, now_ns| {
            let passed = home.pass(segment, now_ns);
            if !passed.reason.drops() {
                attack.ends.note(segment, passed.edit.window);
            }
            if failed.is_ok() {
                failed = attack.strike(&mut home, now_ns);
            }
            passed
        });
        let mut sum = total.get();
        for (all, sent) in sum.iter_mut().zip(attack.sent) {
            *all += sent;
        }
        total.set(sum);
        failed
    });
    let sum: u64 = total.get().iter().sum();
    println!("{sum} segments, by kind {:?}", total.get());
    assert!(
        total.get().iter().all(|&kind| kind > sum / 1_000),
        "{total:?}"
    );
}

fn to_guest(flags: u8, seq: u32, ack: u32) -> Segment {
    Segment {
        seq,
        ack,
        flags,
        window: 60_000,
        direction: TO_GUEST,
        ..Segment::default()
    }
}

fn data(seq: u32, ack: u32, ecn: u32) -> Segment {
    Segment {
        payload_bytes: 100,
        wire_payload_bytes: 100,
        ecn: ecn as u8,
        ..to_guest(flag::ACK, seq, ack)
    }
}

fn connected() -> Guest {
    let policy = uc_core::Policy::new(consts::LAW_DCTCP, consts::PROFILE_LINUX);
    let mut guest = Guest::under(policy, false);
    guest.send(2);
    guest
}

#[test]
fn reset_ends_the_connection_with_the_expected_number_only() {
    for (offset, ends) in [
        (0u32, true),
        (1, false),
        (99, false),
        (100, true),
        (101, false),
    ] {
        let mut guest = connected();
        // data that the guest has not acknowledged: it expects what follows them
        guest.pass(&data(IRS + 1, guest.una, consts::ECT0));
        guest.pass(&to_guest(flag::RST, IRS + 1 + offset, 0));
        assert_eq!(uc_core::is_closed(&guest.flow), ends, "{offset}");
    }
}

/// Returns whether the guest's next ACK echoes a mark.
fn echoes(guest: &mut Guest, ack: u32) -> bool {
    let mut segment = guest.data(guest.nxt);
    (segment.payload_bytes, segment.wire_payload_bytes) = (0, 0);
    segment.ack = ack;
    guest.pass(&segment).flags & flag::ECE != 0
}

#[test]
fn marks_of_reordered_and_repeated_data_inside_the_window_are_echoed() {
    let mut guest = connected();
    guest.pass(&data(IRS + 101, guest.una, consts::CE));
    assert!(echoes(&mut guest, IRS + 1), "behind a gap");
    let mut guest = connected();
    guest.pass(&data(IRS + 101, guest.una, consts::ECT0));
    guest.pass(&data(IRS + 1, guest.una, consts::CE));
    assert!(echoes(&mut guest, IRS + 201), "before what came first");
    let mut guest = connected();
    // an ACK that another has overtaken, with data
    guest.ack(1);
    guest.pass(&data(IRS + 1, guest.una.wrapping_sub(MSS), consts::CE));
    assert!(echoes(&mut guest, IRS + 101), "with an old ACK number");
}

#[test]
fn keepalive_changes_nothing_and_its_answer_keeps_the_flow() {
    let mut guest = connected();
    guest.ack(2);
    guest.wait_ms(7_000_000);
    let before = guest.flow;
    guest.pass(&to_guest(flag::ACK, IRS, guest.una));
    assert_eq!(guest.flow, before);
    echoes(&mut guest, IRS + 1);
    assert_eq!(guest.flow.seen_ns, guest.now_ns);
}

#[test]
fn data_in_a_window_that_the_guest_enlarged_after_its_handshake_is_acceptable() {
    let scaled = |segment| Segment {
        wscale: 7,
        ..with(segment, consts::OPT_WSCALE)
    };
    let policy = uc_core::Policy::new(consts::LAW_DCTCP, consts::PROFILE_LINUX);
    let mut port = Port::new(policy);
    port.pass(&scaled(syn(FROM_GUEST, ISS)));
    port.pass(&scaled(answer(TO_GUEST, IRS, ISS)));
    let far = data(IRS + 1 + (1 << 20), ISS + 1, consts::CE);
    port.pass(&far);
    assert_eq!(port.flow().unwrap().marks, 0, "1 MiB into 64 KiB");
    for _ in 0..7 {
        port.pass(&segment(FROM_GUEST, flag::ACK, ISS + 1, IRS + 1));
    }
    port.pass(&far);
    assert_eq!(port.flow().unwrap().marks, 1, "1 MiB into 7.3 MiB");
}

#[test]
fn ack_of_one_byte_beyond_data_that_ignores_every_window_leaves_no_trace() {
    let mut guest = connected();
    guest.send(100);
    let before: Flow = guest.flow;
    guest.pass(&to_guest(flag::ACK, IRS + 1, guest.nxt.wrapping_add(1)));
    assert_eq!(guest.flow, before);
}

#[test]
fn guest_that_acknowledges_what_was_never_sent_is_not_rid_of_marks() {
    let mut guest = connected();
    // a DCTCP sender, which gets the exact echo
    guest.pass(&Segment {
        ecn: consts::ECT0 as u8,
        ..to_guest(flag::ACK, IRS + 1, guest.una)
    });
    let (mut ends, lie) = (IRS + 1, 1 << 29);
    for round in 0..20u32 {
        echoes(&mut guest, ends.wrapping_add(lie));
        guest.pass(&data(ends, guest.una, consts::CE));
        ends += 100;
        let marked = guest.flow.marks;
        assert_eq!(marked, round + 1);
        assert!(echoes(&mut guest, ends), "{round}");
    }
}

#[test]
fn port_that_has_missed_data_of_the_peer_goes_on_with_its_marks() {
    for missed in [70_000u32, 1 << 20, 1 << 30] {
        let mut guest = connected();
        guest.pass(&data(IRS + 1, guest.una, consts::ECT0));
        let nxt = (IRS + 101).wrapping_add(missed);
        for segment in 0..50u32 {
            // the guest's ACK says how far it is
            echoes(&mut guest, nxt.wrapping_add(100 * segment));
            guest.pass(&data(
                nxt.wrapping_add(100 * segment),
                guest.una,
                consts::CE,
            ));
        }
        assert_eq!(guest.flow.marks, 50, "{missed}");
    }
}

#[test]
fn forged_segments_of_an_established_flow_leave_no_trace() {
    let mut guest = connected();
    guest.ack(1);
    let una = guest.una;
    let before: Flow = guest.flow;
    guest.wait_ms(1);
    for far in [1u32 << 20, 1 << 29, 1 << 30, 3 << 30] {
        let (seq, ack) = ((IRS + 1).wrapping_add(far), una.wrapping_add(far));
        for forged in [
            data(seq, una, consts::CE),
            data(IRS + 1, ack, consts::CE),
            Segment {
                flags: flag::ACK | flag::CWR,
                ..data(seq, una, consts::ECT0)
            },
            Segment {
                ecn: consts::ECT0 as u8,
                ..to_guest(flag::ACK, seq, una)
            },
            to_guest(flag::RST, seq, 0),
            to_guest(flag::ACK | flag::FIN, seq, una),
            to_guest(flag::ACK | flag::ECE, seq, una),
        ] {
            let (reason, _) = uc_core::COMPILED.translate(&mut guest.flow, &forged, guest.now_ns);
            assert_eq!(reason, Reason::TRANSLATED);
            assert_eq!(guest.flow, before, "{forged:?}");
        }
    }
}
