//! Which ACKs of a flow with SACK are duplicates: those that report data behind a hole for the first
//! time (RFC 6675 §2), whatever window and whatever data they carry.

use crate::guest::{Guest, MSS};
use uc_core::{Policy, Segment, consts};

const PROFILES: [u32; 2] = [consts::PROFILE_LINUX, consts::PROFILE_RFC];
const LAWS: [u32; 3] = [consts::LAW_ECN, consts::LAW_DCTCP, consts::LAW_DELAY];

/// A guest with SACK that has ten segments in flight, of which the first was lost.
fn in_flight(law: u32, profile: u32) -> Guest {
    let mut guest = Guest::under(Policy::new(law, profile), true);
    guest.send(10);
    guest
}

/// What a receiver does with each of the segments behind the hole.
type Answers = fn(&mut Guest, u16) -> Segment;

fn same_window(guest: &mut Guest, _: u16) -> Segment {
    guest.answer(true)
}

fn growing_window(guest: &mut Guest, nth: u16) -> Segment {
    Segment {
        window: 30_000 + 1_000 * nth,
        ..guest.answer(true)
    }
}

fn data(guest: &mut Guest, nth: u16) -> Segment {
    let answer = guest.answer(true);
    Segment {
        seq: answer.seq + u32::from(nth) * MSS,
        payload_bytes: MSS,
        wire_payload_bytes: MSS as u16,
        ..answer
    }
}

#[test]
fn a_loss_halves_the_window_whatever_its_duplicates_carry() {
    for law in LAWS {
        for profile in PROFILES {
            let mut after = Vec::new();
            for answers in [same_window as Answers, growing_window, data] {
                let mut guest = in_flight(law, profile);
                let before = guest.window();
                for nth in 0..9 {
                    let answer = answers(&mut guest, nth);
                    guest.pass(&answer);
                    if nth == 2 {
                        guest.retransmit();
                        assert_eq!(guest.ca(), consts::CA_RECOVERY, "{law} {profile}");
                    }
                }
                guest.ack(10);
                assert_eq!((guest.ca(), guest.losses()), (consts::CA_OPEN, 1));
                assert!(
                    guest.window() * 4 <= before * 3,
                    "{} of {before}",
                    guest.window()
                );
                after.push(guest.window());
            }
            assert_eq!(after, [after[0]; 3], "{law} {profile}");
        }
    }
}

#[test]
fn a_report_that_is_repeated_is_no_duplicate() {
    // two-way data behind one hole: three segments of the peer, one report
    let mut guest = in_flight(consts::LAW_ECN, consts::PROFILE_RFC);
    let first = guest.answer(true);
    let window = guest.window();
    for nth in 0..5 {
        guest.pass(&Segment {
            seq: first.seq + nth * MSS,
            payload_bytes: MSS,
            wire_payload_bytes: MSS as u16,
            window: first.window - nth as u16,
            ..first
        });
    }
    assert_eq!(u32::from(guest.flow.dup_acks), 1);
    assert_eq!((guest.ca(), guest.window()), (consts::CA_OPEN, window));
}

#[test]
fn an_ack_of_the_same_number_without_a_report_is_no_duplicate() {
    // a window that opens, a probe's answer, a D-SACK
    let mut guest = in_flight(consts::LAW_ECN, consts::PROFILE_LINUX);
    for _ in 0..3 {
        let update = guest.answer(false);
        guest.pass(&update);
    }
    assert_eq!(u32::from(guest.flow.dup_acks), 0);
    guest.wait_ms(300);
    guest.retransmit();
    assert_eq!(guest.ca(), consts::CA_LOSS, "the timer fired");
    guest.ack(2);
    assert_eq!(
        (guest.ca(), guest.window()),
        (consts::CA_OPEN, 12 * MSS),
        "spurious"
    );
}

#[test]
fn an_ack_of_new_data_may_report_the_next_hole() {
    // the duplicates were lost, or merged into the ACK of new data
    for law in LAWS {
        for profile in PROFILES {
            let mut guest = in_flight(law, profile);
            guest.una += MSS;
            let answer = guest.answer(true);
            guest.pass(&answer);
            assert_eq!(u32::from(guest.flow.dup_acks), 0);
            guest.retransmit();
            assert_ne!(guest.ca(), consts::CA_LOSS, "{law} {profile}");
        }
    }
}

#[test]
fn a_timeout_after_a_repeated_number_is_not_taken_back_without_sack() {
    // its window grew: it is no duplicate by RFC 5681, but a guest may count it
    let mut guest = Guest::connected(consts::PROFILE_LINUX as u8, 10, false);
    guest.send(10);
    let answer = guest.answer(true);
    guest.pass(&Segment {
        window: 9_000,
        ..answer
    });
    guest.retransmit();
    guest.ack(1);
    guest.ack(1);
    assert_eq!((guest.ca(), guest.ssthresh()), (consts::CA_LOSS, 5));
}

/// Returns the mark of an ACK with these blocks; 0: none.
fn mark(ack: u32, blocks: &[(u32, u32)]) -> u16 {
    let mut segment = Segment {
        ack,
        ..Segment::default()
    };
    uc_core::set_sack(&mut segment, blocks);
    let has = u32::from(segment.options) & consts::OPT_SACK != 0;
    assert_eq!(has, segment.mss_bytes != 0);
    segment.mss_bytes
}

#[test]
fn marks_of_a_first_block_that_grows_by_a_segment_differ() {
    for left in [2_000u32, 77_777, u32::MAX - 100_000] {
        let grown = |segments: u32| (left, left.wrapping_add(1_448 * segments));
        let marks: Vec<u16> = (1..=1_000)
            .map(|segments| mark(left.wrapping_sub(1_448), &[grown(segments)]))
            .collect();
        assert!(marks.windows(2).all(|pair| pair[0] != pair[1]), "{left}");
    }
}

#[test]
fn a_mark_names_the_first_block_unless_that_is_a_d_sack() {
    assert_eq!(mark(1_000, &[]), 0);
    let first = mark(1_000, &[(2_000, 3_000)]);
    assert_ne!(first, 0);
    assert_eq!(mark(1_000, &[(2_000, 3_000), (5_000, 6_000)]), first);
    assert_ne!(mark(1_000, &[(2_000, 4_000)]), first, "one segment more");
    assert_ne!(mark(1_000, &[(5_000, 6_000), (2_000, 3_000)]), first);
    // RFC 2883 §4: below the ACK number, or inside the second block
    assert_eq!(mark(4_000, &[(2_000, 3_000)]), 0);
    let second = mark(4_000, &[(5_000, 6_000)]);
    assert_eq!(mark(4_000, &[(2_000, 4_000), (5_000, 6_000)]), second);
    let second = mark(1_000, &[(2_000, 5_000)]);
    assert_eq!(mark(1_000, &[(2_000, 3_000), (2_000, 5_000)]), second);
    // numbers wrap
    assert_ne!(mark(u32::MAX - 10, &[(5, 500)]), 0);
    assert_eq!(mark(500, &[(u32::MAX - 10, 5)]), 0);
}
