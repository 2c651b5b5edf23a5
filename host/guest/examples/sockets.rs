//! Measures what `uc flows --truth` costs: finding namespaces, and asking for one socket among many.
//!
//! `cargo run --release -p uc-guest --example sockets -- 1000` does so with 1,000 connections, as root, in
//! a network namespace of its own.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Instant;

use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, unshare};
use uc_guest::sockets::Tenants;

const QUESTIONS: usize = 20_000;

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).status();
    assert!(done.is_ok_and(|status| status.success()), "ip {arguments}");
}

fn main() {
    let asked = std::env::args().nth(1);
    let connections: usize = asked.map_or(1000, |text| text.parse().unwrap());
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    ip("link set lo up");
    // The guest of one port is in this namespace, that of the other in one without a process or name,
    // for which all processes and names of the host are looked through.
    let hidden = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        File::open("/proc/thread-self/ns/net").unwrap()
    });
    let hidden = hidden.join().unwrap();
    let path = format!("/proc/{}/fd/{}", std::process::id(), hidden.as_raw_fd());
    ip("link add here type veth peer name here1");
    ip(&format!(
        "link add there type veth peer name there1 netns {path}"
    ));
    let ports = ["here", "there"].map(|name| if_nametoindex(name).unwrap());

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let open = |_| (TcpStream::connect(to).unwrap(), listener.accept().unwrap());
    let open: Vec<_> = (0..connections).map(open).collect();
    let ends: Vec<SocketAddr> = open
        .iter()
        .map(|(near, _)| near.local_addr().unwrap())
        .collect();

    let started = Instant::now();
    let tenants = Tenants::find(&BTreeSet::from(ports)).unwrap();
    println!(
        "looked for {} namespaces: {:.1?}",
        ports.len(),
        started.elapsed()
    );
    assert_eq!(tenants.absent().count(), 1);
    let started = Instant::now();
    for number in 0..QUESTIONS {
        let from = ends[number % connections];
        let socket = tenants.socket(ports[0], from, to).unwrap();
        assert!(socket.is_some(), "{from}");
    }
    let each = started.elapsed() / QUESTIONS as u32;
    println!("{connections} connections: {each:.1?} a socket, mean of {QUESTIONS}");
}
