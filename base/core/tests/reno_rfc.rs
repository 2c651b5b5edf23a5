//! The NewReno shadow, profile `rfc`, step by step against numbers worked out by hand. Segments of
//! 1,000 bytes; windows in bytes.

use crate::ends::{self, FROM_GUEST, IRS, ISS, Port, TO_GUEST};
use crate::guest::{Guest, MSS};
use uc_core::{COMPILED, Policy, consts};

/// A guest of the profile `rfc` with an initial window of this many segments.
fn rfc(initial_window_segments: u8) -> Guest {
    Guest::connected(consts::PROFILE_RFC as u8, initial_window_segments, false)
}

/// In congestion avoidance with ten segments of window, all of them in flight: an ECN cut from
/// twenty does it.
fn avoiding_congestion_at_ten() -> Guest {
    let mut guest = rfc(20);
    guest.send(20);
    guest.ack_ece(1);
    assert_eq!(guest.window(), 10 * MSS);
    guest.ack(19);
    guest.send(1);
    guest.ack(1);
    // twenty segments acknowledged: 10 of them a window, the eleventh segment; 10 left of 11
    assert_eq!(guest.window(), 11 * MSS);
    guest.send(1);
    guest.ack(1);
    assert_eq!(guest.window(), 12 * MSS);
    guest
}

#[test]
fn slow_start_adds_the_bytes_acknowledged_up_to_one_segment_for_each_ack() {
    // RFC 5681 §3.1 equation (2): cwnd += min(N, SMSS)
    let mut guest = rfc(2);
    guest.send(2);
    guest.ack(1);
    assert_eq!(guest.window(), 3 * MSS);
    guest.ack_bytes(400);
    assert_eq!(guest.window(), 3 * MSS + 400);
    guest.ack_bytes(600);
    assert_eq!(guest.window(), 4 * MSS);
    guest.send(4);
    guest.ack(4);
    assert_eq!(
        guest.window(),
        5 * MSS,
        "one ACK of four segments is worth one"
    );
}

#[test]
fn flow_whose_syn_was_lost_begins_with_one_segment() {
    // RFC 5681 §3.1
    let mut port = Port::new(Policy::new(consts::LAW_ECN, consts::PROFILE_RFC));
    for _ in 0..2 {
        port.pass(&ends::syn(FROM_GUEST, ISS));
    }
    port.pass(&ends::answer(TO_GUEST, IRS, ISS));
    assert_eq!(COMPILED.window_bytes(port.flow().unwrap()), ends::MSS);
}

#[test]
fn congestion_avoidance_adds_a_segment_for_each_window_acknowledged() {
    // RFC 5681 §3.1: bytes are counted; when they reach cwnd, cwnd += SMSS
    let mut guest = rfc(8);
    guest.send(8);
    guest.ack_ece(1);
    assert_eq!(
        guest.window(),
        4 * MSS,
        "cwnd = ssthresh = 4: avoidance from here"
    );
    guest.ack(3);
    assert_eq!(guest.window(), 4 * MSS);
    guest.ack(1);
    assert_eq!(guest.window(), 5 * MSS, "four acknowledged");
    guest.ack(3);
    guest.send(1);
    guest.ack(1);
    assert_eq!(guest.window(), 5 * MSS);
    guest.send(1);
    guest.ack(1);
    assert_eq!(guest.window(), 6 * MSS, "five more");
}

#[test]
fn the_third_duplicate_ack_halves_the_flight_and_adds_three_segments() {
    // RFC 5681 §3.2 steps 2 and 3: ssthresh = max(FlightSize/2, 2·SMSS), cwnd = ssthresh + 3·SMSS
    let mut guest = rfc(10);
    guest.send(10);
    guest.duplicate(2);
    assert_eq!(guest.window(), 10 * MSS);
    guest.duplicate(1);
    assert_eq!(guest.ssthresh(), 5 * MSS);
    assert_eq!(guest.window(), 8 * MSS);
    assert_eq!(guest.losses(), 1);
}

#[test]
fn the_loss_of_the_very_first_segment_is_recovered_like_any_other() {
    // RFC 6582 §3.2 step 1 sets recover to the initial sequence number, which was the SYN's: no
    // data can be at or below it
    let mut guest = rfc(4);
    guest.send(4);
    guest.duplicate(3);
    assert_eq!(guest.ca(), consts::CA_RECOVERY);
    assert_eq!(guest.window(), 5 * MSS);
}

#[test]
fn each_further_duplicate_inflates_by_one_segment() {
    // RFC 5681 §3.2 step 4
    let mut guest = rfc(10);
    guest.send(10);
    guest.duplicate(3);
    guest.retransmit();
    guest.duplicate(4);
    assert_eq!(guest.window(), 12 * MSS);
}

#[test]
fn a_partial_ack_deflates_by_what_it_acknowledges_and_adds_one_segment_back() {
    // RFC 6582 §3.2 step 3, "partial acknowledgements"
    let mut guest = rfc(10);
    guest.send(10);
    guest.duplicate(9);
    assert_eq!(guest.window(), 14 * MSS);
    guest.ack(3);
    assert_eq!(guest.window(), 12 * MSS);
    assert_eq!(guest.ca(), consts::CA_RECOVERY);
    guest.ack_bytes(500);
    assert_eq!(
        guest.window(),
        12 * MSS - 500,
        "less than a segment: none is added back"
    );
}

#[test]
fn a_full_ack_leaves_recovery_with_what_is_in_flight_and_one_segment() {
    // RFC 6582 §3.2 step 3 option (1): cwnd = min(ssthresh, max(FlightSize, SMSS) + SMSS)
    let mut guest = rfc(10);
    guest.send(10);
    guest.duplicate(9);
    guest.send(4);
    guest.ack(10);
    assert_eq!(guest.ca(), consts::CA_OPEN);
    assert_eq!(guest.window(), 5 * MSS, "flight 4 + 1 = ssthresh 5");

    let mut guest = rfc(10);
    guest.send(10);
    guest.duplicate(3);
    guest.ack(10);
    assert_eq!(
        guest.window(),
        2 * MSS,
        "nothing in flight: one segment + one"
    );
}

#[test]
fn duplicates_of_the_last_recovery_do_not_begin_another() {
    // RFC 6582 §3.2 step 2: only if the ACK covers more than recover
    let mut guest = rfc(10);
    guest.send(10);
    guest.duplicate(3);
    guest.send(3);
    guest.ack(10);
    let window = guest.window();
    guest.duplicate(3);
    assert_eq!((guest.ca(), guest.window()), (consts::CA_OPEN, window));
    // only the timer is left to the guest, and the shadow knows its mark
    guest.retransmit();
    assert_eq!((guest.ca(), guest.window()), (consts::CA_LOSS, MSS));
}

#[test]
fn a_timeout_leaves_one_segment_and_half_the_flight_as_the_threshold() {
    // RFC 5681 §3.1 equation (4) and "the loss window"
    let mut guest = rfc(10);
    guest.send(10);
    guest.retransmit();
    assert_eq!(guest.ca(), consts::CA_LOSS);
    assert_eq!(guest.ssthresh(), 5 * MSS);
    assert_eq!(guest.window(), MSS);
    guest.ack(1);
    assert_eq!(guest.flow.reno.cwnd, 2 * MSS, "slow start again");
}

#[test]
fn a_second_timeout_of_the_same_segment_keeps_the_threshold() {
    // RFC 5681 §3.1: held constant if the segment was retransmitted by the timer before
    let mut guest = rfc(10);
    guest.send(10);
    guest.retransmit();
    guest.retransmit();
    assert_eq!(guest.ssthresh(), 5 * MSS);
    assert_eq!(guest.window(), MSS);
    assert_eq!(guest.losses(), 2);
    guest.ack(2);
    guest.retransmit(); // the next hole, in answer to the ACK
    assert_eq!(guest.window(), 2 * MSS);
    guest.retransmit(); // and its timer: 8 segments of flight
    assert_eq!((guest.ssthresh(), guest.window()), (4 * MSS, MSS));
}

#[test]
fn ece_halves_the_window_once_for_each_window_of_data() {
    // RFC 3168 §6.1.2
    let mut guest = rfc(20);
    guest.send(20);
    guest.ack_ece(1);
    assert_eq!((guest.window(), guest.ssthresh()), (10 * MSS, 10 * MSS));
    guest.ack_ece(9);
    guest.ack_ece(10);
    assert_eq!(guest.cuts(), 1, "all of it was sent before the cut");
    guest.send(10);
    let before = guest.window();
    guest.ack_ece(1);
    assert_eq!((guest.window(), guest.cuts()), (before / 2, 2));
}

#[test]
fn ece_during_recovery_reduces_nothing_more() {
    // RFC 3168 §6.1.2: the loss in that window was answered already
    let mut guest = rfc(10);
    guest.send(10);
    guest.duplicate(2);
    guest.duplicate_ece(1);
    assert_eq!((guest.window(), guest.cuts()), (8 * MSS, 0));
    guest.duplicate_ece(1);
    assert_eq!((guest.window(), guest.cuts()), (9 * MSS, 0));
    guest.ack_ece(4);
    assert_eq!(
        (guest.window(), guest.cuts()),
        (6 * MSS, 0),
        "partial: 9 − 4 + 1"
    );
    guest.ack_ece(6);
    assert_eq!((guest.ca(), guest.cuts()), (consts::CA_OPEN, 0));
}

#[test]
fn a_loss_after_ece_in_the_same_window_leaves_the_same_threshold() {
    // RFC 3168 §6.1.2 halves the window of ten, RFC 5681 the flight, still ten
    let mut guest = rfc(10);
    guest.send(10);
    guest.duplicate_ece(1);
    assert_eq!((guest.window(), guest.cuts()), (5 * MSS, 1));
    guest.duplicate(2);
    assert_eq!((guest.ssthresh(), guest.window()), (5 * MSS, 8 * MSS));
}

#[test]
fn no_reduction_goes_below_two_segments() {
    // RFC 5681 equation (4), RFC 3168 §6.1.2
    let mut guest = rfc(3);
    guest.send(3);
    guest.ack_ece(1);
    assert_eq!(guest.window(), 2 * MSS);
    guest.ack(2);
    guest.send(2);
    guest.ack_ece(1);
    assert_eq!((guest.window(), guest.cuts()), (2 * MSS, 2));
}

#[test]
fn a_guest_idle_for_a_retransmission_timeout_starts_from_the_restart_window() {
    // RFC 5681 §4.1: RW = min(IW, cwnd)
    let mut guest = rfc(4);
    guest.send(4);
    for _ in 0..4 {
        guest.ack(1);
    }
    assert_eq!(guest.window(), 8 * MSS);
    guest.wait_ms(150);
    guest.send(1);
    assert_eq!(
        guest.window(),
        8 * MSS,
        "less than the minimum of the timer"
    );
    guest.ack(1);
    guest.wait_ms(201);
    guest.send(1);
    assert_eq!(guest.window(), 4 * MSS);
}

#[test]
fn an_ece_cut_leaves_the_shadow_in_congestion_avoidance() {
    let guest = avoiding_congestion_at_ten();
    assert_eq!(guest.ssthresh(), 10 * MSS);
    assert_eq!(guest.ca(), consts::CA_OPEN);
}
