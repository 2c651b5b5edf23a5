//! Flows of a port: handshakes, memory, and the end.

use crate::port::{
    Frame, HEADERS, IRS, ISS, MS, MSS, Port, RTT, ack, at, buffer, data, pace, sack, syn, syn_ack,
};
use uc_hold_core::flags::{ACK, FIN, RST, SYN};
use uc_hold_core::{Buffer, Hold, Segment, Settings};

fn both() -> Settings {
    Settings {
        buffer: Some(Buffer::default()),
        ..pace()
    }
}

#[test]
fn a_flow_without_handshake_passes_unchanged_and_takes_no_memory() {
    let mut port = Port::new(both());
    port.data(0, 10);
    port.arrived(&ack(0));
    port.arrived(&ack(0));
    port.arrived(&ack(10));
    assert_eq!(port.acks(), [0, 0, 10]);
    assert_eq!(port.hold.bytes(), 0);
    assert_eq!(port.hold.next_at(), None);
}

#[test]
fn a_guest_that_answers_is_held_like_one_that_asks() {
    let mut port = Port::new(buffer());
    port.arrived(&Segment {
        flags: SYN,
        ack: 0,
        ..syn_ack()
    });
    port.sent(&Segment {
        flags: SYN | ACK,
        ack: IRS + 1,
        ..syn()
    });
    port.wait(RTT);
    port.arrived(&ack(0));
    port.data(0, 3);
    port.wait(100 * MS);
    assert_eq!(port.resent().first().map(|&(number, _)| number), Some(0));
}

#[test]
fn a_syn_of_a_stranger_changes_nothing_until_the_guest_answers() {
    let mut port = Port::open(buffer());
    port.data(0, 3);
    port.arrived(&Segment {
        seq: 1,
        flags: SYN,
        ack: 0,
        ..syn_ack()
    });
    port.wait(100 * MS);
    assert_eq!(port.resent().first().map(|&(number, _)| number), Some(0));
}

#[test]
fn acks_that_no_guest_accepts_pass_and_count_for_nothing() {
    let mut port = Port::open(buffer());
    port.data(0, 3);
    let kept = port.hold.bytes();
    port.arrived(&Segment {
        ack: at(3).wrapping_add((1 << 30) + 1),
        ..ack(3)
    });
    port.arrived(&Segment {
        seq: IRS + (1 << 30),
        ..ack(3)
    });
    // beyond the peer's window, and longer ago than the largest
    port.arrived(&Segment {
        ack: at(0).wrapping_add(70_000),
        ..ack(3)
    });
    port.arrived(&Segment {
        ack: at(0).wrapping_sub(1 << 24),
        ..ack(3)
    });
    assert_eq!(port.to_guest.len(), 4);
    assert_eq!(port.hold.bytes(), kept);
    port.arrived(&ack(3));
    assert!(port.hold.bytes() < kept);
}

#[test]
fn a_reset_of_the_peer_ends_what_is_held_only_with_the_number_that_the_guest_expects() {
    let mut port = Port::open(both());
    port.arrived(&ack(0));
    port.data(0, 12);
    port.arrived(&ack(6));
    port.to_guest.clear();
    let kept = port.hold.bytes();
    for forged in [0, IRS, IRS + 2, IRS + 5_000] {
        port.arrived(&Segment {
            seq: forged,
            flags: RST | ACK,
            ..ack(6)
        });
    }
    assert!(port.to_guest.drain(..).all(|(_, got)| got.has(RST)));
    assert_eq!(port.hold.bytes(), kept);
    port.arrived(&Segment {
        flags: RST,
        ..ack(0)
    });
    let got: Vec<bool> = port.to_guest.iter().map(|(_, got)| got.has(RST)).collect();
    assert_eq!(got, [false, true], "the ACK that waited, then the RST");
    assert!(port.hold.bytes() < kept);
    assert_eq!(port.hold.next_at(), None);
}

#[test]
fn a_new_connection_between_the_same_ports_begins_anew() {
    let mut port = Port::open(both());
    port.arrived(&ack(0));
    port.data(0, 12);
    port.arrived(&ack(12));
    let far = ISS.wrapping_add(1 << 30);
    port.sent(&Segment { seq: far, ..syn() });
    // the ACKs of the old one are released, in order and before the SYN-ACK
    assert_eq!(port.acks(), [0, 2, 12]);
    port.wait(RTT);
    port.arrived(&Segment {
        ack: far + 1,
        ..syn_ack()
    });
    port.sent(&Segment {
        seq: far + 1,
        ..data(0)
    });
    port.wait(100 * MS);
    assert_eq!(
        port.to_network.first().map(|(_, got)| got.seq),
        Some(far + 1)
    );
}

#[test]
fn memory_comes_back_when_both_ends_have_closed_or_one_resets() {
    let mut port = Port::open(both());
    assert!(port.hold.bytes() > 0);
    port.data(0, 5);
    port.sent(&Segment {
        flags: FIN | ACK,
        payload_bytes: 0,
        ..data(5)
    });
    port.arrived(&Segment {
        ack: at(5) + 1,
        flags: FIN | ACK,
        ..ack(5)
    });
    port.wait(100 * MS);
    assert_eq!(port.hold.bytes(), 0);

    let mut port = Port::open(both());
    port.data(0, 5);
    port.sent(&Segment {
        flags: RST,
        ..data(5)
    });
    assert_eq!(port.hold.bytes(), 0);
}

#[test]
fn no_more_memory_is_used_than_the_limit_and_the_rest_passes() {
    let settings = Settings {
        bytes_max: 8_000,
        ..both()
    };
    let mut port = Port::open(settings);
    port.arrived(&ack(0));
    let flow = port.hold.bytes();
    assert!(flow < 4_000, "{flow} bytes of a flow");
    port.data(0, 12);
    let kept = (8_000 - flow) / (MSS as usize + HEADERS);
    assert_eq!(port.hold.counts().packets_kept, kept as u64);
    assert_eq!(port.hold.counts().packets_unheld, 12 - kept as u64);
    assert!(port.hold.bytes() <= 8_000);
    // duplicate ACKs of what is not kept pass to the guest, with what they report
    port.to_guest.clear();
    port.arrived(&ack(kept as u32));
    port.wait(20 * MS);
    port.arrived(&sack(kept as u32, kept as u32 + 1, 12));
    assert_eq!(port.stripped, 0);
    port.wait(20 * MS);
    let last = port.acks();
    assert_eq!(last[last.len() - 2..], [kept as u32; 2]);
    assert_eq!(port.resent(), []);
}

#[test]
fn acks_that_find_no_memory_release_those_before_them_in_order() {
    let mut port = Port::open(pace());
    port.arrived(&ack(0));
    let room = port.hold.bytes() + 3 * HEADERS;
    let mut port = Port::open(Settings {
        bytes_max: room,
        ..pace()
    });
    port.arrived(&ack(0));
    port.data(0, 20);
    port.wait(10 * MS);
    port.to_guest.clear();
    for number in 1..9 {
        port.arrived(&ack(2 * number));
    }
    // the first passes, three wait, and the fifth makes them go
    assert_eq!(port.acks(), [2, 4, 6, 8, 10]);
    assert_eq!(port.hold.counts().packets_unheld, 1);
    port.wait(20 * MS);
    assert_eq!(port.acks(), [12, 14, 16]);
}

#[test]
fn idle_flows_make_room_for_new_ones() {
    let mut one: Hold<u16, Frame> = Hold::new(both());
    one.sent(0, 0, &syn(), || Frame(syn()));
    let settings = Settings {
        bytes_max: 2 * one.bytes(),
        ..both()
    };
    let mut port = Port::new(settings);
    port.open_flow(1);
    port.open_flow(2);
    port.wait(30_000 * MS);
    port.sent_of(3, &syn());
    assert!(!port.hold.knows(&3));
    assert_eq!(port.hold.bytes(), settings.bytes_max);
    port.wait(31_000 * MS);
    port.sent_of(3, &syn());
    assert!(port.hold.knows(&3));
    assert_eq!(port.hold.bytes(), one.bytes());
    assert_eq!(port.hold.forgotten().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn idle_flows_make_room_for_packets_that_found_none() {
    let settings = Settings {
        bytes_max: 8_000,
        ..both()
    };
    let mut port = Port::open(settings);
    port.open_flow(1);
    port.wait(61_000 * MS);
    port.arrived(&ack(0));
    port.data(0, 8);
    assert!(port.hold.counts().packets_unheld > 0);
    assert!(port.hold.knows(&1));
    port.hold.sweep(port.now);
    assert!(!port.hold.knows(&1) && port.hold.knows(&0));
}

#[test]
fn release_gives_the_guest_all_acks_in_order_and_keeps_nothing() {
    let mut port = Port::open(both());
    port.arrived(&ack(0));
    port.data(0, 12);
    port.to_guest.clear();
    for number in 1..=6 {
        port.arrived(&ack(2 * number));
    }
    port.hold.release();
    port.wait(0);
    assert_eq!(port.acks(), [2, 4, 6, 8, 10, 12]);
    assert_eq!(port.hold.next_at(), None);
    // the flow goes on
    port.data(12, 24);
    port.arrived(&ack(14));
    port.arrived(&ack(24));
    port.wait(20 * MS);
    assert_eq!(port.acks(), [14, 16, 18, 20, 22, 24]);
}

#[test]
fn packets_that_the_platform_has_missed_do_not_end_the_hold() {
    let mut port = Port::open(both());
    port.arrived(&ack(0));
    port.data(0, 4);
    // it misses the segments 4 to 7, and the ACK of the first ones
    port.data(8, 12);
    port.arrived(&ack(6));
    port.wait(20 * MS);
    port.arrived(&ack(8));
    port.to_guest.clear();
    port.wait(100 * MS);
    assert_eq!(port.resent().first().map(|&(number, _)| number), Some(8));
    // an ACK of data that it has not seen at all
    port.arrived(&ack(20));
    port.data(20, 23);
    port.wait(1_000 * MS);
    assert!(port.resent().iter().any(|&(number, _)| number == 20));
}

#[test]
fn a_flow_of_which_nothing_is_kept_gets_its_duplicate_acks() {
    let mut port = Port::open(both());
    assert!(port.hold.knows(&0) && !port.hold.knows(&1));
    port.hold.keep_nothing(&0);
    port.arrived(&ack(0));
    port.data(0, 8);
    for _ in 0..4 {
        port.arrived(&ack(0));
    }
    port.wait(1_000 * MS);
    assert_eq!(port.acks(), [0, 0, 0, 0, 0]);
    assert_eq!(port.resent(), []);
    port.arrived(&ack(8));
    port.wait(60 * MS);
    assert_eq!(port.acks(), [2, 4, 6, 8]);
}

/// Has strangers send SYNs to the port, one for each of these flows.
fn flood(port: &mut Port, flows: std::ops::Range<u16>) {
    for flow in flows {
        port.arrived_of(
            flow,
            &Segment {
                flags: SYN,
                ack: 0,
                ..syn_ack()
            },
        );
    }
}

#[test]
fn flood_of_syns_takes_an_eighth_of_the_memory_for_five_seconds_and_no_open_flow() {
    let mut port = Port::open(both());
    let one = port.hold.bytes();
    port.arrived(&ack(0));
    port.data(0, 3);
    let kept = port.hold.bytes() - one;
    let most = port.hold.flows_max() / 8;
    flood(&mut port, 1..60_000);
    assert_eq!(port.hold.bytes(), one + kept + most * one);
    let known = (1..60_000).filter(|flow| port.hold.knows(flow));
    let newest: Vec<u16> = (60_000 - most as u16..60_000).collect();
    assert_eq!(known.collect::<Vec<_>>(), newest);
    assert_eq!(port.hold.displaced(), 59_999 - most as u64);
    assert_eq!(port.hold.forgotten().count(), 59_999 - most);
    // the guest answers one of them, and then that one is its own
    let answered = newest[0];
    port.sent_of(
        answered,
        &Segment {
            flags: SYN | ACK,
            ack: IRS + 1,
            ..syn()
        },
    );
    port.arrived_of(answered, &ack(0));
    flood(&mut port, 1..20_000);
    assert!(port.hold.knows(&answered) && port.hold.knows(&0));

    port.hold.sweep(port.now + 4_999 * MS);
    assert_eq!(port.hold.bytes(), 2 * one + kept + most * one);
    port.hold.sweep(port.now + 5_000 * MS);
    assert_eq!(port.hold.bytes(), 2 * one + kept);
    let forgotten: Vec<u16> = port.hold.forgotten().collect();
    assert!(forgotten.len() >= most);
    assert!(!forgotten.contains(&answered) && !forgotten.contains(&0));
    assert_eq!(port.hold.forgotten().count(), 0);
}

#[test]
fn handshake_makes_room_for_another_when_the_memory_is_full() {
    let one = Port::open(both()).hold.bytes();
    let settings = Settings {
        bytes_max: 32 * one,
        ..both()
    };
    let mut port = Port::open(settings);
    flood(&mut port, 1..2);
    (2..31).for_each(|flow| port.open_flow(flow));
    flood(&mut port, 31..32);
    assert_eq!(port.hold.bytes(), settings.bytes_max);
    flood(&mut port, 32..33);
    let unknown: Vec<u16> = (0..33).filter(|flow| !port.hold.knows(flow)).collect();
    assert_eq!(unknown, [1]);
}

#[test]
fn syn_ack_without_a_syn_begins_no_flow() {
    let mut port = Port::new(both());
    port.arrived(&syn_ack());
    port.sent_of(
        1,
        &Segment {
            flags: SYN | ACK,
            ack: IRS + 1,
            ..syn()
        },
    );
    assert_eq!(port.hold.bytes(), 0);
}

#[test]
fn flows_whose_data_is_kept_are_found_a_few_at_a_time() {
    let mut port = Port::new(buffer());
    for flow in [3, 1, 7, 5] {
        port.open_flow(flow);
    }
    port.sent_of(2, &syn());
    port.hold.keep_nothing(&5);
    assert_eq!(port.hold.keeping(None, 3), (vec![1, 3], Some(3)));
    assert_eq!(port.hold.keeping(Some(3), 2), (vec![7], None));
    assert_eq!(port.hold.keeping(None, 9), (vec![1, 3, 7], None));
    let paced = Port::open(pace());
    assert_eq!(paced.hold.keeping(None, 9), (vec![], None));
}

#[test]
fn declined_connection_is_forgotten_unless_it_is_open() {
    let mut port = Port::open(both());
    let one = port.hold.bytes();
    port.sent_of(1, &syn());
    port.hold.decline(1);
    port.hold.decline(0);
    port.hold.decline(2);
    assert!(port.hold.knows(&0) && !port.hold.knows(&1));
    assert_eq!(port.hold.bytes(), one);
    // a guest's SYN ends the old connection, so the flow is not open any more
    port.arrived(&ack(0));
    port.data(0, 12);
    port.arrived(&ack(12));
    port.to_guest.clear();
    port.sent(&Segment {
        seq: ISS.wrapping_add(1 << 30),
        ..syn()
    });
    assert_eq!(port.acks(), [12]);
    port.hold.decline(0);
    assert_eq!(port.hold.bytes(), 0);
    assert_eq!(port.hold.forgotten().collect::<Vec<_>>(), [1, 0]);
}
