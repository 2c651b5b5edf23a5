//! `uc dupack`: guests whose last segments are lost retransmit by the host's duplicate ACKs, not by their
//! timers.

use std::io::Write;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use nix::net::if_::if_nametoindex;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::bench::wait_until;
use crate::common::ends::{listen, open, receive, send};
use crate::common::kills::Kills;
use crate::common::lost::{
    CONNECTIONS, SEGMENTS, lose_the_next_window, send_singly, transfers, window_bytes,
};
use crate::common::process::Process;
use crate::common::routed::Routed;
use crate::common::sandbox::Sandbox;
use crate::common::uc::{outcome, refusal, success};
use crate::common::{by_hand, live_with};

const TOOLS: [&str; 2] = ["ip", "nft"];
/// Kills of the process, unless `UC_KILLS` is given, and the time within which a moment is drawn: duplicate ACKs
/// come some milliseconds after a loss.
const KILLS: u64 = 5;
const MOMENTS: Duration = Duration::from_millis(20);
const ATTACH: [&str; 6] = [
    "attach",
    "port0",
    "--law",
    "ecn",
    "--no-sack",
    "--no-timestamps",
];
fn can_run() -> bool {
    live_with(&TOOLS) && live_with(&by_hand::TOOLS)
}

/// A guest whose segments leave one by one.
fn network() -> Routed {
    let net = Routed::build(&[None], 1);
    send_singly(&net);
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

#[test]
fn live_lost_windows_are_repaired_by_fast_retransmits_and_without_dupack_by_the_timer() {
    if !can_run() {
        return;
    }
    let (net, sandbox) = (network(), Sandbox::new());
    success(sandbox.uc(&net.host, &ATTACH));
    for is_ipv6 in [false, true] {
        let listener = listen(&net.server, Routed::server(0, is_ipv6, 80));
        let (timeouts, recoveries) = transfers(&net, &listener);
        println!("without: {timeouts} timeouts, {recoveries} fast recoveries");
        assert!(timeouts >= CONNECTIONS, "{timeouts} timeouts");
        let process = dupack(&net, &sandbox);
        let (timeouts, recoveries) = transfers(&net, &listener);
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
    success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
}

#[test]
fn live_kills_leave_nothing_and_the_guests_timer_takes_over() {
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
        &["`uc dupack` (process ", "already: end it first"],
    );
    let pins = sandbox.pins();
    drop(process);
    let mut kills = Kills::of(KILLS);
    while let Some(kill) = kills.another() {
        let process = dupack(&net, &sandbox);
        let (from, to) = open(&net.guest, &listener);
        lose_the_next_window(&net);
        let bytes = window_bytes(&listener);
        thread::scope(|scope| {
            scope.spawn(|| send(&from, bytes));
            scope.spawn(|| assert_eq!(receive(&to), bytes));
            kills.sleep(&kill, MOMENTS);
            drop(process);
        });
        assert_eq!(sandbox.pins(), pins);
    }
    // A connection from before goes on, and lost windows are repaired as without the command.
    guest.write_all(b"?").unwrap();
    let (timeouts, _) = transfers(&net, &listener);
    assert!(timeouts >= CONNECTIONS, "{timeouts} timeouts");
    end(dupack(&net, &sandbox));
    drop((guest, server));
    success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
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
    success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
}

#[test]
fn live_a_port_that_cannot_be_served_yet_is_named_and_tried_again_while_others_are_served() {
    if !can_run() {
        return;
    }
    let (net, sandbox) = (network(), Sandbox::new());
    success(sandbox.uc(&net.host, &ATTACH));
    let index = |name: &str| {
        let index = net.host.enter(|| if_nametoindex(name).unwrap());
        index.unwrap()
    };
    let port = |name: &str, least_us: u64| {
        let ifindex = index(name);
        serde_json::json!({ "name": name, "ifindex": ifindex, "least_us": least_us, "short_tails_us": null })
    };
    let mut command = sandbox.uc(&net.host, &["dupack", "--settings-on-stdin"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut tell = |ports: &[serde_json::Value]| {
        writeln!(stdin, "{}", serde_json::json!({ "ports": ports })).unwrap();
    };
    let status = || {
        let asked = outcome(sandbox.uc(&net.host, &["dupack", "--status", "--json"]));
        serde_json::from_str::<serde_json::Value>(&asked.stdout).unwrap_or_default()
    };
    tell(&[port("port0", 5000), port("up0", 5000)]);
    wait_until("up0 is refused", || {
        let why = &status()["refused"]["up0"];
        why.as_str()
            .is_some_and(|why| why.contains("port up0 is not attached"))
    });
    assert_eq!(status()["counts"]["port0"]["rounds"], 0);
    let listener = listen(&net.server, Routed::server(0, false, 82));
    let (timeouts, _) = transfers(&net, &listener);
    assert!(timeouts <= CONNECTIONS / 2, "{timeouts} timeouts");
    let rounds = status()["counts"]["port0"]["rounds"].as_u64().unwrap();
    assert!(rounds >= CONNECTIONS / 2, "{rounds} rounds");

    let mut attach = ATTACH;
    attach[1] = "up0";
    success(sandbox.uc(&net.host, &attach));
    wait_until("up0 is served", || status()["counts"]["up0"]["rounds"] == 0);
    assert_eq!(status()["refused"], serde_json::json!({}));

    // Other settings: what was counted stays.
    tell(&[port("port0", 9000)]);
    wait_until("port0 is served alone", || {
        let status = status();
        status["ports"][0]["least_us"] == 9000 && status["counts"]["up0"].is_null()
    });
    let kept = status()["counts"]["port0"]["rounds"].as_u64().unwrap();
    assert!(kept >= rounds, "{kept} rounds");
    drop(stdin);
    assert!(child.wait().unwrap().success());
    refusal(
        sandbox.uc(&net.host, &["dupack", "--status"]),
        &["no `uc dupack` runs", "uc dupack PORT"],
    );
    success(sandbox.uc(&net.host, &["detach", "--all", "--now"]));
}
