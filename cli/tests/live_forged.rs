//! Strangers who forge handshakes with a guest take nothing from that guest's honest connections, strict or
//! not. A forged handshake is two SYNs with different numbers and an ACK with a guessed one, from any address:
//! all that a stranger can send who sees no answer.
//!
//! `UC_FLOOD_SECONDS` makes each flood as long.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{MsgFlags, send};
use uc_core::{Policy, consts};
use uc_port::{AttachVia, Programs};

use crate::common::bench::frame_socket;
use crate::common::ends::{PATIENCE, listen};
use crate::common::live_with;
use crate::common::routed::{Routed, ip};
use crate::common::transfer::exchange;

/// Forged handshakes a second that a flood aims at; two quiet processors make them.
const RATE: u64 = 40_000;
/// Threads of a flood: one makes 25,000 handshakes a second.
const THREADS: u32 = 2;
/// Capacity of the table: the default.
const TABLE_FLOWS: u32 = 65_536;
/// The guest's TCP port that is flooded. Honest connections come to the next one.
const OPEN_PORT: u16 = 80;
/// The server's.
const SERVER_PORT: u16 = 5_001;
/// The longest flood, should the honest connections fail.
const LONGEST: Duration = Duration::from_secs(120);
/// The fewest honest connections that tell.
const LEAST: u32 = 100;
/// Handshakes between two looks at the clock.
const BURST: u64 = 100;
/// Pause between honest connections, which leaves the flood its processor time.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns the three frames of the `number`-th handshake, from an address of 198.18.0.0/15.
fn forged(number: u32, macs: [[u8; 6]; 2]) -> [Vec<u8>; 3] {
    let from = Ipv4Addr::from_bits(0xc612_0000 | (number >> 14) & 0x1_ffff);
    let IpAddr::V4(to) = Routed::guest(false, OPEN_PORT).ip() else {
        unreachable!("an IPv4 address");
    };
    let sequence = number.wrapping_mul(0x9e37_79b1);
    let segment = |sequence: u32, ack: Option<u32>| {
        let builder = PacketBuilder::ethernet2(macs[0], macs[1])
            .ipv4(from.octets(), to.octets(), 64)
            .tcp(
                10_000 + (number & 0x3fff) as u16,
                OPEN_PORT,
                sequence,
                64_000,
            );
        let builder = match ack {
            Some(ack) => builder.ack(ack),
            None => builder.syn().ece().cwr(),
        };
        let mut frame = Vec::new();
        builder.write(&mut frame, &[]).unwrap();
        frame
    };
    [
        segment(sequence, None),
        segment(sequence ^ 0x5555_5555, None),
        segment((sequence ^ 0x5555_5555).wrapping_add(1), Some(!sequence)),
    ]
}

/// Forges the handshakes of one of [`THREADS`] until it is told to end, at most its part of [`RATE`].
/// Returns their number.
fn flood(socket: &OwnedFd, macs: [[u8; 6]; 2], thread: u32, ends: &AtomicBool) -> u64 {
    let began = Instant::now();
    let mut number = 0;
    while !ends.load(Ordering::Relaxed) && began.elapsed() < LONGEST {
        let due = began.elapsed().as_micros() as u64 * RATE / 1_000_000 / u64::from(THREADS);
        for _ in 0..BURST.min(due - number) {
            for frame in forged(number as u32 * THREADS + thread, macs) {
                // A full queue of the interface loses a frame, as a network may.
                let _sent_or_lost = send(socket.as_raw_fd(), &frame, MsgFlags::empty());
            }
            number += 1;
        }
        if number == due {
            std::thread::sleep(Duration::from_micros(500));
        }
    }
    number
}

fn mac(namespace: &uc_lab::netns::Namespace, interface: &str) -> [u8; 6] {
    let text = ip(namespace, &format!("-json link show dev {interface}"));
    let links: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut bytes = links[0]["address"].as_str().unwrap().split(':');
    std::array::from_fn(|_| u8::from_str_radix(bytes.next().unwrap(), 16).unwrap())
}

/// Opens connections in both directions during a flood. Returns how many ended well, and were translated, of
/// how many.
fn honest(
    net: &Routed,
    is_translated: impl Fn(SocketAddr, SocketAddr) -> bool,
    until: Instant,
) -> [u32; 2] {
    let server = listen(&net.server, Routed::server(0, false, SERVER_PORT));
    let guest = listen(&net.guest, Routed::guest(false, OPEN_PORT + 1));
    let (mut good, mut all) = (0, 0);
    while Instant::now() < until || all < LEAST {
        for (from, listener, is_by_guest) in
            [(&net.guest, &server, true), (&net.server, &guest, false)]
        {
            let to = listener.local_addr().unwrap();
            let mut own = None;
            exchange(listener, || {
                let open = || TcpStream::connect_timeout(&to, PATIENCE).unwrap();
                let stream = from.enter(open).unwrap();
                own = stream.local_addr().ok();
                stream
            });
            let own = own.unwrap();
            let (guest, remote) = if is_by_guest { (own, to) } else { (to, own) };
            good += u32::from(is_translated(guest, remote));
            all += 1;
            std::thread::sleep(PAUSE);
        }
    }
    [good, all]
}

fn honest_connections_live(modes: u32) {
    if !live_with(&["ip"]) {
        return;
    }
    let net = Routed::build(&[None], 1);
    for (end, ecn) in [(&net.guest, "0"), (&net.server, "1")] {
        end.set_sysctls(&[("net.ipv4.tcp_ecn", ecn.into())])
            .unwrap();
    }
    let _open = listen(&net.guest, Routed::guest(false, OPEN_PORT));
    let programs = Programs::load(TABLE_FLOWS).unwrap();
    let policy = Policy {
        modes: modes as u8,
        ..Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX)
    };
    let attach = || {
        let ifindex = if_nametoindex("port0").unwrap();
        programs.set_plan(ifindex, &policy.into()).unwrap();
        (ifindex, programs.attach(ifindex, AttachVia::Auto).unwrap())
    };
    let (ifindex, _links) = net.host.enter(attach).unwrap();
    let macs = [mac(&net.server, "eth0"), mac(&net.host, "up0")];
    let seconds = std::env::var("UC_FLOOD_SECONDS").map_or(3, |text| text.parse().unwrap());
    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    let socket = frame_socket(&net.server);
    let (forged, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    let [good, all] = std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (forged, ends, socket) = (&forged, &ends, &socket);
            scope.spawn(move || {
                forged.fetch_add(flood(socket, macs, thread, ends), Ordering::Relaxed)
            });
        }
        let is_translated = |guest, remote| {
            let flow = programs.flow(ifindex, guest, remote).unwrap();
            flow.is_some_and(|flow| !uc_core::is_half_open(&flow.state) && flow.state.has_ecn())
        };
        let counts = honest(&net, is_translated, until);
        ends.store(true, Ordering::Relaxed);
        counts
    });
    let port = &programs.ports().unwrap()[0];
    let forged = forged.into_inner();
    println!(
        "{good} of {all} honest connections were translated; {forged} forged handshakes in {:.1} s; \
         {} flows, {} half-open, {} displaced",
        began.elapsed().as_secs_f64(),
        port.flows,
        port.half_open,
        port.displaced
    );
    assert!(good * 100 >= all * 99, "{good} of {all}");
    assert_eq!(port.refused(), 0);
    // Control: the flood has come through to the guest, which has answered, and would have filled the port.
    assert!(
        port.displaced + u64::from(port.half_open) > 10_000,
        "{}",
        port.displaced
    );
    assert!(
        port.flows - port.half_open <= all,
        "a forged handshake keeps a place"
    );
}

#[test]
fn live_honest_connections_of_a_guest_are_translated_while_strangers_forge_handshakes() {
    honest_connections_live(0);
}

#[test]
fn live_honest_connections_of_a_strict_guest_are_translated_while_strangers_forge_handshakes() {
    honest_connections_live(consts::MODE_STRICT);
}
