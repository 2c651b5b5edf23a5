//! Gaps between arrivals as a signal (HWatch §3.4) between real kernels: probes that wait behind a
//! growing queue count as marked, though no switch marked them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use uc_lab::{Lab, Plan};
use uc_live::in_peace;

use crate::common::bench::{build, complete_checksums, tcp_counter};
use crate::common::watcher::{Seen, Watcher};
use crate::common::{STACKS, experiment, guest, live};

const PORT: u16 = 5001;
/// A queue without marks or losses, which holds a quarter of a second.
const NETWORK: &str = "rate = \"10Mbit\"\naccess_rate = \"100Mbit\"\ndelay = \"1ms\"\n\
     queue = { kind = \"droptail\", limit = \"300kB\" }";
/// 1.5 times the link's rate, so that a queue grows by 25 ms while probes are sent.
const DATAGRAM_BYTES: usize = 1_458;
const EVERY: Duration = Duration::from_micros(800);

fn lab() -> (Plan, Lab) {
    let guests = format!("receiver_law = \"pass\"\n{}", guest("legacy", "legacy", ""));
    let (plan, lab) = build(&experiment(1, NETWORK, &guests, STACKS));
    for namespace in [&lab.wiring.guests[0], &lab.wiring.servers[0]] {
        complete_checksums(namespace, "eth0");
    }
    (plan, lab)
}

/// Sends datagrams from the guest to an unused port, until `stop`, on average at this rate.
fn flood(socket: &UdpSocket, stop: &AtomicBool) {
    let began = std::time::Instant::now();
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        while EVERY * sent <= began.elapsed() {
            // The other end refuses them, or there are too many at once: both are fine.
            let _refused = socket.send(&[0; DATAGRAM_BYTES]);
            sent += 1;
        }
        thread::sleep(EVERY);
    }
}

/// Opens one connection while a queue grows in front of it. Returns what the hosts counted.
fn connect_into_a_growing_queue(late: &str) -> Seen {
    let (plan, lab) = lab();
    let (guest, server) = (&lab.wiring.guests[0], &lab.wiring.servers[0]);
    let address = SocketAddr::new(plan.servers[0].address, PORT);
    let listener = server
        .enter(|| TcpListener::bind(address).unwrap())
        .unwrap();
    let any = SocketAddr::new(plan.guests[0].address, 0);
    let socket = guest.enter(|| UdpSocket::bind(any).unwrap()).unwrap();
    socket
        .connect(SocketAddr::new(plan.servers[0].address, 9))
        .unwrap();
    let arguments = ["--data", "client", "--span", "50ms", "--late", late];
    let watcher = Watcher::start(&lab.wiring.hosts, &["port0", "port1"], &arguments);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| flood(&socket, &stop));
        let mut stream = guest
            .enter(|| TcpStream::connect(address).unwrap())
            .unwrap();
        stop.store(true, Ordering::Relaxed);
        stream.write_all(b"and that is all").unwrap();
    });
    let mut text = String::new();
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.read_to_string(&mut text).unwrap();
    assert_eq!(text, "and that is all");
    assert_eq!(tcp_counter(guest, "RetransSegs"), 0);
    watcher.finish()
}

#[test]
fn live_probes_behind_a_queue_that_grows_count_as_marked_where_late_is_set() {
    if !live() {
        return;
    }
    in_peace(probes_are_late);
}

fn probes_are_late() {
    let seen = connect_into_a_growing_queue("2ms");
    println!("late 2ms: {}", seen.all());
    assert!(seen.count("probe-slow") >= 3, "{}", seen.all());
    assert_eq!(
        seen.count("probe") + seen.count("probe-slow"),
        10,
        "{}",
        seen.all()
    );
    for bad in [
        "probe-ce",
        "probe-forged",
        "probe-unknown",
        "probe-replayed",
    ] {
        assert_eq!(seen.count(bad), 0, "{}", seen.all());
    }
    let seen = connect_into_a_growing_queue("0s");
    println!("late 0s: {}", seen.all());
    assert_eq!(
        (seen.count("probe"), seen.count("probe-slow")),
        (10, 0),
        "{}",
        seen.all()
    );
}
