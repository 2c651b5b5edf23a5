//! The room that a guest's window has while its host repairs a loss.

use crate::port::{MS, MSS, Port, SCALE, ack, at, buffer};
use uc_hold_core::{Segment, Settings};

/// The first segment in flight. Before it, the guest was never given room beyond the next segment.
const FIRST: u32 = 70;

/// Returns an ACK whose window has room for so many segments.
fn window(number: u32, segments: u32) -> Segment {
    Segment {
        window: (segments * MSS).div_ceil(1 << SCALE) as u16,
        ..ack(number)
    }
}

/// A port whose guest got room for `room` segments, and has sent so many, after 70 rounds of 10 ms.
fn sending(settings: Settings, room: u32, sent: u32) -> Port {
    let mut port = Port::open(settings);
    for number in 0..FIRST {
        port.data(number, number + 1);
        port.wait(10 * MS);
        let is_last = number + 1 == FIRST;
        port.arrived(&window(number + 1, if is_last { room } else { 1 }));
    }
    port.data(FIRST, FIRST + sent);
    port.to_guest.clear();
    port
}

/// Takes the ACKs that the guest got: the first segment that each acknowledges not, counted from the first
/// in flight, and for how many segments it has room.
fn rooms(port: &mut Port) -> Vec<(u32, u32)> {
    let room = |got: &Segment| (u32::from(got.window) << SCALE) / MSS;
    let number = |got: &Segment| got.ack.wrapping_sub(at(FIRST)) / MSS;
    let got = port.to_guest.drain(..);
    got.map(|(_, got)| (number(&got), room(&got))).collect()
}

#[test]
fn after_a_timeout_the_guest_gets_no_room_for_new_data_until_all_is_repaired() {
    for pace in [false, true] {
        let settings = Settings { pace, ..buffer() };
        let mut port = sending(settings, 4, 4);
        port.wait(25 * MS);
        assert_eq!(port.hold.counts().timeouts, 1);
        // a law that waits for evidence of a spurious timeout would let out two
        port.arrived(&window(FIRST + 1, 5));
        assert_eq!(rooms(&mut port), [(1, 3)], "pace: {pace}");
        port.wait(10 * MS);
        port.arrived(&window(FIRST + 4, 6));
        port.wait(20 * MS);
        assert_eq!(rooms(&mut port).last(), Some(&(4, 6)), "pace: {pace}");
    }
}

#[test]
fn in_slow_start_after_a_timeout_the_guest_uses_what_the_host_leaves() {
    let mut port = sending(buffer(), 2, 2);
    port.wait(25 * MS);
    port.arrived(&window(FIRST + 1, 4));
    assert_eq!(rooms(&mut port), [(1, 2)]);
}

#[test]
fn before_three_duplicate_acks_a_repair_gives_the_guest_no_room() {
    let mut port = sending(buffer(), 3, 3);
    port.wait(10 * MS);
    port.arrived(&window(FIRST, 3));
    port.wait(3 * MS);
    assert_eq!(port.resent().len(), 1);
    // not even by a duplicate ACK that opens the window
    port.arrived(&window(FIRST, 5));
    assert_eq!(rooms(&mut port), []);
    assert_eq!(port.hold.counts().dupacks_hidden, 2);
    port.arrived(&window(FIRST + 2, 4));
    port.arrived(&window(FIRST + 3, 4));
    assert_eq!(rooms(&mut port), [(2, 1), (3, 4)]);
}

#[test]
fn after_three_duplicate_acks_the_law_decides() {
    let mut port = sending(buffer(), 8, 8);
    port.wait(10 * MS);
    for _ in 0..3 {
        port.arrived(&window(FIRST, 8));
    }
    port.arrived(&window(FIRST + 3, 7));
    assert_eq!(rooms(&mut port), [(3, 7)]);
}

#[test]
fn room_that_the_guest_has_is_not_taken_back() {
    let mut port = sending(buffer(), 4, 2);
    port.wait(25 * MS);
    port.arrived(&window(FIRST + 1, 5));
    assert_eq!(rooms(&mut port), [(1, 3)]);
}
