//! A granter that stops, is killed and comes back: flows start all the same.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};

use crate::common::bench::build;
use crate::common::uc::success;
use crate::common::watcher::{GranterProcess, Key, PEERS, Watcher};
use crate::common::{AMPLE, STACKS, experiment, guest, live, transfer};

/// The granter's address, in the namespace of all hosts.
const GRANTER: &str = "127.0.0.1:6654";
const RATE: &str = "1Gbit";

#[test]
fn live_flows_start_while_the_granter_is_stopped_killed_and_back() {
    if !live() {
        return;
    }
    let guests = format!("receiver_law = \"pass\"\n{}", guest("legacy", "legacy", ""));
    let (plan, lab) = build(&experiment(1, AMPLE, &guests, STACKS));
    let hosts = &lab.wiring.hosts;
    let mut up = hosts.command("ip");
    up.args(["link", "set", "lo", "up"]);
    success(up);
    let key = Key::make();
    let granter = GranterProcess::start(&key, hosts, GRANTER, RATE);
    let options = ["--data", "client", "--pace", RATE, "--granter", GRANTER];
    let arguments = [&PEERS, &options[..]].concat();
    let watcher = Watcher::start_with(&key, hosts, &["port0", "port1"], &arguments);
    let address = SocketAddr::new(plan.servers[0].address, 5001);
    let listen = || TcpListener::bind(address).unwrap();
    let listener = lab.wiring.servers[0].enter(listen).unwrap();
    let exchange = || {
        let began = Instant::now();
        let connect = || TcpStream::connect(address).unwrap();
        let guest = &lab.wiring.guests[0];
        transfer::exchange(&listener, || guest.enter(connect).unwrap());
        // A handshake that is lost takes a second.
        assert!(began.elapsed() < Duration::from_millis(900));
        thread::sleep(Duration::from_millis(30));
    };
    (0..3).for_each(|_| exchange());
    kill(granter.id(), Signal::SIGSTOP).unwrap();
    (0..3).for_each(|_| exchange());
    kill(granter.id(), Signal::SIGCONT).unwrap();
    let (before, _) = granter.finish();
    (0..3).for_each(|_| exchange());
    let granter = GranterProcess::start(&key, hosts, GRANTER, RATE);
    (0..5).for_each(|_| exchange());
    let (after, _) = granter.finish();
    let seen = watcher.finish();
    println!("{before} and {after}: {}", seen.all());
    assert!(
        before >= 1 && after >= 1,
        "{before} and {after}: {}",
        seen.all()
    );
    let asked = seen.count("asked");
    // Some flows began without a question: the second and third of each time without a granter.
    assert!((before + after..14 - 2).contains(&asked), "{}", seen.all());
}
