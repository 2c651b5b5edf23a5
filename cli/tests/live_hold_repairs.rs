//! `uc hold` repairs the losses of guests' data, and spreads their ACKs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use uc_lab::pattern::Pattern;
use uc_live::in_peace;

use crate::common::bench::tcp_counter;
use crate::common::ends::{listen, open, receive, send};
use crate::common::held::{Held, acks_to, count};
use crate::common::lost::{
    CONNECTIONS, PACKET_BYTES, SEGMENTS, lose_full_packets, lose_nothing, lose_the_next_window,
    send_singly,
};
use crate::common::routed::{Routed, ip};
use crate::common::sandbox::Sandbox;
use crate::common::uc::success;
use crate::common::{by_hand, live_with};

/// Programs that the tests run.
const TOOLS: [&str; 2] = ["ip", "nft"];
/// Time within which `uc hold` finds out which flows a law translates; it asks each second.
const ASKED_AGAIN: Duration = Duration::from_secs(3);
/// Bytes of a transfer whose ACKs are counted.
const BYTES: u64 = 4_000_000;

fn can_run() -> bool {
    live_with(&TOOLS) && live_with(&by_hand::TOOLS)
}

/// Builds the network, with a law on the port.
fn network() -> (Routed, Sandbox) {
    let (net, sandbox) = (Routed::build(&[None], 1), Sandbox::new());
    success(sandbox.uc(&net.host, &["attach", "port0", "--law", "ecn"]));
    (net, sandbox)
}

/// Has segments leave the guest one by one, and the guest use neither tail loss probes nor RACK.
fn without_probes(net: &Routed) {
    send_singly(net);
    net.guest
        .set_sysctls(&[
            ("net.ipv4.tcp_early_retrans", "0".into()),
            ("net.ipv4.tcp_recovery", "0".into()),
        ])
        .unwrap();
}

/// Loses a window of the guest's; all its bytes arrive, once.
fn lose_a_window(net: &Routed, (mut guest, mut server): (&TcpStream, &TcpStream)) {
    let is_ipv6 = guest.local_addr().unwrap().is_ipv6();
    let headers = if is_ipv6 { 72 } else { 52 };
    let bytes = (SEGMENTS * (PACKET_BYTES - headers)) as usize;
    lose_the_next_window(net);
    // Without the end of the stream, whose packet is short and would arrive.
    let pattern = Pattern::default();
    let sent = &pattern.chunk(0)[..bytes];
    guest.write_all(sent).unwrap();
    let mut received = vec![0; bytes];
    server.read_exact(&mut received).unwrap();
    assert!(received == sent, "other bytes");
}

/// Opens connections one after the other, each of which loses its only window; all bytes arrive, once.
/// Returns how often the guest's timer expired, and how many segments the guest retransmitted.
fn lose_windows(net: &Routed, is_ipv6: bool) -> [u64; 2] {
    let listener = listen(&net.server, Routed::server(0, is_ipv6, 80));
    let counters = || ["TCPTimeouts", "RetransSegs"].map(|name| tcp_counter(&net.guest, name));
    let before = counters();
    for _ in 0..CONNECTIONS {
        let (guest, server) = open(&net.guest, &listener);
        lose_a_window(net, (&guest, &server));
    }
    let after = counters();
    [after[0] - before[0], after[1] - before[1]]
}

#[test]
fn live_lost_windows_are_repaired_by_the_host_and_without_hold_by_the_guests_timer() {
    if !can_run() {
        return;
    }
    let (net, sandbox) = network();
    without_probes(&net);
    for is_ipv6 in [false, true] {
        let [timeouts, retransmitted] = lose_windows(&net, is_ipv6);
        println!("without: {timeouts} timeouts, the guest retransmits {retransmitted}");
        assert!(timeouts >= CONNECTIONS, "{timeouts} timeouts");
        let held = Held::start(&net, &sandbox, &["--buffer"]);
        let [timeouts, retransmitted] = lose_windows(&net, is_ipv6);
        println!("with: {timeouts} timeouts, the guest retransmits {retransmitted}");
        let numbers = held.end();
        // A machine that holds the process up for 200 ms lets a timer expire.
        assert!(timeouts <= CONNECTIONS / 2, "{timeouts} timeouts");
        let by_host = count(&numbers, "retransmits");
        assert!(by_host >= CONNECTIONS * SEGMENTS / 2, "{by_host}");
        assert!(count(&numbers, "timeouts") >= CONNECTIONS / 2, "{numbers}");
    }
    success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
}

/// Sends from the guest. Returns the number of ACKs that the guest got, and the number of those that
/// acknowledged more than two segments.
fn count_acks(net: &Routed, is_ipv6: bool, port: u16) -> (usize, usize) {
    let listener = listen(&net.server, Routed::server(0, is_ipv6, port));
    let acks = acks_to(&net.guest, port, || {
        let (guest, server) = open(&net.guest, &listener);
        thread::scope(|scope| {
            scope.spawn(|| send(&guest, BYTES));
            assert_eq!(receive(&server), BYTES);
        });
    });
    // From the SYN-ACK on.
    let mut highest = acks[0];
    let mut stretched = Vec::new();
    for &ack in &acks {
        let more = ack.wrapping_sub(highest);
        if more < 1 << 31 {
            if u64::from(more) > 2 * PACKET_BYTES {
                stretched.push(more);
            }
            highest = ack;
        }
    }
    let (all, many, largest) = (acks.len(), stretched.len(), stretched.iter().max());
    println!(
        "{many} of {all} ACKs are of more than two segments, the largest of {largest:?} bytes"
    );
    (all, many)
}

#[test]
fn live_paced_acks_acknowledge_at_most_two_segments_each() {
    if can_run() {
        in_peace(pace_acks);
    }
}

fn pace_acks() {
    let (net, sandbox) = network();
    // A guest that retransmits gets ACKs undivided. It probes as soon as this machine pauses for two round trips.
    net.guest
        .set_sysctls(&[("net.ipv4.tcp_early_retrans", "0".into())])
        .unwrap();
    for is_ipv6 in [false, true] {
        let (acks, stretched) = count_acks(&net, is_ipv6, 80);
        assert!(stretched > 10, "{stretched} of {acks}");
        let held = Held::start(&net, &sandbox, &["--pace"]);
        let (acks, stretched) = count_acks(&net, is_ipv6, 81);
        let numbers = held.end();
        assert_eq!(stretched, 0, "of {acks}");
        assert!(acks as u64 >= BYTES / (2 * PACKET_BYTES), "{acks}");
        assert!(count(&numbers, "acks_added") > 0, "{numbers}");
    }
    success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
}

#[test]
fn live_retransmission_of_the_host_carries_the_newest_ack_of_the_guest() {
    if !can_run() {
        return;
    }
    let (net, sandbox) = network();
    // The guest's own timer does not expire.
    net.guest
        .set_sysctls(&[("net.ipv4.tcp_early_retrans", "0".into())])
        .unwrap();
    ip(&net.guest, "route change default via 10.1.0.1 rto_min 10s");
    let held = Held::start(&net, &sandbox, &["--buffer"]);
    let listener = listen(&net.server, Routed::server(0, false, 80));
    let (guest, server) = open(&net.guest, &listener);
    let port = guest.local_addr().unwrap().port();
    let (lost, answer) = ([7; 1200], vec![8; 100_000]);
    let acks = acks_to(&net.server, port, || {
        lose_full_packets(&net);
        (&guest).write_all(&lost).unwrap();
        // The guest acknowledges all this without data.
        thread::scope(|scope| {
            scope.spawn(|| (&server).write_all(&answer).unwrap());
            (&guest).read_exact(&mut vec![0; answer.len()]).unwrap();
        });
        lose_nothing(&net);
        (&server).read_exact(&mut vec![0; lost.len()]).unwrap();
    });
    let back = |pair: &&[u32]| pair[1].wrapping_sub(pair[0]) > 1 << 31;
    let back: Vec<_> = acks.windows(2).filter(back).collect();
    assert!(back.is_empty(), "ACK numbers go back: {back:?}");
    assert!(count(&held.end(), "retransmits") > 0);
    assert_eq!(tcp_counter(&net.guest, "RetransSegs"), 0);
    success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
}

#[test]
fn live_losses_are_left_to_the_guest_while_no_law_answers_them() {
    if !can_run() {
        return;
    }
    let (net, sandbox) = network();
    without_probes(&net);
    let held = Held::start(&net, &sandbox, &["--buffer"]);
    let listener = listen(&net.server, Routed::server(0, false, 80));
    let (guest, server) = open(&net.guest, &listener);
    success(sandbox.uc(&net.host, &["detach", "port0", "--now"]));
    thread::sleep(ASKED_AGAIN);
    let before = tcp_counter(&net.guest, "RetransSegs");
    lose_a_window(&net, (&guest, &server));
    let by_guest = tcp_counter(&net.guest, "RetransSegs") - before;
    assert!(by_guest >= SEGMENTS, "{by_guest}");
    assert_eq!(count(&held.end(), "retransmits"), 0);

    // With new programs, whose pins are others.
    success(sandbox.uc(&net.host, &["attach", "port0", "--law", "ecn"]));
    let held = Held::start(&net, &sandbox, &["--buffer"]);
    success(sandbox.uc(&net.host, &["detach", "port0", "--now"]));
    success(sandbox.uc(&net.host, &["attach", "port0", "--law", "ecn"]));
    thread::sleep(ASKED_AGAIN);
    let (guest, server) = open(&net.guest, &listener);
    lose_a_window(&net, (&guest, &server));
    let numbers = held.end();
    assert!(count(&numbers, "retransmits") > 0, "{numbers}");
    success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
}
