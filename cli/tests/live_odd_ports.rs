//! Ports whose names and numbers few interfaces have, and ports that are deleted while they are attached.

use serde_json::Value;
use uc_lab::netns::Namespace;

use crate::common::by_hand::TOOLS;
use crate::common::live_with;
use crate::common::routed::ip;
use crate::common::sandbox::Sandbox;
use crate::common::uc::success;

/// Names that a shell, JSON or a policy's patterns could take for something else, with numbers beyond 16
/// and 24 bits.
const ODD: [(&str, u32); 5] = [
    ("a\"b\\c", 65_536),
    ("é💩", 16_777_217),
    ("{tap*}", 70_000),
    ("-tap", 77_777),
    ("last", 2_147_483_647),
];

/// Adds a veth with this name and number.
fn add(host: &Namespace, name: &str, index: u32) {
    ip(
        host,
        &format!("link add name {name} index {index} type veth peer name peer{index}"),
    );
}

/// Returns the names and numbers of the ports that `uc status --json` lists.
fn listed(sandbox: &Sandbox, host: &Namespace) -> Vec<(String, u32)> {
    let text = success(sandbox.uc(host, &["status", "--json"]));
    let report: Value = serde_json::from_str(&text).unwrap();
    let port = |port: &Value| {
        let name = port["name"].as_str().unwrap().to_owned();
        (name, port["ifindex"].as_u64().unwrap() as u32)
    };
    report["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(port)
        .collect()
}

#[test]
fn live_ports_of_any_name_and_number_are_attached_listed_and_detached() {
    if !live_with(&TOOLS) || !live_with(&["ip"]) {
        return;
    }
    let (host, sandbox) = (Namespace::new("the hosts").unwrap(), Sandbox::new());
    for (name, index) in ODD {
        add(&host, name, index);
        success(sandbox.uc(&host, &["attach", "--law", "ecn", "--", name]));
    }
    let mut wanted = ODD.map(|(name, index)| (name.to_owned(), index)).to_vec();
    wanted.sort_by_key(|port| port.1);
    assert_eq!(listed(&sandbox, &host), wanted);
    for (name, _) in ODD {
        success(sandbox.uc(&host, &["detach", "--now", "--", name]));
    }
    assert_eq!(sandbox.pins(), [] as [&str; 0]);
}

#[test]
fn live_ports_that_are_deleted_leave_no_pins() {
    if !live_with(&TOOLS) || !live_with(&["ip"]) {
        return;
    }
    let (host, sandbox) = (Namespace::new("the hosts").unwrap(), Sandbox::new());
    add(&host, "stays", 9);
    success(sandbox.uc(&host, &["attach", "--law", "ecn", "stays"]));
    let mut before = sandbox.pins();
    before.sort();
    for index in 100..110 {
        add(&host, &format!("goes{index}"), index);
        success(sandbox.uc(&host, &["attach", "--law", "ecn", &format!("goes{index}")]));
        ip(&host, &format!("link del peer{index}"));
    }
    add(&host, "later", 200);
    success(sandbox.uc(&host, &["attach", "--law", "ecn", "later"]));
    success(sandbox.uc(&host, &["detach", "--now", "later"]));
    let mut after = sandbox.pins();
    after.sort();
    assert_eq!(after, before);
    assert_eq!(listed(&sandbox, &host), [("stays".to_owned(), 9)]);
}
