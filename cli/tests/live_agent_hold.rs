//! The agent has packets held at ports whose policy says so, and at no others.

use std::io::{Read, Write};

use uc_client::AgentState;
use uc_hold::{Done, PortSetup, Status};
use uc_lab::pattern::Pattern;

use crate::common::bench::{tcp_counter, wait_until};
use crate::common::held::{alone, programs};
use crate::common::hosts::{Hosts, pass, policy};
use crate::common::live_with;
use crate::common::lost::{CONNECTIONS, PACKET_BYTES, SEGMENTS, lose_the_next_window, send_singly};
use crate::common::process::Process;
use crate::common::uc::{outcome, refusal, success};

const TOOLS: [&str; 5] = ["unshare", "nsenter", "mount", "ip", "nft"];
const BOTH: &str = "hold = { pace = true, buffer = true }";
const PACE: &str = "hold = { pace = true, memory = \"8MB\" }";

/// Builds hosts with this policy, whose guest sends its segments one by one and has neither tail loss probes nor
/// RACK: it repairs a lost window by its timer alone, after 200 ms and more.
fn hosts(policy: &str) -> Hosts {
    let hosts = Hosts::new(policy);
    send_singly(&hosts.net);
    hosts
        .net
        .guest
        .set_sysctls(&[
            ("net.ipv4.tcp_early_retrans", "0".into()),
            ("net.ipv4.tcp_recovery", "0".into()),
        ])
        .unwrap();
    hosts
}

/// Returns what the process does, if it does what the policy wants.
fn process(state: &AgentState) -> Option<&Status> {
    let hold = state.hold.as_ref().filter(|_| state.is_in_force());
    hold.and_then(|hold| hold.process.as_ref())
}

/// Opens connections of the guest one after the other, each of which loses its only window; all bytes arrive. Returns
/// how often the guest's timer expired, and what `uc explain` says of each connection.
fn lose_windows(hosts: &Hosts) -> (u64, Vec<String>) {
    let before = tcp_counter(&hosts.net.guest, "TCPTimeouts");
    let mut told = Vec::new();
    for _ in 0..CONNECTIONS {
        let (guest, server) = hosts.guest();
        lose_the_next_window(&hosts.net);
        // Without the end of the stream, whose packet is short and would arrive.
        let pattern = Pattern::default();
        let sent = &pattern.chunk(0)[..(SEGMENTS * (PACKET_BYTES - 52)) as usize];
        (&guest).write_all(sent).unwrap();
        let mut received = vec![0; sent.len()];
        (&server).read_exact(&mut received).unwrap();
        assert!(received == sent, "other bytes");
        told.push(hosts.explain("port0", &guest));
    }
    let after = tcp_counter(&hosts.net.guest, "TCPTimeouts");
    (after - before, told)
}

#[test]
fn live_policy_has_losses_repaired_by_the_host_until_its_key_is_removed() {
    if !live_with(&TOOLS) {
        return;
    }
    let _alone = alone();
    let hosts = hosts(&policy(BOTH, ""));
    let (agent, state) = hosts.start();
    assert_eq!(state.hold.as_ref().unwrap().ports, ["port0"]);
    let pid = process(&state).unwrap().pid;
    let other = hosts.neighbour();
    pass(&other);
    let (timeouts, told) = lose_windows(&hosts);
    // A machine that holds the process up for 200 ms lets a timer expire.
    assert!(timeouts <= CONNECTIONS / 2, "{timeouts} timeouts");
    let technique = "technique  held packets: the host spreads ACKs";
    let is_told = |told: &&String| told.contains(technique) && told.contains("retransmitted 8 seg");
    let repaired = told.iter().filter(is_told).count() as u64;
    assert!(repaired >= CONNECTIONS / 2, "{told:?}");
    let told = hosts.explain("port1", &other.0);
    assert!(!told.contains("technique"), "{told}");
    let told = success(hosts.here.uc(&["status"]));
    assert!(told.contains("hold    port0; "), "{told}");
    let retransmits = |state: &AgentState| {
        let process = process(state).map(|process| &process.done);
        process.map_or(0, |done: &Done| done.total("retransmits"))
    };
    let least = CONNECTIONS * SEGMENTS / 2;
    let state = hosts.here.wait("retransmissions are counted", |state| {
        retransmits(state) >= least
    });
    let counted = retransmits(&state);

    // Another port: the same process, and connections of the first are held as before.
    let ends = hosts.guest();
    hosts.here.write_policy(&policy(BOTH, PACE));
    let state = hosts.here.wait("both ports", |state| {
        process(state).is_some_and(|process| process.done.counts.len() == 2)
    });
    let hold = state.hold.as_ref().unwrap();
    let now = process(&state).unwrap();
    assert_eq!((hold.starts, now.pid), (1, pid));
    assert!(retransmits(&state) >= counted);
    let memory = |port: &PortSetup| (port.memory_bytes, port.rto_min_us);
    let settings: Vec<_> = now.setup.ports.iter().map(memory).collect();
    assert_eq!(settings, [(64 << 20, Some(10_000)), (8_000_000, None)]);
    assert!(hosts.explain("port0", &ends.0).contains(technique));
    pass(&ends);

    // Not the first port any more: its connection goes on, and new ones wait for the guest's timer.
    hosts.here.write_policy(&policy("", PACE));
    hosts.here.wait("one port", |state| {
        process(state).is_some_and(|process| process.done.counts.contains_key("port1"))
            && state
                .hold
                .as_ref()
                .is_some_and(|hold| hold.ports == ["port1"])
    });
    pass(&ends);
    let told = hosts.explain("port0", &ends.0);
    assert!(!told.contains("technique"), "{told}");
    let (timeouts, _) = lose_windows(&hosts);
    assert!(timeouts >= CONNECTIONS, "{timeouts} timeouts");

    // None any more: nothing is left.
    hosts.here.write_policy(&policy("", ""));
    hosts.here.wait("the process has ended", |state| {
        state.hold.is_none() && state.is_in_force()
    });
    wait_until("the programs are gone", || programs() == 0);
    pass(&ends);
    pass(&other);
    agent.end();
    success(hosts.here.uc(&["detach", "--all", "--now"]));
}

#[test]
fn live_killed_hold_is_started_again_and_ports_of_others_are_refused() {
    if !live_with(&TOOLS) {
        return;
    }
    let _alone = alone();
    let hosts = hosts(&policy(BOTH, ""));
    let (agent, _) = hosts.start();
    let ends = hosts.guest();
    hosts.kill_process(&ends, |state| {
        let hold = state.hold.as_ref()?;
        Some((hold, hold.process.as_ref()?.pid))
    });
    refusal(
        hosts.here.uc(&["hold", "port0", "--pace"]),
        &["port0", "the agent's `uc hold` (process ", "in the policy"],
    );
    // A port that the policy leaves alone is the operator's.
    let mut own = Process::start(hosts.here.uc(&["hold", "port1", "--pace"]));
    own.says("caution: ");
    hosts.here.write_policy(&policy(BOTH, PACE));
    let refused = |state: &AgentState| {
        let refused = state.hold.as_ref()?.refused.get("port1").cloned();
        refused.filter(|why| why.contains("another `uc hold` runs"))
    };
    let state = hosts
        .here
        .wait("the port is refused", |state| refused(state).is_some());
    assert_eq!(state.hold.as_ref().unwrap().ports, ["port0"]);
    let told = outcome(hosts.here.uc(&["status"]));
    assert_eq!(told.status, Some(1));
    let amiss = "amiss: holding packets of port1: port port1: another `uc hold` runs";
    assert!(told.stdout.contains(amiss), "{told:?}");
    own.end();
    hosts.in_force("the port is free");
    // The process ends with the agent, however that ends, and packets pass.
    agent.kill();
    wait_until("the programs are gone", || programs() == 0);
    pass(&ends);
    success(hosts.here.uc(&["detach", "--all", "--now"]));
}
