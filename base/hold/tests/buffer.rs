//! Copies of the guest's data: when the host retransmits them, and what the guest hears of it.

use crate::port::{MS, Port, ack, at, buffer, data, sack};
use uc_hold_core::{Buffer, Segment, Settings};

/// A port with so many segments in flight, after 50 rounds of 10 ms: the timeout is 20 ms.
fn in_flight(segments: u32) -> Port {
    let mut port = Port::open(buffer());
    port.arrived(&ack(0));
    for number in 0..50 {
        port.data(number, number + 1);
        port.wait(10 * MS);
        port.arrived(&ack(number + 1));
    }
    port.data(50, 50 + segments);
    port.to_guest.clear();
    port
}

/// Returns the retransmissions, with the time since `begun`; numbers count from the first in flight.
fn resent(port: &mut Port, begun: u64) -> Vec<(u32, u64)> {
    let resent = port.resent().into_iter();
    resent
        .map(|(number, at)| (number - 50, at - begun / MS))
        .collect()
}

#[test]
fn a_lost_tail_is_retransmitted_after_the_timeout_which_doubles() {
    let mut port = in_flight(3);
    let begun = port.now;
    port.wait(150 * MS);
    assert_eq!(resent(&mut port, begun), [(0, 20), (0, 60), (0, 140)]);
    assert_eq!(port.hold.counts().timeouts, 3);
    assert_eq!(port.acks(), []);
}

#[test]
fn a_host_gives_up_after_eight_timeouts_or_a_minute_of_silence() {
    let mut port = in_flight(3);
    port.wait(60_000 * MS);
    assert_eq!(port.hold.counts().timeouts, 8);
    assert_eq!(port.hold.next_at(), None);

    // the first timeout is a second, the seventh would be after 127
    let least_timeout_ns = 1_000 * MS;
    let mut port = Port::open(Settings {
        buffer: Some(Buffer { least_timeout_ns }),
        ..buffer()
    });
    let open = port.hold.bytes();
    port.data(0, 1);
    port.wait(160_000 * MS);
    assert!(port.hold.counts().timeouts < 8);
    assert_eq!(port.hold.next_at(), None);
    assert_eq!(port.hold.bytes(), open);
}

#[test]
fn after_a_timeout_the_rest_follows_in_slow_start() {
    let mut port = in_flight(8);
    let begun = port.now;
    port.wait(30 * MS);
    assert_eq!(resent(&mut port, begun), [(0, 20)]);
    port.arrived(&ack(51));
    assert_eq!(resent(&mut port, begun), [(1, 30), (2, 30)]);
    port.wait(10 * MS);
    port.arrived(&ack(52));
    port.arrived(&ack(53));
    assert_eq!(
        resent(&mut port, begun),
        [(3, 40), (4, 40), (5, 40), (6, 40)]
    );
    port.wait(10 * MS);
    port.arrived(&ack(57));
    port.arrived(&ack(58));
    port.wait(1_000 * MS);
    assert_eq!(resent(&mut port, begun), [(7, 50)]);
    assert_eq!(port.acks(), [51, 52, 53, 57, 58]);
    assert_eq!(port.hold.counts().timeouts, 1);
}

#[test]
fn a_segment_that_is_acknowledged_in_part_is_retransmitted() {
    let mut port = in_flight(3);
    let begun = port.now;
    port.arrived(&Segment {
        ack: at(50).wrapping_add(400),
        ..ack(50)
    });
    port.wait(25 * MS);
    assert_eq!(resent(&mut port, begun), [(0, 20)]);
}

#[test]
fn reported_segments_are_not_retransmitted_after_a_timeout() {
    let mut port = in_flight(8);
    let begun = port.now;
    port.arrived(&sack(50, 52, 54));
    port.wait(40 * MS);
    // after a quarter of the round trip, and after the timeout
    port.arrived(&ack(51));
    assert_eq!(
        resent(&mut port, begun),
        [(0, 2), (0, 22), (1, 40), (4, 40)]
    );
}

#[test]
fn the_third_duplicate_ack_retransmits_and_the_guest_hears_of_none() {
    let mut port = in_flight(8);
    let begun = port.now;
    port.wait(10 * MS);
    for _ in 0..2 {
        port.arrived(&ack(50));
    }
    assert_eq!(resent(&mut port, begun), []);
    for _ in 0..5 {
        port.arrived(&ack(50));
    }
    assert_eq!(resent(&mut port, begun), [(0, 10)]);
    // a partial acknowledgment: the next one is missing, too
    port.wait(10 * MS);
    port.arrived(&ack(53));
    assert_eq!(resent(&mut port, begun), [(3, 20)]);
    port.wait(10 * MS);
    port.arrived(&ack(58));
    port.wait(1_000 * MS);
    assert_eq!(resent(&mut port, begun), []);
    assert_eq!(port.acks(), [53, 58]);
    assert_eq!(port.hold.counts().dupacks_hidden, 7);
    assert_eq!(port.hold.counts().timeouts, 0);
}

#[test]
fn one_duplicate_ack_retransmits_after_a_quarter_of_a_round_trip() {
    let mut port = in_flight(2);
    let begun = port.now;
    port.wait(10 * MS);
    port.arrived(&ack(50));
    port.wait(2 * MS);
    assert_eq!(resent(&mut port, begun), []);
    port.wait(MS);
    assert_eq!(resent(&mut port, begun), [(0, 12)]);
    assert_eq!(port.hold.counts().timeouts, 0);
}

#[test]
fn segments_that_overtake_others_cause_no_retransmission() {
    let mut port = in_flight(8);
    port.wait(10 * MS);
    port.arrived(&ack(50));
    port.arrived(&ack(50));
    port.wait(2 * MS);
    port.arrived(&ack(53));
    port.wait(2 * MS);
    port.arrived(&ack(58));
    port.wait(1_000 * MS);
    assert_eq!(port.resent(), []);
}

#[test]
fn with_sack_all_holes_are_retransmitted_within_what_is_delivered() {
    let mut port = in_flight(12);
    let begun = port.now;
    port.wait(10 * MS);
    // 0, 2 and 4 are lost
    port.arrived(&sack(50, 51, 52));
    let mut second = sack(50, 53, 54);
    second.sack[1] = (at(51), at(52));
    port.arrived(&second);
    assert_eq!(resent(&mut port, begun), []);
    let mut third = sack(50, 55, 56);
    third.sack[1] = (at(53), at(54));
    port.arrived(&third);
    assert_eq!(resent(&mut port, begun), [(0, 10)]);
    for last in 57..=62 {
        port.arrived(&sack(50, 55, last));
    }
    assert_eq!(resent(&mut port, begun), [(2, 10), (4, 10)]);
    port.wait(10 * MS);
    port.arrived(&sack(52, 53, 54));
    port.arrived(&ack(54));
    port.arrived(&ack(62));
    port.wait(1_000 * MS);
    assert_eq!(resent(&mut port, begun), []);
    assert_eq!(port.acks(), [52, 54, 62]);
    assert_eq!(port.stripped, 1);
}

#[test]
fn a_duplicate_ack_that_opens_the_window_passes() {
    let mut port = in_flight(4);
    port.arrived(&Segment {
        window: 600,
        ..ack(50)
    });
    assert_eq!(port.acks(), [50]);
    assert_eq!(port.hold.counts().dupacks_hidden, 0);
}

#[test]
fn a_guest_that_retransmits_the_first_segment_repairs_alone() {
    let mut port = in_flight(8);
    let begun = port.now;
    port.wait(30 * MS);
    assert_eq!(resent(&mut port, begun), [(0, 20)]);
    port.sent(&data(50));
    assert_eq!(port.hold.counts().yields, 1);
    port.wait(10 * MS);
    port.arrived(&ack(51));
    port.arrived(&ack(51));
    port.arrived(&ack(51));
    port.arrived(&ack(51));
    port.arrived(&sack(51, 52, 53));
    assert_eq!(resent(&mut port, begun), []);
    // and hears of its losses
    assert_eq!(port.acks(), [51; 5]);
    assert_eq!(port.stripped, 0);
    // but if its repair is lost, too, the host's timer goes on, doubled
    port.wait(40 * MS);
    assert_eq!(resent(&mut port, begun), [(1, 80)]);
}

#[test]
fn a_tail_loss_probe_of_the_guest_stops_no_repair() {
    let mut port = in_flight(4);
    let begun = port.now;
    port.wait(25 * MS);
    port.sent(&data(53));
    port.wait(5 * MS);
    port.arrived(&ack(51));
    assert_eq!(resent(&mut port, begun), [(0, 20), (1, 30), (2, 30)]);
    assert_eq!(port.hold.counts().yields, 0);
}

#[test]
fn an_ack_too_early_for_the_retransmission_ends_the_repair() {
    let mut port = in_flight(8);
    let begun = port.now;
    port.wait(21 * MS);
    assert_eq!(resent(&mut port, begun), [(0, 20)]);
    for number in 51..=58 {
        port.arrived(&ack(number));
    }
    port.wait(1_000 * MS);
    assert_eq!(resent(&mut port, begun), []);
}

#[test]
fn a_window_probe_is_the_guests_own_affair() {
    let mut port = in_flight(2);
    port.arrived(&Segment {
        window: 0,
        ..ack(52)
    });
    let kept = port.hold.bytes();
    port.sent(&Segment {
        payload_bytes: 1,
        ..data(52)
    });
    assert_eq!(port.hold.bytes(), kept);
    port.wait(1_000 * MS);
    port.arrived(&Segment {
        window: 0,
        ..ack(52)
    });
    assert_eq!(port.resent(), []);
    assert_eq!(port.acks(), [52, 52]);
}
