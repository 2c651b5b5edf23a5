//! ACKs towards the guest: when they are released, and with which numbers.

use crate::port::{IRS, MS, MSS, Port, WINDOW, ack, at, buffer, data, pace, sack};
use uc_hold_core::{Buffer, Segment, Settings};

/// A port with so many segments in flight, all of which the guest was allowed to send.
fn in_flight(segments: u32) -> Port {
    let mut port = Port::open(pace());
    port.arrived(&ack(0));
    port.data(0, segments);
    port.to_guest.clear();
    port
}

/// Returns the gaps between packets to the guest, in ns.
fn gaps(port: &Port) -> Vec<u64> {
    let times: Vec<u64> = port.to_guest.iter().map(|&(at, _)| at).collect();
    times.windows(2).map(|two| two[1] - two[0]).collect()
}

#[test]
fn an_ack_of_a_window_becomes_acks_of_two_segments_over_five_sixths_of_a_round_trip() {
    let mut port = in_flight(20);
    port.wait(10 * MS);
    port.arrived(&ack(20));
    port.wait(20 * MS);
    let gap = 10 * MS * 5 / 6 / 10;
    assert_eq!(gaps(&port), [gap; 9]);
    assert_eq!(port.acks(), [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]);
    assert_eq!(port.hold.counts().acks_added, 9);
    assert_eq!(port.hold.counts().acks_paced, 1);
}

#[test]
fn the_first_ack_after_the_handshake_is_divided_too() {
    let mut port = Port::open(pace());
    port.data(0, 10);
    port.wait(10 * MS);
    port.arrived(&ack(10));
    port.wait(20 * MS);
    assert_eq!(port.acks(), [2, 4, 6, 8, 10]);
}

#[test]
fn an_ack_of_vast_length_becomes_a_bounded_number_of_acks() {
    // the guest claims to have sent a gigabyte, in segments of forty bytes
    let far = at(2).wrapping_add(1 << 30);
    let mut open = Port::open(pace());
    for seq in [at(0), far] {
        open.sent(&Segment {
            seq,
            payload_bytes: 40,
            ..data(0)
        });
    }
    open.arrived(&Segment { ack: far, ..ack(0) });
    assert_eq!(open.to_guest.len(), 1, "the first part");
    open.wait(50 * MS);
    // a 512th of what is left each time: 512 · (1 + ln(2^30 / (512 · 80))) parts, not 13 million
    assert!(open.to_guest.len() < 6_000, "{}", open.to_guest.len());
    assert_eq!(open.to_guest.last().map(|(_, got)| got.ack), Some(far));
}

#[test]
fn acks_in_a_clump_are_spread_and_keep_their_numbers() {
    let mut port = in_flight(12);
    port.wait(10 * MS);
    for number in [1, 3, 4, 6, 9, 12] {
        port.arrived(&ack(number));
    }
    assert_eq!(port.acks(), [1]);
    port.wait(20 * MS);
    assert_eq!(port.acks(), [3, 4, 6, 8, 9, 11, 12]);
}

#[test]
fn acks_at_the_rate_of_the_window_are_not_held() {
    let mut port = in_flight(10);
    port.wait(9 * MS);
    for number in 1..100 {
        port.wait(MS);
        port.arrived(&ack(number));
        port.data(9 + number, 10 + number);
    }
    assert_eq!(port.acks(), (1..100).collect::<Vec<u32>>());
    assert_eq!(port.hold.counts().acks_paced, 0);
}

#[test]
fn a_guest_whose_window_grows_gets_its_acks_faster() {
    let mut port = in_flight(10);
    port.wait(10 * MS);
    port.arrived(&ack(10));
    let begun = port.now;
    let (mut next, mut seen) = (10, 0);
    // slow start: two new segments for each that is acknowledged
    while port
        .to_guest
        .last()
        .is_none_or(|&(_, got)| got.ack != at(10))
    {
        let new = 4 * (port.to_guest.len() - seen) as u32;
        seen = port.to_guest.len();
        port.data(next, next + new);
        next += new;
        port.wait(MS / 100);
    }
    let took = port.now - begun;
    // four gaps of two segments, at 10, 12, 14 and 16 in flight: 5.3 ms; at ten always 6.7 ms
    assert!(took.abs_diff(5_290_000) < MS / 10, "{took} ns");
}

#[test]
fn windows_grow_by_parts_and_right_edges_never_move_back() {
    let mut port = in_flight(20);
    port.wait(10 * MS);
    port.arrived(&Segment {
        window: WINDOW + 100,
        ..ack(20)
    });
    port.wait(20 * MS);
    let windows: Vec<u16> = port.to_guest.iter().map(|(_, got)| got.window).collect();
    assert_eq!(windows, [510, 520, 530, 540, 550, 560, 570, 580, 590, 600]);
}

#[test]
fn windows_shrink_by_parts_within_the_peers_edge() {
    let mut port = in_flight(20);
    port.wait(10 * MS);
    port.arrived(&Segment {
        window: WINDOW - 100,
        ..ack(20)
    });
    port.wait(20 * MS);
    let windows: Vec<u16> = port.to_guest.iter().map(|(_, got)| got.window).collect();
    assert_eq!(windows, [490, 480, 470, 460, 450, 440, 430, 420, 410, 400]);
    assert_eq!(port.acks().len(), 10);
}

#[test]
fn an_ack_whose_edge_moves_back_goes_as_a_whole() {
    let mut port = in_flight(20);
    port.wait(10 * MS);
    // 20 segments are 156 units of 128 bytes
    port.arrived(&Segment {
        window: WINDOW - 160,
        ..ack(20)
    });
    port.wait(20 * MS);
    assert_eq!(port.acks(), [20]);
}

#[test]
fn data_passes_at_once_with_the_last_ack_and_its_ack_follows() {
    let mut port = in_flight(12);
    port.wait(10 * MS);
    port.arrived(&ack(4));
    port.arrived(&Segment {
        payload_bytes: 100,
        ..ack(8)
    });
    let got: Vec<Segment> = port.to_guest.iter().map(|&(_, got)| got).collect();
    assert_eq!(got.len(), 2);
    assert_eq!((got[0].ack, got[0].payload_bytes), (at(2), 0));
    assert_eq!((got[1].ack, got[1].payload_bytes), (at(2), 100));
    port.wait(20 * MS);
    let late = &port.to_guest[2..];
    assert!(late.iter().all(|(_, got)| got.payload_bytes == 0));
    // behind the data, or the guest would drop them as old
    assert!(late.iter().all(|(_, got)| got.seq == IRS + 101));
    assert_eq!(port.acks()[2..], [4, 6, 8]);
}

#[test]
fn acks_that_old_data_overtakes_are_behind_all_data() {
    let mut port = in_flight(12);
    let data = |seq: u32, number: u32| Segment {
        seq: IRS + 1 + seq,
        payload_bytes: 100,
        ..ack(number)
    };
    port.arrived(&data(100, 0));
    port.wait(10 * MS);
    port.arrived(&Segment {
        seq: IRS + 201,
        ..ack(8)
    });
    port.to_guest.clear();
    // the peer sends its first segment again, which was lost before the host
    port.arrived(&data(0, 8));
    port.wait(20 * MS);
    assert_eq!(port.to_guest[0].1.seq, IRS + 1);
    let late = &port.to_guest[1..];
    assert!(!late.is_empty() && late.iter().all(|(_, got)| got.seq == IRS + 201));
}

#[test]
fn parts_start_from_the_window_of_data_that_passed() {
    let mut port = in_flight(12);
    port.wait(10 * MS);
    port.arrived(&ack(2));
    port.arrived(&ack(6));
    // a window update with data, which overtakes the ACK that waits
    port.arrived(&Segment {
        payload_bytes: 100,
        window: WINDOW + 50,
        ..ack(2)
    });
    port.wait(20 * MS);
    let windows: Vec<u16> = port.to_guest.iter().map(|(_, got)| got.window).collect();
    assert_eq!(port.acks(), [2, 2, 6]);
    // the edge of the ACK is behind that of the update: it can't be divided without moving back
    assert_eq!(windows[..2], [WINDOW, WINDOW + 50]);
}

#[test]
fn data_whose_ack_is_not_early_passes_unchanged() {
    let mut port = in_flight(12);
    port.wait(10 * MS);
    let segment = Segment {
        payload_bytes: 100,
        ..ack(2)
    };
    port.arrived(&segment);
    assert_eq!(port.to_guest, [(port.now, segment)]);
    assert_eq!(port.hold.next_at(), None);
}

#[test]
fn a_guest_that_retransmits_gets_all_acks_at_once_and_then_whole_ones() {
    let mut port = in_flight(12);
    port.wait(10 * MS);
    port.arrived(&ack(8));
    assert_eq!(port.acks(), [2]);
    port.sent(&data(8));
    assert_eq!(port.acks(), [8]);
    // a full acknowledgment after the guest's repair: a part would be a partial one
    port.arrived(&ack(12));
    port.wait(20 * MS);
    assert_eq!(port.acks(), [12]);
    port.data(12, 24);
    port.arrived(&ack(24));
    port.wait(20 * MS);
    assert_eq!(port.acks().len(), 6);
}

#[test]
fn duplicate_acks_keep_their_place_and_cost_no_time() {
    let mut port = in_flight(12);
    port.wait(10 * MS);
    for _ in 0..4 {
        port.arrived(&ack(4));
    }
    assert_eq!(port.acks(), [2]);
    port.wait(20 * MS);
    let times: Vec<u64> = port.to_guest.iter().map(|&(at, _)| at).collect();
    assert!(times.windows(2).all(|two| two[0] == two[1]));
    assert_eq!(port.acks(), [4, 4, 4, 4]);
    port.arrived(&ack(4));
    assert_eq!(port.acks(), [4]);
}

#[test]
fn an_ack_with_sack_blocks_is_not_divided_unless_the_host_repairs() {
    let mut port = in_flight(12);
    port.wait(10 * MS);
    port.arrived(&sack(8, 9, 10));
    port.wait(20 * MS);
    assert_eq!(port.acks(), [8]);

    let both = Settings {
        buffer: Some(Buffer::default()),
        ..pace()
    };
    assert!(!buffer().pace);
    let mut port = Port::open(both);
    port.arrived(&ack(0));
    port.data(0, 12);
    port.wait(10 * MS);
    port.to_guest.clear();
    port.arrived(&sack(8, 9, 10));
    port.wait(9 * MS);
    assert_eq!(port.acks(), [2, 4, 6, 8]);
    assert_eq!(port.stripped, 4);
}

#[test]
fn on_a_long_path_the_acks_of_a_window_take_fifty_milliseconds_at_most() {
    let mut port = in_flight(20);
    port.wait(4_000 * MS);
    port.arrived(&ack(2));
    port.wait(4_000 * MS);
    port.arrived(&ack(20));
    let begun = port.now;
    port.wait(4_000 * MS);
    let last = port.to_guest.last().map(|&(at, _)| at - begun);
    assert!(last.is_some_and(|ns| ns <= 50 * MS), "{last:?}");
    assert_eq!(u64::from(MSS), 1_000);
}
