//! `uc status` names the program that hides a port's packets from ours.

use serde_json::Value;
use uc_lab::netns::Namespace;

use crate::common::agent::{ip, pair};
use crate::common::bench::release;
use crate::common::live_with;
use crate::common::sandbox::Sandbox;
use crate::common::uc::{outcome, success};

const TOOLS: [&str; 5] = ["unshare", "nsenter", "mount", "ip", "tc"];
/// A filter of classic BPF that matches all packets; without an action its verdict is `TC_ACT_OK`.
const FILTER: [&str; 9] = [
    "prio",
    "1",
    "protocol",
    "all",
    "bpf",
    "bytecode",
    "1,6 0 0 4294967295,",
    "classid",
    "1:1",
];

/// Runs `tc`; `arguments` are separated by single spaces.
fn tc(namespace: &Namespace, arguments: &str, more: &[&str]) {
    let mut command = namespace.command("tc");
    command.args(arguments.split(' ')).args(more);
    success(command);
}

#[test]
fn live_status_names_the_filter_that_hides_a_port_until_it_is_gone() {
    if !live_with(&TOOLS) {
        return;
    }
    let namespace = Namespace::new("the tests").unwrap();
    let sandbox = Sandbox::new();
    let uc = |arguments: &[&str]| sandbox.uc(&namespace, arguments);
    pair(&namespace, "v1");
    ip(&namespace, "link set v1 up");
    for (hook, direction, towards) in [
        ("egress", "to_guest", "to the guest"),
        ("ingress", "from_guest", "from the guest"),
    ] {
        tc(&namespace, "qdisc add dev v1 clsact", &[]);
        tc(&namespace, &format!("filter add dev v1 {hook}"), &FILTER);
        success(uc(&["attach", "v1", "--via", "clsact"]));
        let told = outcome(uc(&["status"]));
        let line = format!(
            "amiss: port v1: its program sees no packets {towards}: before it runs filter 'bpf' of \
             clsact, priority 1; "
        );
        assert_eq!(told.status, Some(1), "{told:?}");
        assert!(told.stdout.contains(&line), "{told:?}");
        let told = outcome(uc(&["status", "--json"]));
        let seen: Value = serde_json::from_str(&told.stdout).unwrap();
        let port = &seen["ports"][0];
        assert_eq!(port["half_blind"], direction, "{seen}");
        assert_eq!(port["ahead"][0]["direction"], direction, "{seen}");
        assert_eq!(port["ahead"][0]["priority"], 1, "{seen}");
        assert_eq!(port["seen_to_guest"], 0, "{seen}");
        tc(&namespace, &format!("filter del dev v1 {hook} prio 1"), &[]);
        success(uc(&["status"]));
        success(uc(&["detach", "--all", "--now"]));
        tc(&namespace, "qdisc del dev v1 clsact", &[]);
    }
    // through TCX ours run before any filter
    tc(&namespace, "qdisc add dev v1 clsact", &[]);
    tc(&namespace, "filter add dev v1 egress", &FILTER);
    success(uc(&["attach", "v1"]));
    if outcome(uc(&["status"])).status != Some(0) {
        let release = release();
        assert!(
            release.starts_with("5.") || release.starts_with("6.1."),
            "{release}"
        );
    }
}
