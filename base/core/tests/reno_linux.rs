//! The NewReno shadow, profile `linux`, step by step against numbers worked out by hand. Windows in
//! segments.

use crate::guest::{Guest, MSS};
use uc_core::{DelayParameters, Policy, consts};

/// While the guest repairs a loss the shadow throttles nothing.
const UNLIMITED: u32 = 0x7fff_ffff;

fn linux(initial_window_segments: u8) -> Guest {
    Guest::connected(consts::PROFILE_LINUX as u8, initial_window_segments, false)
}

fn linux_sack(initial_window_segments: u8) -> Guest {
    Guest::connected(consts::PROFILE_LINUX as u8, initial_window_segments, true)
}

/// The guest answers an ACK of one segment with all that the window now allows.
fn ack_and_fill(guest: &mut Guest, ece: bool) -> u32 {
    if ece {
        guest.ack_ece(1);
    } else {
        guest.ack(1);
    }
    let window = guest.window() / MSS;
    guest.send(window.saturating_sub(guest.flight()));
    window
}

#[test]
fn ece_walks_the_window_from_ten_down_to_five_by_proportional_rate_reduction() {
    // RFC 6937 §3 with RecoverFS = 10, ssthresh = 5: one segment goes out for every two that are
    // delivered. n-th ACK: may send ⌈5n/10⌉ − sent so far; window = flight + that.
    let mut guest = linux(10);
    guest.send(10);
    let mut windows = vec![ack_and_fill(&mut guest, true)];
    assert_eq!((guest.ssthresh(), guest.ca()), (5, consts::CA_CWR));
    for _ in 0..8 {
        windows.push(ack_and_fill(&mut guest, false));
    }
    // flight after each ACK:       9   9  8  8  7  7  6  6  5
    // ⌈n/2⌉ − sent so far:         1   0  1  0  1  0  1  0  –
    assert_eq!(windows, [10, 9, 9, 8, 8, 7, 7, 6, 5]);
    // at ssthresh the slow-start reduction bound keeps it: flight 4 + 1
    assert_eq!(ack_and_fill(&mut guest, false), 5);
    assert_eq!(
        guest.ca(),
        consts::CA_CWR,
        "all sent before the cut is acknowledged, no more"
    );
    assert_eq!(ack_and_fill(&mut guest, false), 5);
    assert_eq!(guest.ca(), consts::CA_OPEN);
}

#[test]
fn a_reduction_lasts_until_something_sent_after_it_is_acknowledged() {
    // the peer goes on with ECE until it has seen CWR (RFC 3168 §6.1.3): that is not a new mark
    let mut guest = linux(10);
    guest.send(10);
    for _ in 0..10 {
        ack_and_fill(&mut guest, true);
        assert_eq!((guest.ca(), guest.cuts()), (consts::CA_CWR, 1));
    }
    ack_and_fill(&mut guest, false);
    assert_eq!((guest.ca(), guest.cuts()), (consts::CA_OPEN, 1));
    ack_and_fill(&mut guest, true);
    assert_eq!((guest.ca(), guest.cuts()), (consts::CA_CWR, 2));
}

#[test]
fn the_first_segment_of_a_reduction_carries_cwr_and_the_second_does_not() {
    // RFC 3168 §6.1.2
    let cwr = |edit: uc_core::Edit| u32::from(edit.flags) & consts::CWR != 0;
    let mut guest = linux(10);
    guest.send(10);
    guest.ack_ece(1);
    assert!(!cwr(guest.retransmit()), "not on a retransmission");
    let mut guest = linux(10);
    guest.send(10);
    guest.ack_ece(1);
    assert!(cwr(guest.send(1)));
    guest.ack(2);
    assert!(!cwr(guest.send(1)));
}

#[test]
fn a_window_that_the_guest_did_not_fill_does_not_grow() {
    let mut guest = linux(10);
    // 4 of 10: in slow start Linux grows while cwnd < 2 × the most in flight, 8 here
    for _ in 0..5 {
        guest.send(4);
        guest.ack(4);
        assert_eq!(guest.window(), 10 * MSS);
    }
}

#[test]
fn a_window_at_the_threshold_that_the_guest_did_not_fill_does_not_grow() {
    let mut guest = linux(10);
    guest.send(10);
    guest.ack_ece(1);
    guest.ack(9);
    // 3 of 5 each time: enough in slow start, which ends at ssthresh
    for _ in 0..5 {
        guest.send(3);
        guest.ack(3);
        assert_eq!((guest.window(), guest.ssthresh()), (5 * MSS, 5));
    }
}

#[test]
fn slow_start_adds_every_segment_acknowledged_while_the_window_limits() {
    // RFC 3465 with no limit, as Linux counts
    let mut guest = linux(10);
    guest.send(10);
    guest.ack(4);
    assert_eq!(guest.window(), 14 * MSS);
    guest.send(8);
    guest.ack(14);
    assert_eq!(guest.window(), 28 * MSS);
}

#[test]
fn congestion_avoidance_adds_one_segment_for_each_window_acknowledged() {
    let mut guest = linux(10);
    guest.send(10);
    while guest.ca() == consts::CA_OPEN && guest.cuts() == 0 {
        ack_and_fill(&mut guest, true);
    }
    while guest.ca() != consts::CA_OPEN {
        ack_and_fill(&mut guest, false);
    }
    // the ACK that ended the reduction counted already: four more make the five
    let windows: Vec<u32> = (0..10).map(|_| ack_and_fill(&mut guest, false)).collect();
    assert_eq!(windows, [5, 5, 5, 6, 6, 6, 6, 6, 6, 7]);
}

#[test]
fn no_reduction_on_ece_goes_below_two_segments() {
    let mut guest = linux(3);
    guest.send(3);
    guest.ack_ece(1);
    assert_eq!(guest.ssthresh(), 2);
}

#[test]
fn three_duplicates_and_a_retransmission_are_a_fast_retransmit() {
    let mut guest = linux(10);
    guest.send(10);
    guest.duplicate(3);
    assert_eq!(guest.window(), 10 * MSS, "the guest decides, not the count");
    guest.retransmit();
    assert_eq!((guest.ca(), guest.ssthresh()), (consts::CA_RECOVERY, 5));
    assert_eq!(guest.window(), UNLIMITED);
    guest.ack(10);
    assert_eq!((guest.ca(), guest.window()), (consts::CA_OPEN, 5 * MSS));
}

/// Returns the losses that the port counts if the first segment of ten comes after this many duplicate
/// ACKs.
fn losses_of_a_segment_that_comes_late(policy: Policy, duplicates: u32) -> u32 {
    let mut guest = Guest::under(policy, false);
    guest.nxt = guest.nxt.wrapping_add(MSS);
    guest.send(9);
    guest.duplicate(duplicates);
    guest.retransmit();
    guest.losses()
}

#[test]
fn segment_that_comes_after_three_duplicates_was_lost_before_the_port() {
    let linux = |law| Policy::new(law, consts::PROFILE_LINUX);
    let delay = linux(consts::LAW_DELAY).with_delay(DelayParameters {
        target_us: 1_000,
        range_us: 0,
    });
    for policy in [linux(consts::LAW_ECN), delay] {
        assert_eq!(losses_of_a_segment_that_comes_late(policy, 3), 1);
        assert_eq!(losses_of_a_segment_that_comes_late(policy, 2), 0);
    }
}

#[test]
fn a_sack_guest_may_retransmit_after_one_duplicate() {
    // RFC 8985: RACK needs no three
    let mut guest = linux_sack(10);
    guest.send(10);
    guest.duplicate(1);
    guest.retransmit();
    assert_eq!((guest.ca(), guest.losses()), (consts::CA_RECOVERY, 1));
}

#[test]
fn a_retransmission_out_of_silence_is_a_timeout() {
    let mut guest = linux(10);
    guest.send(10);
    guest.retransmit();
    assert_eq!((guest.ca(), guest.ssthresh()), (consts::CA_LOSS, 5));
    assert_eq!(
        guest.window(),
        UNLIMITED,
        "the guest's own slow start governs"
    );
    assert_eq!(guest.flow.reno.cwnd, 1);
    guest.retransmit();
    assert_eq!(
        guest.ssthresh(),
        5,
        "a second timeout of the same data keeps it"
    );
    // slow start from 1: four of the ten reach ssthresh 5, a window of the other six adds one
    guest.ack(10);
    assert_eq!((guest.ca(), guest.window()), (consts::CA_OPEN, 6 * MSS));
}

#[test]
fn a_tail_loss_probe_is_not_a_timeout_but_a_second_one_is() {
    // RFC 8985 §7
    let mut guest = linux_sack(10);
    guest.send(4);
    guest.probe_tail();
    assert_eq!((guest.ca(), guest.losses()), (consts::CA_OPEN, 0));
    guest.ack(3);
    guest.probe_tail(); // alone in flight: repeats una itself
    assert_eq!((guest.ca(), guest.losses()), (consts::CA_OPEN, 0));
    guest.probe_tail();
    assert_eq!((guest.ca(), guest.losses()), (consts::CA_LOSS, 1));
}

#[test]
fn a_loss_during_a_reduction_on_ece_does_not_reduce_again() {
    let mut guest = linux(20);
    guest.send(20);
    guest.ack_ece(1);
    assert_eq!(guest.ssthresh(), 10);
    guest.duplicate(3);
    guest.retransmit();
    assert_eq!((guest.ca(), guest.ssthresh()), (consts::CA_RECOVERY, 10));
    guest.ack(19);
    assert_eq!((guest.ca(), guest.window()), (consts::CA_OPEN, 10 * MSS));
}

#[test]
fn an_idle_guest_loses_half_for_each_timeout_that_passed_but_keeps_the_initial_window() {
    // RFC 2861 §3 as Linux does it, RTO 200 ms: 28 → 14 → 10 (the restart window)
    let mut guest = linux(10);
    guest.send(10);
    guest.ack(4);
    guest.send(8);
    guest.ack(14);
    assert_eq!(guest.window(), 28 * MSS);
    guest.wait_ms(250);
    guest.send(1);
    assert_eq!(guest.window(), 14 * MSS);
    guest.ack(1);
    guest.wait_ms(450);
    guest.send(1);
    assert_eq!(guest.window(), 10 * MSS);
}

/// Returns a guest in congestion avoidance with a window of eight segments, of which five are in
/// flight and three were just acknowledged.
fn with_room_for_three() -> Guest {
    let mut guest = linux(16);
    guest.send(16);
    ack_and_fill(&mut guest, true);
    while guest.ca() != consts::CA_OPEN {
        ack_and_fill(&mut guest, false);
    }
    assert_eq!((guest.window(), guest.flight()), (8 * MSS, 8));
    assert_eq!(room_after(&mut guest, 3), 3);
    guest
}

/// Acknowledges some segments, and returns for how many new ones the window has room.
fn room_after(guest: &mut Guest, segments: u32) -> u32 {
    u32::from(guest.ack(segments).window) / MSS - guest.flight()
}

/// Sends segments; the last one has PSH.
fn send_piece(guest: &mut Guest, segments: u32) {
    guest.send(segments - 1);
    let mut last = guest.data(guest.nxt);
    last.flags |= consts::PSH as u8;
    guest.pass(&last);
    guest.nxt = guest.nxt.wrapping_add(MSS);
}

#[test]
fn a_guest_that_sends_three_segments_in_one_piece_gets_one_less_of_an_odd_room() {
    // window.h: PSH at the end of the piece shows it, since a window in bytes is used up
    let mut guest = with_room_for_three();
    send_piece(&mut guest, 3);
    assert_eq!(room_after(&mut guest, 4), 4);
}

#[test]
fn a_guest_that_sends_pairs_or_single_segments_gets_all_of_an_odd_room() {
    for pieces in [&[1, 2][..], &[2, 1], &[1, 1, 1]] {
        let mut guest = with_room_for_three();
        for &segments in pieces {
            send_piece(&mut guest, segments);
        }
        assert_eq!(room_after(&mut guest, 4), 5, "{pieces:?}");
    }
    let mut guest = with_room_for_three();
    guest.send(3);
    assert_eq!(room_after(&mut guest, 4), 5, "no PSH");
}
