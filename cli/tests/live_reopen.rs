//! A SYN into a live flow, between real kernels: an unanswered one ends no translation, and the
//! answer to one starts a new translated connection on the same TCP ports.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use nix::sys::socket::{MsgFlags, send};
use uc_core::{Flow, Policy, Reason, consts};
use uc_lab::{Lab, Plan};
use uc_live::in_peace;

use crate::common::bench::{Translation, build, frame_socket};
use crate::common::transfer::{End, Transfer, connection};
use crate::common::{RED1, STACKS, experiment, guest, live};

const GUEST_PORT: u16 = 40_000;
const REMOTE_PORT: u16 = 5001;

fn lab() -> (Plan, Lab, Translation) {
    let text = guest("virtual", "legacy", "law = \"ecn\"");
    let (plan, lab) = build(&experiment(1, RED1, &text, STACKS));
    let guarded = |policy| Policy {
        guard_segments: 1,
        ..policy
    };
    let translation = Translation::attach_with(&plan, &lab.wiring.hosts, 64, guarded);
    (plan, lab, translation)
}

fn ends<'a>(plan: &Plan, lab: &'a Lab) -> (End<'a>, End<'a>) {
    let guest = End {
        namespace: &lab.wiring.guests[0],
        address: SocketAddr::new(plan.guests[0].address, GUEST_PORT),
    };
    let remote = End {
        namespace: &lab.wiring.servers[0],
        address: SocketAddr::new(plan.servers[0].address, REMOTE_PORT),
    };
    (guest, remote)
}

fn flow(plan: &Plan, translation: &Translation, guest: End<'_>, remote: End<'_>) -> Flow {
    let port = &plan.guests[0].port;
    let view = translation.flow(port, guest.address, remote.address);
    view.unwrap_or_else(|| panic!("no flow: {}", translation.counts()))
        .state
}

/// Closes a socket as a crash does: the other end never learns of it.
fn lose(socket: TcpStream) {
    let repair: libc::c_int = 1;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    let (fd, value) = (socket.as_raw_fd(), (&raw const repair).cast());
    // SAFETY: the pointer is to a live integer of the length given.
    let answer =
        unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_REPAIR, value, length) };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
}

/// Sends a few bytes each way, and leaves time for the last ACK.
fn talk(one: &mut TcpStream, other: &mut TcpStream) {
    let mut buffer = [0; 4];
    one.write_all(b"ping").unwrap();
    other.read_exact(&mut buffer).unwrap();
    other.write_all(b"pong").unwrap();
    one.read_exact(&mut buffer).unwrap();
    std::thread::sleep(Duration::from_millis(300));
}

/// Lets the guest send for `time` as fast as it may; returns the bytes that have arrived.
fn pour(from_guest: TcpStream, mut at_remote: TcpStream, time: Duration) -> u64 {
    let (mut writer, until) = (from_guest, Instant::now() + time);
    let sender = std::thread::spawn(move || {
        while Instant::now() < until {
            writer.write_all(&[0x5a; 16_384]).unwrap();
        }
    });
    at_remote
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let (mut buffer, mut bytes) = (vec![0; 65_536], 0);
    loop {
        match at_remote.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => bytes += length as u64,
            Err(error) => panic!("after {bytes} bytes: {error}"),
        }
    }
    sender.join().unwrap();
    bytes
}

/// Connects again between the same TCP ports after one end has lost its connection, while the
/// port's table still has the old flow.
fn connects_again(by_guest: bool) {
    let (plan, lab, translation) = lab();
    let (guest, remote) = ends(&plan, &lab);
    let (from, to) = if by_guest {
        (guest, remote)
    } else {
        (remote, guest)
    };
    let (mut lost, mut kept) = connection(from, to, libc::IPPROTO_TCP);
    talk(&mut lost, &mut kept);
    let old = flow(&plan, &translation, guest, remote);
    assert_eq!(u32::from(old.stage), consts::TRANSLATING);
    lose(lost);
    let (connected, accepted) = connection(from, to, libc::IPPROTO_TCP);
    let (sends, receives) = if by_guest {
        (connected, accepted)
    } else {
        (accepted, connected)
    };
    let new = flow(&plan, &translation, guest, remote);
    assert_eq!(u32::from(new.stage), consts::TRANSLATING);
    assert_ne!(new.snd_una, old.snd_una, "the new one's numbers");
    let bytes = pour(sends, receives, Duration::from_secs(4));
    let after = flow(&plan, &translation, guest, remote);
    let beyond = translation.count(Reason::BEYOND_EDGE);
    println!("{bytes} bytes, {} cuts, {beyond} beyond", after.cuts);
    println!("{}", translation.counts());
    // 10 Mb/s for four seconds, less what window reductions cost on so short a path.
    assert!(bytes > 3_500_000 && after.cuts > 2 && beyond == 0);
    drop(kept);
}

#[test]
fn live_a_peer_that_lost_its_connection_and_connects_again_finds_a_translated_guest() {
    if live() {
        in_peace(|| connects_again(false));
    }
}

#[test]
fn live_a_guest_that_lost_its_connection_and_connects_again_is_translated() {
    if live() {
        in_peace(|| connects_again(true));
    }
}

#[test]
fn live_a_forged_reset_and_then_a_forged_syn_end_no_translation() {
    if !live() {
        return;
    }
    let (plan, lab, translation) = lab();
    let (guest, remote) = ends(&plan, &lab);
    let transfer = Transfer::start(guest, remote);
    std::thread::sleep(Duration::from_millis(1500));
    let before = flow(&plan, &translation, guest, remote);
    let socket = frame_socket(&lab.wiring.servers[0]);
    let (IpAddr::V4(source), IpAddr::V4(to)) = (remote.address.ip(), guest.address.ip()) else {
        panic!("an IPv4 plan");
    };
    for number in 0..50u32 {
        let forged = |is_reset: bool| {
            let builder = PacketBuilder::ethernet2(plan.servers[0].mac, plan.guests[0].mac)
                .ipv4(source.octets(), to.octets(), 64)
                .tcp(REMOTE_PORT, GUEST_PORT, number << 24, 64_000);
            let builder = if is_reset {
                builder.rst()
            } else {
                builder.syn()
            };
            let mut frame = Vec::new();
            builder.write(&mut frame, &[]).unwrap();
            send(socket.as_raw_fd(), &frame, MsgFlags::empty()).unwrap();
        };
        forged(true);
        forged(false);
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(1500));
    let after = flow(&plan, &translation, guest, remote);
    println!("{} cuts, then {}", before.cuts, after.cuts);
    println!("{}", translation.counts());
    assert!(translation.count(Reason::NO_HANDSHAKE) >= 50, "they came");
    assert_eq!(u32::from(after.stage), consts::TRANSLATING);
    assert!(
        after.cuts > before.cuts && (after.timed_tick.wrapping_sub(before.timed_tick) as i32) > 0
    );
    transfer.finish();
}
