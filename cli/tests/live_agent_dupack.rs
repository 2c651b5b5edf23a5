//! The agent has duplicate ACKs sent to the guests of ports whose policy says so, and to no others.

use uc_client::AgentState;
use uc_client::state::DupackState;
use uc_hold::dupack::Status;

use crate::common::bench::wait_until;
use crate::common::ends::{receive, send};
use crate::common::hosts::{Hosts, pass, policy};
use crate::common::live_with;
use crate::common::lost::{
    CONNECTIONS, lose_the_next_window, send_singly, transfers, window_bytes,
};
use crate::common::process::Process;
use crate::common::uc::{outcome, refusal, success};

const TOOLS: [&str; 5] = ["unshare", "nsenter", "mount", "ip", "nft"];

fn hosts(policy: &str) -> Hosts {
    let hosts = Hosts::new(policy);
    send_singly(&hosts.net);
    hosts
}

/// Returns what the process does, if it does what the policy wants.
fn process(state: &AgentState) -> Option<&Status> {
    let dupack = state.dupack.as_ref().filter(|_| state.is_in_force());
    dupack.and_then(|dupack| dupack.process.as_ref())
}

/// Returns what `uc explain` says of a connection of the guest that has lost its only window.
fn explained(hosts: &Hosts) -> String {
    let (guest, server) = hosts.guest();
    lose_the_next_window(&hosts.net);
    let bytes = window_bytes(&hosts.listener);
    std::thread::scope(|scope| {
        scope.spawn(|| send(&guest, bytes));
        assert_eq!(receive(&server), bytes);
    });
    hosts.explain("port0", &guest)
}

#[test]
fn live_policy_has_lost_windows_repaired_and_a_change_restarts_nothing() {
    if !live_with(&TOOLS) {
        return;
    }
    let hosts = hosts(&policy("dupack = true", ""));
    let (agent, state) = hosts.start();
    assert_eq!(state.dupack.as_ref().unwrap().ports, ["port0"]);
    let pid = process(&state).unwrap().pid;
    let other = hosts.neighbour();
    pass(&other);
    let (timeouts, recoveries) = transfers(&hosts.net, &hosts.listener);
    // A machine that holds the process up for 200 ms lets a timer expire.
    assert!(timeouts <= CONNECTIONS / 2, "{timeouts} timeouts");
    assert!(recoveries >= CONNECTIONS / 2, "{recoveries} recoveries");
    let rounds =
        |state: &AgentState| process(state).map_or(0, |process| process.done.total().rounds);
    let state = hosts.here.wait("rounds are counted", |state| {
        rounds(state) >= CONNECTIONS / 2
    });
    let counted = rounds(&state);
    let technique = "technique  duplicate ACKs: the host sent the guest";
    let mut told = (0..CONNECTIONS).map(|_| explained(&hosts));
    assert!(told.any(|told| told.contains(technique)));
    let told = hosts.explain("port1", &other.0);
    assert!(!told.contains("technique"), "{told}");
    let told = success(hosts.here.uc(&["status"]));
    assert!(told.contains("dupack  port0; "), "{told}");

    // Other settings, and another port: the same process, which keeps its counts.
    let both = policy("dupack = { least = \"9ms\" }", "dupack = true");
    hosts.here.write_policy(&both);
    let state = hosts.here.wait("both ports", |state| {
        process(state).is_some_and(|process| {
            let times: Vec<u64> = process
                .setup
                .ports
                .iter()
                .map(|port| port.least_us)
                .collect();
            times == [9000, 5000]
        })
    });
    let dupack = state.dupack.as_ref().unwrap();
    assert_eq!((dupack.starts, process(&state).unwrap().pid), (1, pid));
    assert!(rounds(&state) >= counted);

    // None any more: the guest waits for its timer.
    let kept = "dupack = false\n[[rule]]\nparameters = { no_sack = true, no_timestamps = true }\n";
    hosts.here.write_policy(&policy("", kept));
    hosts.here.wait("the process has ended", |state| {
        state.dupack.is_none() && state.is_in_force()
    });
    let (timeouts, _) = transfers(&hosts.net, &hosts.listener);
    assert!(timeouts >= CONNECTIONS, "{timeouts} timeouts");
    pass(&other);
    agent.end();
    success(hosts.here.uc(&["detach", "--all", "--now"]));
}

#[test]
fn live_killed_dupack_is_started_again_and_a_second_process_is_named() {
    if !live_with(&TOOLS) {
        return;
    }
    let hosts = hosts(&policy("dupack = true", ""));
    let (agent, _) = hosts.start();
    let ends = hosts.guest();
    hosts.kill_process(&ends, |state| {
        let dupack = state.dupack.as_ref()?;
        Some((dupack, dupack.process.as_ref()?.pid))
    });
    let status = || outcome(hosts.here.uc(&["dupack", "--status"]));
    assert!(
        status()
            .stdout
            .starts_with("port0: after 5 ms of silence: ")
    );
    refusal(
        hosts.here.uc(&["dupack", "port0"]),
        &["`uc dupack` (process ", "end it first"],
    );

    // The process ends with the agent, however that ends. One of an operator then has the place.
    agent.kill();
    wait_until("the end of the process", || {
        status().stderr.contains("no `uc dupack` runs")
    });
    let mut own = Process::start(hosts.here.uc(&["dupack", "port0"]));
    own.says("caution: ");
    let agent = hosts.here.start(&[]);
    let is_taken = |dupack: &DupackState| {
        let error = dupack.error.as_deref();
        dupack.process.is_none()
            && error.is_some_and(|error| error.contains("already: end it first"))
    };
    hosts.here.wait("the place is taken", |state| {
        state.dupack.as_ref().is_some_and(is_taken) && !state.is_in_force()
    });
    let told = outcome(hosts.here.uc(&["status"]));
    assert_eq!(told.status, Some(1));
    let amiss = "amiss: duplicate ACKs for port0: `uc dupack` (process ";
    assert!(told.stdout.contains(amiss), "{told:?}");
    own.end();
    hosts.in_force("the place is free");
    pass(&ends);
    agent.end();
    success(hosts.here.uc(&["detach", "--all", "--now"]));
}
