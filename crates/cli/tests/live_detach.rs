//! Ports come and go: every connection lives on.

mod common;

use common::bench::wait_until;
use common::by_hand::{PORT, SHARED, TOOLS, flows, go_on, one_guest, packets, start};
use common::sandbox::Sandbox;
use common::uc::{outcome, success};
use common::{RED1, live_with};
use serde_json::Value;

fn attach_and_detach_in_the_middle(via: &str) {
    let (plan, lab) = one_guest(SHARED);
    let sandbox = Sandbox::new();
    let hosts = &lab.wiring.hosts;
    let earlier = start(&plan, &lab, 0);
    go_on(&[&earlier], 500);

    success(sandbox.uc(hosts, &["attach", PORT, "--via", via]));
    go_on(&[&earlier], 500);
    let seen = flows(&sandbox, &lab);
    assert_eq!(seen["ports"][0]["name"], PORT, "{via}: {seen}");
    assert_eq!(
        seen["flows"],
        Value::Array(Vec::new()),
        "{via}: passes untouched"
    );
    assert!(packets(&seen, "no_handshake") > 100, "{via}: {seen}");
    assert_eq!(packets(&seen, "translated"), 0, "{via}: {seen}");

    // The process that attached has gone: what it pinned translates.
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
    assert!(packets(&seen, "translated") > 500, "{via}: {seen}");

    success(sandbox.uc(hosts, &["detach", PORT]));
    assert!(sandbox.is_clean(), "{via}: {:?}", sandbox.pins());
    go_on(&[&earlier, &later], 1500);
    let none = outcome(sandbox.uc(hosts, &["flows"]));
    assert_eq!(none.status, Some(1), "{via}: {none:?}");
    // And once more onto the same port, in the midst of both.
    success(sandbox.uc(hosts, &["attach", PORT, "--via", via]));
    go_on(&[&earlier, &later], 500);
    success(sandbox.uc(hosts, &["detach", "--all"]));
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
fn live_a_pinned_port_translates_on_when_nobody_is_left() {
    if !live_with(&TOOLS) {
        return;
    }
    let (plan, lab) = one_guest(RED1);
    let sandbox = Sandbox::new();
    success(sandbox.uc(&lab.wiring.hosts, &["attach", PORT]));
    let transfer = start(&plan, &lab, 0);
    let cuts = || flows(&sandbox, &lab)["flows"][0]["cuts"].as_u64().unwrap();
    wait_until("the shadow has been cut twice", || cuts() >= 2);
    go_on(&[&transfer], 1000);
    assert_eq!(transfer.info().total_retrans, 0);
    assert!(transfer.finish() > 500_000);
    success(sandbox.uc(&lab.wiring.hosts, &["detach", "--all"]));
    assert!(sandbox.is_clean());
}
