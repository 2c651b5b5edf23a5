//! `uc split` is killed at random moments: split connections are reset within a second, and others of
//! the guest go on.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::common::bench::wait_until;
use crate::common::ends::reset;
use crate::common::kills::Kills;
use crate::common::live_with;
use crate::common::routed::{Routed, path};
use crate::common::transfer::{End, Transfer};

/// Kills of the process, unless `UC_KILLS` is given.
const KILLS: u64 = 50;
/// Longest time until an end of a split connection sees the reset.
const WITHIN: Duration = Duration::from_secs(1);

/// Writes and reads until the connection fails; returns how. A stream that ends in order is a failure
/// of the test, since neither end closes.
fn use_up(mut stream: TcpStream, writes: bool) -> (ErrorKind, Instant) {
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
        .set_write_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut chunk = vec![1; 16_384];
    loop {
        let done = match writes {
            true => stream.write(&chunk),
            false => stream.read(&mut chunk),
        };
        match done {
            Ok(0) => return (ErrorKind::UnexpectedEof, Instant::now()),
            Ok(_) => {}
            Err(error) => return (error.kind(), Instant::now()),
        }
    }
}

#[test]
fn live_kills_at_random_moments_reset_split_connections_and_touch_no_other() {
    if !live_with(&["ip", "nft"]) {
        return;
    }
    let mut kills = Kills::of(KILLS);
    let net = Routed::build(&[Some(path(100, 1, 0))], 1);
    let light = Transfer::start_paced(
        End {
            namespace: &net.guest,
            address: Routed::guest(false, 40_000),
        },
        End {
            namespace: &net.server,
            address: Routed::server(0, false, 5001),
        },
        250_000,
    );
    light.reach(10_000);
    let mut longest = Duration::ZERO;
    while let Some(kill) = kills.another() {
        let is_ipv6 = kill.number % 2 == 1;
        let at = Routed::server(0, is_ipv6, 80);
        let listener = net.server.enter(|| TcpListener::bind(at).unwrap()).unwrap();
        let split = net.split(&[]);
        let mut ends = Vec::new();
        for number in 0..4 {
            let guest = net.guest.enter(|| TcpStream::connect(at).unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            // Up, down, idle towards each end.
            for (name, stream, writes) in [
                ("guest", guest, number == 0),
                ("server", server, number == 1),
            ] {
                let name = format!("the {name}'s end of connection {number}");
                ends.push((name, std::thread::spawn(move || use_up(stream, writes))));
            }
        }
        // One that the kill meets while it is being opened.
        let opening = net.guest.enter(|| TcpStream::connect(at).unwrap()).unwrap();
        let name = "the guest's end of a connection that opens".to_owned();
        ends.push((name, std::thread::spawn(move || use_up(opening, false))));
        kills.sleep(&kill, Duration::from_millis(100));
        let killed = Instant::now();
        drop(split);
        for (name, end) in ends {
            let (how, when) = end.join().unwrap();
            let is_reset = matches!(how, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
            assert!(is_reset, "{name}: {how:?}");
            let after = when.saturating_duration_since(killed);
            assert!(after < WITHIN, "{name}: {after:?}");
            longest = longest.max(after);
        }
        drop(listener);
        light.reach(light.delivered_bytes() + 1);
    }
    println!("each end of a split connection was reset within {longest:?}");
    assert!(light.finish() > 100_000);
}

#[test]
fn live_ends_whose_resets_are_lost_or_not_taken_are_reset_by_their_next_packet() {
    if !live_with(&["ip", "nft"]) {
        return;
    }
    let net = Routed::build(&[None], 1);
    // What the host sends while the process is killed: no reset leaves it; or no data, so that each end
    // waits for a segment before the reset, and asks by an ACK whether it is meant (RFC 5961 section 3.2).
    for (lost, match_rule) in [
        ("resets", "tcp flags & rst == rst"),
        ("data", "meta length > 500"),
    ] {
        for is_ipv6 in [false, true] {
            let at = Routed::server(0, is_ipv6, 80);
            let listener = net.server.enter(|| TcpListener::bind(at).unwrap()).unwrap();
            let split = net.split(&[]);
            let guest = net.guest.enter(|| TcpStream::connect(at).unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            let ends = [("guest", guest), ("server", server)].map(|(name, stream)| {
                let reader = stream.try_clone().unwrap();
                std::thread::spawn(move || use_up(reader, false));
                (name, std::thread::spawn(move || use_up(stream, true)))
            });
            let lose = "chain out { type filter hook output priority 0; meta l4proto tcp";
            net.nft(&format!(
                "table inet lose {{ {lose} {match_rule} counter drop; }}; }}"
            ));
            let losses = || {
                let listed = net.nft("list table inet lose");
                let count = listed.split("counter packets ").nth(1).unwrap();
                count.split(' ').next().unwrap().parse::<u64>().unwrap()
            };
            if lost == "data" {
                wait_until("data are lost", || losses() >= 2);
            }
            drop(split);
            let case = format!("{lost} lost, IPv6: {is_ipv6}");
            assert!(losses() >= 2, "{case}");
            let healed = Instant::now();
            net.nft("delete table inet lose");
            for (name, end) in ends {
                let (how, when) = end.join().unwrap();
                let is_reset = matches!(how, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
                let after = when.saturating_duration_since(healed);
                println!("{case}, the {name}: {how:?} after {after:?}");
                assert!(is_reset, "{case}, the {name}: {how:?} after {after:?}");
            }
        }
    }
}

#[test]
fn live_guest_that_uses_the_port_of_a_killed_connection_again_is_not_reset() {
    if !live_with(&["ip", "nft"]) {
        return;
    }
    let net = Routed::build(&[Some(path(100, 20, 0))], 1);
    // One port for all connections of the guest.
    let ports = ("net.ipv4.ip_local_port_range", "41000 41000".into());
    net.guest.set_sysctls(&[ports]).unwrap();
    for is_ipv6 in [false, true] {
        let at = Routed::server(0, is_ipv6, 80);
        let listener = net.server.enter(|| TcpListener::bind(at).unwrap()).unwrap();
        let connect = || {
            let guest = net.guest.enter(|| TcpStream::connect(at).unwrap()).unwrap();
            guest
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            (guest, listener.accept().unwrap().0)
        };
        let split = net.split(&[]);
        let (guest, server) = connect();
        // The far end's data are on their way when the process is killed, and for 40 ms after.
        let down = std::thread::spawn(move || use_up(server, true));
        let mut first = [0; 16_384];
        (&guest).read_exact(&mut first).unwrap();
        drop(split);
        use_up(guest, false);
        let (mut guest, server) = connect();
        down.join().unwrap();
        let echo = std::thread::spawn(move || echo(server));
        guest.write_all(b"?").unwrap();
        assert_eq!(guest.read(&mut [0]).unwrap(), 1, "IPv6: {is_ipv6}");
        echo.join().unwrap();
        reset(guest);
    }
}

/// Sends the first byte back; a guest that resets or closes its connection at once sends none.
fn echo(mut server: TcpStream) {
    server.set_nonblocking(false).unwrap();
    let mut first = [0];
    if matches!(server.read(&mut first), Ok(1)) {
        let _reset_meanwhile = server.write_all(&first);
    }
}

/// Returns the number of a process's descriptors.
fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .count()
}

#[test]
fn live_thousands_of_short_connections_leave_no_descriptor() {
    const EACH: usize = 500;
    if !live_with(&["ip", "nft"]) {
        return;
    }
    let net = Routed::build(&[None], 1);
    let split = net.split(&[]);
    let at = Routed::server(0, false, 80);
    let listener = net.server.enter(|| TcpListener::bind(at).unwrap()).unwrap();
    let before = descriptors(split.id());
    listener.set_nonblocking(true).unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // How many arrive is open: some are reset before.
            while !ends.load(Relaxed) {
                match listener.accept() {
                    Ok((server, _)) => drop(scope.spawn(move || echo(server))),
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        });
        let guests = [0, 1, 2, 3].map(|number| {
            let net = &net;
            scope.spawn(move || {
                for _ in 0..EACH {
                    let mut guest = net.guest.enter(|| TcpStream::connect(at).unwrap()).unwrap();
                    match number {
                        0 => reset(guest),
                        1 => drop(guest),
                        _ => {
                            guest.write_all(b"?").unwrap();
                            assert_eq!(guest.read(&mut [0]).unwrap(), 1);
                        }
                    }
                }
            })
        });
        let ended = guests.map(|guest| guest.join());
        ends.store(true, Relaxed);
        ended.into_iter().for_each(Result::unwrap);
    });
    wait_until("all have ended", || net.total("open") == 0);
    let ended = ["orderly", "reset", "refused"].map(|name| net.total(name));
    println!("ended in order, by reset, before they were established: {ended:?}");
    assert_eq!(ended.iter().sum::<u64>(), net.total("split"));
    assert!(ended[0] >= 2 * EACH as u64, "{ended:?}");
    // Spare pipes stay.
    let after = descriptors(split.id());
    assert!(
        after <= before + 2 * 64 * 2,
        "{before} descriptors before, {after} after"
    );
    split.end();
}
