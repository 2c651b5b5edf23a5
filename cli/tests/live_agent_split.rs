//! The agent splits the connections of ports whose policy says so, and of no others.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use uc_client::AgentState;

use crate::common::ends::{PATIENCE, is_reset, receive, send};
use crate::common::hosts::{Hosts, pass};
use crate::common::live_with;
use crate::common::routed::{SPLIT_STATUS, ip, total};
use crate::common::uc::{outcome, success};

const TOOLS: [&str; 5] = ["unshare", "nsenter", "mount", "ip", "nft"];

/// A policy that splits port0 with this table `[split]`, and not port1.
fn policy(split: &str) -> String {
    let splits = !split.is_empty();
    format!(
        "[defaults]\nlaw = \"ecn\"\n\n{split}\n\n\
         [[tenant]]\nname = \"red\"\nports = \"port0\"\nsplit = {splits}\n\n\
         [[tenant]]\nname = \"blue\"\nports = \"port1\"\nsplit = false\n"
    )
}

/// Returns the packet filter's rules.
fn ruleset(hosts: &Hosts) -> String {
    hosts.net.nft("list ruleset")
}

/// Returns the number of connections that the process has split so far.
fn split(state: &AgentState) -> u64 {
    let process = state.split.as_ref().unwrap().process.as_ref();
    process.unwrap().done.totals.split
}

#[test]
fn live_policy_splits_new_connections_of_its_ports_and_a_change_resets_none() {
    if !live_with(&TOOLS) {
        return;
    }
    let hosts = Hosts::new(&policy("[split]\ncongestion_control = \"cubic\""));
    let (agent, state) = hosts.start();
    assert_eq!(state.split.unwrap().ports, ["port0"]);
    let first = hosts.guest();
    let other = hosts.neighbour();
    pass(&first);
    pass(&other);
    let state = hosts.here.wait("the first is counted", |state| {
        state.is_in_force() && split(state) == 1
    });
    assert!(state.split.unwrap().error.is_none());
    let told = hosts.explain("port0", &first.0);
    assert!(
        told.contains("split: the guest's connection ends at this host"),
        "{told}"
    );
    assert!(
        told.contains("with cubic over TCP; an ACK that the guest"),
        "{told}"
    );
    let told = hosts.explain("port1", &other.0);
    assert!(!told.contains("technique"), "{told}");
    let told = success(hosts.here.uc(&["status"]));
    assert!(
        told.contains("split   port0; 1 connections are split, new ones by cubic"),
        "{told}"
    );

    // Other settings, for new connections only.
    let cubic = policy("[split]\ncongestion_control = \"reno\"\ntcp_ports = 80");
    hosts.here.write_policy(&cubic);
    let is_reno = |state: &AgentState| {
        let process = state
            .split
            .as_ref()
            .and_then(|split| split.process.as_ref());
        process.is_some_and(|process| process.setup.congestion_control.as_deref() == Some("reno"))
    };
    hosts.here.wait("reno", is_reno);
    let second = hosts.guest();
    pass(&first);
    pass(&second);
    let state = hosts.here.wait("both are counted", |state| {
        is_reno(state) && split(state) == 2
    });
    assert_eq!(state.split.unwrap().starts, 1);

    // No port is split any more: both go on, and a new one passes unsplit.
    hosts.here.write_policy(&policy(""));
    hosts.here.wait("nothing new is split", |state| {
        let split = state.split.as_ref();
        split.is_some_and(|split| split.ports.is_empty() && split.process.is_some())
    });
    let third = hosts.guest();
    for ends in [&first, &second, &third, &other] {
        pass(ends);
    }
    let told = hosts.explain("port0", &third.0);
    assert!(!told.contains("technique"), "{told}");
    let told = hosts.explain("port0", &second.0);
    assert!(told.contains("split: the guest's"), "{told}");
    assert_eq!(total(hosts.here.uc(&SPLIT_STATUS), "split"), 2);
    drop((first, second));
    hosts
        .here
        .wait("the process has ended", |state| state.split.is_none());
    assert_eq!(ruleset(&hosts), "");
    pass(&third);
    agent.end();
    success(hosts.here.uc(&["detach", "--all", "--now"]));
}

#[test]
fn live_killed_split_is_started_again_and_other_connections_go_on() {
    if !live_with(&TOOLS) {
        return;
    }
    let hosts = Hosts::new(&policy("[split]\ninbound = true"));
    let (agent, state) = hosts.start();
    let (guest, server) = hosts.guest();
    let other = hosts.neighbour();
    pass(&other);
    let pid = state.split.unwrap().process.unwrap().pid;
    kill(Pid::from_raw(pid as i32), Signal::SIGKILL).unwrap();
    is_reset(&guest, PATIENCE, "the guest");
    is_reset(&server, PATIENCE, "the server");
    pass(&other);
    let state = hosts.here.wait("another process", |state| {
        state.is_in_force() && state.split.as_ref().is_some_and(|split| split.starts == 2)
    });
    let next = state.split.unwrap();
    assert_ne!(next.process.unwrap().pid, pid);
    assert!(next.error.unwrap().contains("signal 9"));
    let again = hosts.guest();
    std::thread::scope(|scope| {
        scope.spawn(|| send(&again.0, 1_000_000));
        assert_eq!(receive(&again.1), 1_000_000);
    });
    assert_eq!(total(hosts.here.uc(&SPLIT_STATUS), "split"), 1);
    // The process ends with the agent, however that ends.
    let last = hosts.guest();
    agent.kill();
    is_reset(&last.0, PATIENCE, "the guest of a killed agent");
    pass(&other);
    let (agent, _) = hosts.start();
    let last = hosts.guest();
    agent.end();
    is_reset(&last.0, PATIENCE, "the guest of an agent that ends");
    pass(&other);
    assert_eq!(ruleset(&hosts), "");
    success(hosts.here.uc(&["detach", "--all", "--now"]));
}

#[test]
fn live_split_that_cannot_work_is_refused_before_anything_changes() {
    if !live_with(&TOOLS) {
        return;
    }
    let hosts = Hosts::new(&policy("[split]\ncongestion_control = \"nosuch\""));
    let agent = hosts.here.start(&[]);
    let refused = |words: &'static str| {
        hosts.here.wait(words, move |state| {
            let refused = state
                .split
                .as_ref()
                .and_then(|split| split.refused.get("port0"));
            refused.is_some_and(|why| why.contains(words)) && !state.is_in_force()
        })
    };
    let state = refused("'nosuch'; it has ");
    assert!(state.ports.iter().all(|port| port.attached), "{state:#?}");
    assert_eq!(ruleset(&hosts), "");
    let told = outcome(hosts.here.uc(&["status"]));
    assert_eq!(told.status, Some(1));
    assert!(
        told.stdout
            .contains("amiss: splitting port0: this kernel has no"),
        "{told:?}"
    );

    hosts.here.write_policy(&policy("[split]\n"));
    hosts.in_force("the host's congestion control");
    let before = ruleset(&hosts);
    let ends = hosts.guest();
    pass(&ends);
    hosts
        .here
        .write_policy(&policy("[split]\ncongestion_control = \"nosuch\""));
    refused("'nosuch'; it has ");
    assert_eq!(ruleset(&hosts), before);
    pass(&ends);

    // A port of a bridge is split with all others of the bridge, if the host is their gateway.
    hosts.here.write_policy(&policy("[split]\n"));
    hosts.in_force("the host's congestion control again");
    let filter = "/proc/sys/net/bridge/bridge-nf-call-iptables";
    if hosts.net.host.enter(|| Path::new(filter).exists()).unwrap() {
        let off = ["iptables", "ip6tables"]
            .map(|kind| (format!("net.bridge.bridge-nf-call-{kind}"), "0".to_owned()));
        let off = off
            .each_ref()
            .map(|(name, value)| (name.as_str(), value.clone()));
        hosts.net.host.set_sysctls(&off).unwrap();
    }
    for change in [
        "link add br0 type bridge",
        "address flush dev port0",
        "link set port0 master br0",
    ] {
        ip(&hosts.net.host, change);
    }
    refused("bridge 'br0' has no address");
    for change in [
        "address add 10.1.0.1/24 dev br0",
        "link add other type veth peer name xother",
        "link set other master br0",
        "link set br0 up",
    ] {
        ip(&hosts.net.host, change);
    }
    refused("bridge 'br0', whose port 'other' is not split");
    ip(&hosts.net.host, "link set other nomaster");
    let state = hosts.here.wait("the bridge is split", |state| {
        let process = state
            .split
            .as_ref()
            .and_then(|split| split.process.as_ref());
        process.is_some_and(|process| process.setup.interfaces == ["br0"])
    });
    assert_eq!(state.split.unwrap().ports, ["port0"]);
    agent.end();
    success(hosts.here.uc(&["detach", "--all", "--now"]));
}
