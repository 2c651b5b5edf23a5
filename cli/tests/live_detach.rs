//! Ports are attached and detached: every connection lives on.

use serde_json::Value;
use uc_lab::netns::Namespace;
use uc_live::in_peace;

use crate::common::bench::wait_until;
use crate::common::by_hand::{PORT, SHARED, TOOLS, flows, go_on, one_guest, packets, start};
use crate::common::sandbox::Sandbox;
use crate::common::uc::{outcome, refusal, success};
use crate::common::{RED1, live_with};

fn attach_and_detach_in_the_middle(via: &str) {
    let (plan, lab) = one_guest(SHARED);
    let sandbox = Sandbox::new();
    let hosts = &lab.wiring.hosts;
    let earlier = start(&plan, &lab, 0);
    go_on(&[&earlier], 500);

    success(sandbox.uc(hosts, &["attach", PORT, "--via", via]));
    go_on(&[&earlier], 500);
    wait_until("packets are counted", || {
        packets(&flows(&sandbox, &lab), "no_handshake") > 100
    });
    let seen = flows(&sandbox, &lab);
    assert_eq!(seen["ports"][0]["name"], PORT, "{via}: {seen}");
    assert_eq!(
        seen["flows"],
        Value::Array(Vec::new()),
        "{via}: passes untouched"
    );
    assert_eq!(packets(&seen, "translated"), 0, "{via}: {seen}");

    // The process that attached has ended: its pinned programs translate.
    let later = start(&plan, &lab, 1);
    go_on(&[&earlier, &later], 1500);
    let seen = flows(&sandbox, &lab);
    assert_eq!(seen["flows"].as_array().unwrap().len(), 1, "{via}: {seen}");
    assert_eq!(
        seen["flows"][0]["guest"],
        later.source.to_string(),
        "{via}: {seen}"
    );
    assert_eq!(seen["flows"][0]["stage"], "translating", "{via}: {seen}");
    wait_until("packets are translated", || {
        packets(&flows(&sandbox, &lab), "translated") > 500
    });

    success(sandbox.uc(hosts, &["detach", PORT, "--now"]));
    assert!(sandbox.is_clean(), "{via}: {:?}", sandbox.pins());
    go_on(&[&earlier, &later], 1500);
    let none = outcome(sandbox.uc(hosts, &["flows"]));
    assert_eq!(none.status, Some(1), "{via}: {none:?}");
    // Attaches and detaches the same port again, in the middle of both transfers.
    success(sandbox.uc(hosts, &["attach", PORT, "--via", via]));
    go_on(&[&earlier, &later], 500);
    success(sandbox.uc(hosts, &["detach", "--all", "--now"]));
    assert!(sandbox.is_clean(), "{via}: {:?}", sandbox.pins());
    go_on(&[&earlier, &later], 500);
    for transfer in [earlier, later] {
        assert!(transfer.finish() > 500_000, "{via}");
    }
}

#[test]
fn live_attach_and_detach_in_the_middle_of_transfers_by_tcx() {
    if live_with(&TOOLS) {
        attach_and_detach_in_the_middle("tcx");
    }
}

#[test]
fn live_attach_and_detach_in_the_middle_of_transfers_by_clsact() {
    if live_with(&TOOLS) {
        attach_and_detach_in_the_middle("clsact");
    }
}

#[test]
fn live_a_pinned_port_translates_without_any_process() {
    if !live_with(&TOOLS) {
        return;
    }
    in_peace(|| {
        let (plan, lab) = one_guest(RED1);
        let sandbox = Sandbox::new();
        success(sandbox.uc(&lab.wiring.hosts, &["attach", PORT]));
        let transfer = start(&plan, &lab, 0);
        let cuts = || flows(&sandbox, &lab)["flows"][0]["cuts"].as_u64().unwrap();
        wait_until("the shadow has been cut twice", || cuts() >= 2);
        go_on(&[&transfer], 1000);
        assert_eq!(transfer.info().total_retrans, 0);
        assert!(transfer.finish() > 500_000);
        success(sandbox.uc(&lab.wiring.hosts, &["detach", "--all", "--now"]));
        assert!(sandbox.is_clean());
    });
}

fn ip(namespace: &Namespace, arguments: &str) {
    let mut command = namespace.command("ip");
    command.args(arguments.split(' '));
    success(command);
}

#[test]
fn live_a_port_whose_interface_was_deleted_leaves_nothing_pinned() {
    if !live_with(&TOOLS) || !live_with(&["ip"]) {
        return;
    }
    let namespace = Namespace::new("the tests").unwrap();
    for via in ["clsact", "tcx"] {
        let sandbox = Sandbox::new();
        let uc = |arguments: &[&str]| sandbox.uc(&namespace, arguments);
        let attach_v1 = || {
            ip(&namespace, "link add v1 type veth peer name v2");
            success(uc(&["attach", "v1", "--via", via]));
        };
        attach_v1();
        ip(&namespace, "link del v1");
        success(uc(&["detach", "--all", "--now"]));
        assert!(sandbox.is_clean(), "{via}: {:?}", sandbox.pins());

        // With another port beside it that stays.
        attach_v1();
        success(uc(&["attach", "lo", "--via", via]));
        ip(&namespace, "link del v1");
        refusal(uc(&["detach", "v1"]), &["'v1'", "ip link"]);
        let seen: Value = serde_json::from_str(&success(uc(&["flows", "--json"]))).unwrap();
        let ports = seen["ports"].as_array().unwrap();
        assert!(
            ports.iter().any(|port| port["name"] == "lo"),
            "{via}: {seen}"
        );
        success(uc(&["detach", "--all", "--now"]));
        assert!(sandbox.is_clean(), "{via}: {:?}", sandbox.pins());
    }
}

#[test]
fn live_detaching_several_ports_is_all_or_none_and_ignores_duplicates() {
    if !live_with(&TOOLS) || !live_with(&["ip"]) {
        return;
    }
    let namespace = Namespace::new("the tests").unwrap();
    ip(&namespace, "link add v1 type veth peer name v2");
    for via in ["clsact", "tcx"] {
        let sandbox = Sandbox::new();
        let uc = |arguments: &[&str]| sandbox.uc(&namespace, arguments);
        let told = success(uc(&["attach", "v1", "v2", "v1", "--via", via]));
        assert_eq!(told.lines().count(), 2, "{via}: {told}");
        refusal(
            uc(&["detach", "v1", "nosuch0", "v2"]),
            &["'nosuch0'", "ip link"],
        );
        refusal(uc(&["detach", "v1", "lo", "v2"]), &["'lo' is not attached"]);
        let seen = success(uc(&["flows"]));
        assert!(seen.starts_with("ports: v"), "{via}: {seen}");
        assert!(seen.contains("v1") && seen.contains("v2"), "{via}: {seen}");
        success(uc(&["detach", "v1", "v2", "v1"]));
        assert!(sandbox.is_clean(), "{via}: {:?}", sandbox.pins());
    }
}

#[test]
fn live_attach_with_law_pass_reports_counting_only() {
    if !live_with(&TOOLS) {
        return;
    }
    let namespace = Namespace::new("the tests").unwrap();
    let sandbox = Sandbox::new();
    let told = success(sandbox.uc(&namespace, &["attach", "lo", "--law", "pass"]));
    assert_eq!(told, "lo: attached; all flows pass and are counted\n");
    success(sandbox.uc(&namespace, &["detach", "--all", "--now"]));
}

#[test]
fn live_attached_bridge_is_named_with_the_ports_to_attach_instead() {
    if !live_with(&TOOLS) || !live_with(&["ip"]) {
        return;
    }
    let namespace = Namespace::new("the tests").unwrap();
    ip(&namespace, "link add br0 type bridge");
    let sandbox = Sandbox::new();
    let told = outcome(sandbox.uc(&namespace, &["attach", "br0"]));
    assert_eq!(told.status, Some(0), "{told:?}");
    assert!(
        told.stderr.starts_with("uc: br0 is a bridge"),
        "{}",
        told.stderr
    );
    success(sandbox.uc(&namespace, &["detach", "--all", "--now"]));
}

#[test]
fn live_status_of_ports_attached_by_hand_names_their_laws() {
    if !live_with(&TOOLS) || !live_with(&["ip"]) {
        return;
    }
    let namespace = Namespace::new("the tests").unwrap();
    ip(&namespace, "link add v1 type veth peer name v2");
    let sandbox = Sandbox::new();
    success(sandbox.uc(&namespace, &["attach", "v1", "--law", "dctcp"]));
    success(sandbox.uc(&namespace, &["attach", "v2", "--observe"]));
    let told = success(sandbox.uc(&namespace, &["status"]));
    for (port, laws) in [
        ("v1", "attached: dctcp"),
        ("v2", "attached: ecn (observed)"),
    ] {
        let line = told.lines().find(|line| line.starts_with(port));
        assert!(line.is_some_and(|line| line.ends_with(laws)), "{told}");
    }
    let told = success(sandbox.uc(&namespace, &["status", "--json"]));
    let told: Value = serde_json::from_str(&told).unwrap();
    let laws = serde_json::json!([{"law": "ecn", "observed": true}]);
    let ports = told["ports"].as_array().unwrap();
    let v2 = ports.iter().find(|port| port["name"] == "v2").unwrap();
    assert_eq!(v2["laws"], laws, "{told}");
    success(sandbox.uc(&namespace, &["detach", "--all", "--now"]));
}

#[test]
fn live_attach_by_clsact_refuses_a_port_with_an_ingress_qdisc_and_tcx_does_not() {
    if !live_with(&TOOLS) || !live_with(&["ip", "tc"]) {
        return;
    }
    let namespace = Namespace::new("the tests").unwrap();
    ip(&namespace, "link add v1 type veth peer name v2");
    let tc = |arguments: &str| {
        let mut command = namespace.command("tc");
        command.args(arguments.split(' '));
        success(command)
    };
    tc("qdisc add dev v1 handle ffff: ingress");
    let sandbox = Sandbox::new();
    let uc = |arguments: &[&str]| sandbox.uc(&namespace, arguments);
    // the kernel would put the program towards the guest at the hook from the guest
    refusal(
        uc(&["attach", "v1", "--via", "clsact"]),
        &["port v1", "qdisc 'ingress'", "tc qdisc del dev v1 ingress"],
    );
    assert_eq!(tc("filter show dev v1 ingress"), "");
    assert!(sandbox.is_clean(), "{:?}", sandbox.pins());
    let attached = outcome(uc(&["attach", "v1", "--via", "tcx"]));
    if attached.status == Some(0) {
        success(uc(&["detach", "v1"]));
    }
    assert!(tc("qdisc show dev v1").contains("ingress"));
    // the qdisc that the programs share
    tc("qdisc del dev v1 ingress");
    tc("qdisc add dev v1 clsact");
    success(uc(&["attach", "v1", "--via", "clsact"]));
    success(uc(&["detach", "v1"]));
    assert!(tc("qdisc show dev v1").contains("clsact"));
}
