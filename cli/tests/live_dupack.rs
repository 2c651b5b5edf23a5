//! `uc dupack`: guests whose last segments are lost retransmit by the host's duplicate ACKs, not by their
//! timers.

mod common;

use std::io::Write;
use std::thread;

use common::ends::{listen, open, receive, send};
use common::process::Process;
use common::routed::{Routed, ip};
use common::sandbox::Sandbox;
use common::uc::{refusal, success};
use common::{by_hand, live_with};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use uc_lab::netns::Namespace;

const TOOLS: [&str; 2] = ["ip", "nft"];
const ATTACH: [&str; 6] = [
    "attach",
    "port0",
    "--law",
    "ecn",
    "--no-sack",
    "--no-timestamps",
];
/// Connections whose only window is lost; segments of each, which leave at once.
const CONNECTIONS: u64 = 10;
const SEGMENTS: u64 = 8;
/// Size of a full packet.
const PACKET_BYTES: u64 = 1500;

fn can_run() -> bool {
    live_with(&TOOLS) && live_with(&by_hand::TOOLS)
}

/// A guest whose segments leave one by one, so that the host can drop single ones.
fn network() -> Routed {
    let net = Routed::build(&[None], 1);
    ip(&net.guest, "link set eth0 gso_max_segs 1");
    net
}

/// Runs `uc dupack port0` until it is dropped, which kills it, or ended.
fn dupack(net: &Routed, sandbox: &Sandbox) -> Process {
    let mut process = Process::start(sandbox.uc(&net.host, &["dupack", "port0", "--json"]));
    process.says("duplicate_acks");
    process
}

/// Ends the command; returns how many duplicate ACKs it sent, and in how many rounds.
fn end(mut process: Process) -> (u64, u64) {
    kill(Pid::from_raw(process.id() as i32), Signal::SIGTERM).unwrap();
    let last = process.lines.by_ref().last().unwrap().unwrap();
    assert_eq!(process.status(), Some(0));
    let counts: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert_eq!(counts["unknown_guests"], 0, "{last}");
    let count = |name: &str| counts[name].as_u64().unwrap();
    (count("duplicate_acks"), count("rounds"))
}

/// Makes the host drop the next [`SEGMENTS`] full packets of the guest, and no other packet.
fn lose_the_next_window(net: &Routed) {
    let quota = SEGMENTS * PACKET_BYTES + 1;
    let mut nft = net.host.command("nft");
    nft.arg(format!(
        "add table inet loss; \
         add chain inet loss forward {{ type filter hook forward priority 0 ; }}; \
         flush chain inet loss forward; \
         add rule inet loss forward iifname port0 meta length > 1000 quota until {quota} bytes drop"
    ));
    success(nft);
}

/// Opens connections one after the other, each of which loses its only window; all bytes arrive, once.
/// Returns how often the guest's timer expired, and how often it began a fast recovery.
fn transfers(net: &Routed, is_ipv6: bool) -> (u64, u64) {
    let listener = listen(&net.server, Routed::server(0, is_ipv6, 80));
    let bytes = SEGMENTS * (PACKET_BYTES - if is_ipv6 { 60 } else { 40 });
    let before = recoveries(&net.guest);
    for _ in 0..CONNECTIONS {
        let (guest, server) = open(&net.guest, &listener);
        lose_the_next_window(net);
        thread::scope(|scope| {
            scope.spawn(|| send(&guest, bytes));
            assert_eq!(receive(&server), bytes);
        });
    }
    let after = recoveries(&net.guest);
    (after.0 - before.0, after.1 - before.1)
}

/// Returns the numbers of a namespace's timeouts and of its fast recoveries without SACK.
fn recoveries(namespace: &Namespace) -> (u64, u64) {
    let text = namespace
        .enter(|| std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap())
        .unwrap();
    let mut rows = text.lines().filter(|line| line.starts_with("TcpExt: "));
    let (names, values) = (rows.next().unwrap(), rows.next().unwrap());
    let count = |name: &str| {
        let at = names.split(' ').position(|known| known == name).unwrap();
        values.split(' ').nth(at).unwrap().parse::<u64>().unwrap()
    };
    (count("TCPTimeouts"), count("TCPRenoRecovery"))
}

#[test]
fn live_lost_windows_are_repaired_by_fast_retransmits_and_without_dupack_by_the_timer() {
    if !can_run() {
        return;
    }
    let (net, sandbox) = (network(), Sandbox::new());
    success(sandbox.uc(&net.host, &ATTACH));
    for is_ipv6 in [false, true] {
        let (timeouts, recoveries) = transfers(&net, is_ipv6);
        println!("without: {timeouts} timeouts, {recoveries} fast recoveries");
        assert!(timeouts >= CONNECTIONS, "{timeouts} timeouts");
        let process = dupack(&net, &sandbox);
        let (timeouts, recoveries) = transfers(&net, is_ipv6);
        let (sent, rounds) = end(process);
        println!(
            "with: {timeouts} timeouts, {recoveries} fast recoveries, {sent} in {rounds} rounds"
        );
        // A machine that holds the process up for 200 ms lets a timer expire.
        assert!(timeouts <= CONNECTIONS / 2, "{timeouts} timeouts");
        assert!(recoveries >= CONNECTIONS / 2, "{recoveries} recoveries");
        assert!(sent >= rounds && rounds >= CONNECTIONS / 2);
        // As many as the segments behind the lost one.
        assert!(sent <= CONNECTIONS * (SEGMENTS - 1), "{sent}");
    }
    success(sandbox.uc(&net.host, &["detach", "--all"]));
}

#[test]
fn live_kill_leaves_nothing_and_the_guests_timer_takes_over() {
    if !can_run() {
        return;
    }
    let (net, sandbox) = (network(), Sandbox::new());
    success(sandbox.uc(&net.host, &ATTACH));
    let listener = listen(&net.server, Routed::server(0, false, 81));
    let (mut guest, server) = open(&net.guest, &listener);
    let process = dupack(&net, &sandbox);
    refusal(
        sandbox.uc(&net.host, &["dupack", "port0"]),
        &["port0", "another `uc dupack` runs"],
    );
    let pins = sandbox.pins();
    drop(process);
    assert_eq!(sandbox.pins(), pins);
    // A connection from before goes on, and lost windows are repaired as without the command.
    guest.write_all(b"?").unwrap();
    let (timeouts, _) = transfers(&net, false);
    assert!(timeouts >= CONNECTIONS, "{timeouts} timeouts");
    end(dupack(&net, &sandbox));
    drop((guest, server));
    success(sandbox.uc(&net.host, &["detach", "--all"]));
}

#[test]
fn live_ports_whose_guests_would_not_listen_are_refused_in_words() {
    if !can_run() {
        return;
    }
    let (net, sandbox) = (network(), Sandbox::new());
    let refused =
        |port: &str, words: &str| refusal(sandbox.uc(&net.host, &["dupack", port]), &[words]);
    refused("port0", "--no-sack --no-timestamps");
    success(sandbox.uc(&net.host, &["attach", "port0", "--law", "ecn", "--no-sack"]));
    for (port, words) in [
        ("port0", "no rule removes SACK and timestamps"),
        ("up0", "up0 is not attached"),
        ("none0", "no interface 'none0'"),
    ] {
        refused(port, words);
    }
    success(sandbox.uc(&net.host, &["detach", "--all"]));
}
