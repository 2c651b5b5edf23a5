//! The processes of `uc watch` are killed while handshakes wait in them: none is lost.
//!
//! Unavoidable: if a keeper and its holder are killed within the same few milliseconds, the waiting
//! handshakes are lost, and those guests' kernels retransmit their SYNs a second later.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use uc_lab::{Lab, Plan};
use uc_live::in_peace;

use crate::common::bench::{build, tcp_counter};
use crate::common::kills::Kills;
use crate::common::watcher::{Seen, Watcher};
use crate::common::{STACKS, experiment, guest, live};

const PORT: u16 = 5001;
/// Kills of a holder, unless `UC_KILLS` is given.
const KILLS: u64 = 20;
/// Time that another holder has before it is killed, too, and within which that kill then comes.
const ALIVE: Duration = Duration::from_millis(110);
const MOMENTS: Duration = Duration::from_millis(150);
/// Number of concurrent connections: at every moment some of them wait for their probes.
const AT_ONCE: usize = 32;
/// A network without a bottleneck, and with a round trip of which 1/32 is some milliseconds.
const FAR: &str = "rate = \"100Mbit\"\ndelay = \"50ms\"\n\
     queue = { kind = \"droptail\", limit = \"1MB\" }";
/// Settings with which every SYN waits as long as possible; no path is known or waited for.
const ALWAYS: [&str; 14] = [
    "--data",
    "client",
    "--span",
    "50ms",
    "--fresh",
    "0s",
    "--idle",
    "0s",
    "--wait",
    "0s",
    "--per-second",
    "1000000",
    "--at-once",
    "100000",
];

fn lab() -> (Plan, Lab) {
    let guests = format!("receiver_law = \"pass\"\n{}", guest("legacy", "legacy", ""));
    build(&experiment(1, FAR, &guests, STACKS))
}

/// Opens connections one after the other in each of some threads, until `stop` is set; each must
/// connect. Returns their number.
fn connect_all(plan: &Plan, lab: &Lab, stop: &AtomicBool) -> u64 {
    let address = SocketAddr::new(plan.servers[0].address, PORT);
    let listen = || TcpListener::bind(address).unwrap();
    let listener = lab.wiring.servers[0].enter(listen).unwrap();
    let made = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let connect = || {
                    while !stop.load(Ordering::Relaxed) {
                        TcpStream::connect(address).unwrap();
                        made.fetch_add(1, Ordering::Relaxed);
                    }
                };
                lab.wiring.guests[0].enter(connect).unwrap();
            });
        }
        scope.spawn(|| {
            listener.set_nonblocking(true).unwrap();
            while !stop.load(Ordering::Relaxed) {
                while listener.accept().is_ok() {}
                std::thread::sleep(Duration::from_millis(2));
            }
        });
    });
    made.load(Ordering::Relaxed)
}

/// Returns the retransmissions of the guest (its SYN was lost or late) and of the server (its
/// SYN-ACK was, or it received a copy of a SYN).
fn retransmissions(lab: &Lab) -> [u64; 2] {
    [&lab.wiring.guests[0], &lab.wiring.servers[0]]
        .map(|namespace| tcp_counter(namespace, "RetransSegs"))
}

/// Counts the frames from user space that were no probes; none of those is lost here. A guest's
/// retransmitted SYN beyond the held ones waited for a second, which counts as "repeated", or was
/// lost elsewhere.
fn handshakes_sent(seen: &Seen) -> u64 {
    let probes = [
        "probe",
        "probe-ce",
        "probe-truncated",
        "probe-unknown",
        "probe-forged",
        "probe-late",
        "probe-replayed",
    ];
    let probes: u64 = probes.iter().map(|event| seen.count(event)).sum();
    seen.count("injected") - seen.count("sent-already") - probes
}

#[test]
fn live_connections_survive_killed_holders_without_a_retransmitted_syn() {
    if !live() {
        return;
    }
    in_peace(|| {
        let (plan, lab) = lab();
        let watcher = Watcher::start(&lab.wiring.hosts, &["port0", "port1"], &ALWAYS);
        let stop = AtomicBool::new(false);
        let mut kills = Kills::of(KILLS);
        let mut killed = 0;
        let made = std::thread::scope(|scope| {
            let connections = scope.spawn(|| connect_all(&plan, &lab, &stop));
            while let Some(next) = kills.another() {
                std::thread::sleep(ALIVE);
                kills.sleep(&next, MOMENTS);
                if let Some(holder) = watcher.holder() {
                    kill(holder, Signal::SIGKILL).unwrap();
                    killed += 1;
                }
            }
            stop.store(true, Ordering::Relaxed);
            connections.join().unwrap()
        });
        let seen = watcher.finish();
        let holders = seen.holders();
        let text = format!(
            "{made} connections, {killed} kills, {holders} holders, {}",
            seen.all()
        );
        println!("{text}");
        assert!(made > 10 * killed && killed > 0, "{text}");
        assert!(seen.count("held") > made / 2, "{text}");
        assert_eq!(handshakes_sent(&seen), seen.count("held"), "{text}");
        assert_eq!(retransmissions(&lab), [0, 0], "{text}");
    });
}

#[test]
fn live_killing_a_keeper_loses_no_connection() {
    if !live() {
        return;
    }
    in_peace(|| {
        let (plan, lab) = lab();
        let watcher = Watcher::start(&lab.wiring.hosts, &["port0", "port1"], &ALWAYS);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let connections = scope.spawn(|| connect_all(&plan, &lab, &stop));
            std::thread::sleep(Duration::from_millis(500));
            watcher.kill();
            // And without any watch.
            std::thread::sleep(Duration::from_millis(500));
            stop.store(true, Ordering::Relaxed);
            assert!(connections.join().unwrap() > AT_ONCE as u64);
        });
        assert_eq!(retransmissions(&lab), [0, 0]);
    });
}

/// A stopped holder does not report: the keeper sends what it holds, and nothing more is held.
#[test]
fn live_a_hanging_holder_delays_no_connection() {
    if !live() {
        return;
    }
    in_peace(|| {
        let (plan, lab) = lab();
        let watcher = Watcher::start(&lab.wiring.hosts, &["port0", "port1"], &ALWAYS);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let connections = scope.spawn(|| connect_all(&plan, &lab, &stop));
            std::thread::sleep(Duration::from_millis(300));
            let holder = watcher.holder().unwrap();
            kill(holder, Signal::SIGSTOP).unwrap();
            std::thread::sleep(Duration::from_millis(1_500));
            kill(holder, Signal::SIGCONT).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
            assert!(connections.join().unwrap() > 0);
        });
        let seen = watcher.finish();
        println!("{}", seen.all());
        assert!(seen.count("nobody") > 0, "{}", seen.all());
        assert_eq!(retransmissions(&lab), [0, 0], "{}", seen.all());
    });
}
