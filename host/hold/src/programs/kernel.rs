//! Tests of the programs in the kernel, by single frames.

use etherparse::TcpOptionElement::{Noop, Timestamp};
use etherparse::{PacketBuilder, TcpOptionElement};
use libbpf_rs::RingBufferBuilder;
use uc_port::{PacketContext, run_packet};

use super::*;
use crate::flow::Flow;
use crate::layout::{UC_HOLD_SYNS_MAX, UC_HOLD_SYNS_NS, uc_hold_head};
use crate::newest_segment::NewestSegment;

/// Index of the loopback interface, which stands for a port. No program is attached to it.
const PORT: u32 = 1;
const TCP_AT: usize = 34;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// Loads the programs, for one port.
fn loaded() -> Option<(Programs, PortMaps)> {
    let loaded = Programs::load().and_then(|programs| {
        let maps = programs.add_port(PORT, 1 << 20, 100, &Own::default())?;
        programs.be_alive(3_600_000_000_000)?;
        Ok((programs, maps))
    });
    uc_live::or_skip(loaded)
}

/// Returns a frame of the guest from this TCP port.
fn frame(port: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
    with_options(port, flags, (0, 500), &[], payload)
}

/// Returns a frame of the guest with this ACK number, window and options.
fn with_options(
    port: u16,
    flags: u8,
    (ack, window): (u32, u16),
    options: &[TcpOptionElement],
    payload: &[u8],
) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
    let tcp = ethernet
        .ipv4([10, 1, 0, 1], [10, 2, 0, 2], 61)
        .tcp(port, 80, 1000, window)
        .ack(ack)
        .options(options)
        .unwrap();
    let mut bytes = Vec::new();
    tcp.write(&mut bytes, payload).unwrap();
    bytes[TCP_AT + 13] = flags;
    bytes
}

/// Runs a frame through a program as often as given.
fn run(program: &OwnedFd, frame: &[u8], repeat: u32) {
    let context = PacketContext {
        ifindex: PORT,
        gso_segs: 0,
        gso_size: 0,
        repeat,
    };
    run_packet(program.as_fd(), frame, context, 0).unwrap();
}

/// Returns the heads of the packets that were handed over.
fn taken(maps: &PortMaps) -> Vec<uc_hold_head> {
    let mut heads = Vec::new();
    let mut builder = RingBufferBuilder::new();
    let take = |entry: &[u8]| {
        heads.push(uc_hold_head::read_from_prefix(entry).unwrap().0);
        0
    };
    builder.add(&maps.ring, take).unwrap();
    builder.build().unwrap().consume().unwrap();
    heads
}

#[test]
fn live_flood_of_syns_is_handed_over_in_part_and_the_rest_is_counted() {
    const FLOOD: u32 = 100_000;
    let Some((programs, maps)) = loaded() else {
        return;
    };
    let interval = || now_ns() / u64::from(UC_HOLD_SYNS_NS);
    let begun = interval();
    run(&programs.from_guest, &frame(40_000, SYN, &[]), FLOOD);
    let intervals = interval() - begun + 1;
    let handed_over = taken(&maps);
    let passed = programs.passed().unwrap();
    let most = intervals * u64::from(UC_HOLD_SYNS_MAX);
    let all = handed_over.len() as u64 + passed.packets;
    println!("{all} in {intervals} intervals, {passed:?}");
    assert!((u64::from(UC_HOLD_SYNS_MAX)..=most).contains(&all));
    assert_eq!(all + passed.syns, u64::from(FLOOD));

    // The other direction has its own number, and flows that are held have none.
    run(&programs.to_guest, &frame(40_000, SYN, &[]), 1);
    let flow = Flow::from(handed_over[0].key);
    assert!(maps.table.add(&flow) && maps.table.add(&flow));
    run(&programs.from_guest, &frame(40_000, SYN, &[]), 600);
    run(&programs.from_guest, &frame(40_000, ACK, b"data"), 600);
    assert_eq!(taken(&maps).len(), 1201);
    maps.table.remove(&flow);
    run(&programs.from_guest, &frame(40_000, ACK, b"data"), 1);
    assert_eq!(taken(&maps).len(), 0);
}

#[test]
fn live_syn_ack_of_an_unknown_flow_is_handed_over_only_towards_the_guest() {
    let Some((programs, maps)) = loaded() else {
        return;
    };
    let answer = frame(40_000, SYN | ACK, &[]);
    run(&programs.from_guest, &answer, 1);
    assert_eq!(taken(&maps).len(), 0);
    // Even during a flood of SYNs: user space may not have added the flow of the guest's SYN yet.
    run(&programs.to_guest, &frame(40_001, SYN, &[]), 100_000);
    taken(&maps);
    run(&programs.to_guest, &answer, 1);
    assert_eq!(taken(&maps).len(), 1);
}

#[test]
fn live_table_takes_as_many_flows_as_it_has_room_for() {
    let Some((programs, maps)) = loaded() else {
        return;
    };
    for port in 0..101 {
        run(&programs.from_guest, &frame(port, SYN, &[]), 1);
    }
    let added: Vec<bool> = taken(&maps)
        .into_iter()
        .map(|head| maps.table.add(&Flow::from(head.key)))
        .collect();
    assert_eq!(added, [&[true; 100][..], &[false]].concat());
}

/// A segment of a guest: ACK number, options and payload; and its timestamps.
type Case<'a> = (u32, &'a [TcpOptionElement], &'a [u8], [u8; 8]);

#[test]
fn live_newest_ack_window_and_timestamps_of_a_guest_are_noted_without_data_too() {
    let Some((programs, maps)) = loaded() else {
        return;
    };
    run(&programs.from_guest, &frame(7, SYN, &[]), 1);
    let flow = Flow::from(taken(&maps)[0].key);
    assert!(maps.table.add(&flow));
    let sack = TcpOptionElement::SelectiveAcknowledgement((900, 1900), [None; 3]);
    let usual: &[TcpOptionElement] = &[Noop, Noop, Timestamp(3, 4), Noop, Noop, sack.clone()];
    let other: &[TcpOptionElement] = &[Noop, Noop, sack, Noop, Noop, Timestamp(5, 6)];
    let cases: [Case<'_>; 4] = [
        (0x8000_0000, &[], &[], [0; 8]),
        (17, usual, b"data", [0, 0, 0, 3, 0, 0, 0, 4]),
        (18, usual, b"", [0, 0, 0, 3, 0, 0, 0, 4]),
        (19, other, b"", [0, 0, 0, 5, 0, 0, 0, 6]),
    ];
    assert_eq!(maps.table.newest(&flow), None);
    for (ack, options, payload, timestamps) in cases {
        let window = 65_535 - ack as u16;
        let segment = with_options(7, ACK, (ack, window), options, payload);
        run(&programs.from_guest, &segment, 1);
        let expected = NewestSegment {
            ack,
            window,
            timestamps,
        };
        assert_eq!(maps.table.newest(&flow), Some(expected));
    }
}
