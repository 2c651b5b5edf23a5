//! Ports attached by hand, as an operator does, during transfers.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use uc_lab::{Lab, Plan};

use super::bench::build;
use super::sandbox::Sandbox;
use super::transfer::{End, Transfer};
use super::uc::success;
use super::{STACKS, experiment, guest};

/// Programs that a sandbox needs.
pub const TOOLS: [&str; 3] = ["unshare", "nsenter", "mount"];
/// Name of the first guest's port.
pub const PORT: &str = "port0";
/// A slow queue that drops only when it is full and never marks, so that two flows share it without starving each
/// other.
pub const SHARED: &str = "rate = \"20Mbit\"\naccess_rate = \"100Mbit\"\ndelay = \"1ms\"\n\
     queue = { kind = \"droptail\", limit = \"100kB\" }";

/// Creates a lab with one guest and nothing attached.
pub fn one_guest(network: &str) -> (Plan, Lab) {
    build(&experiment(
        1,
        network,
        &guest("legacy", "legacy", ""),
        STACKS,
    ))
}

/// Starts a transfer from the guest to the server; each number has TCP ports of its own.
pub fn start(plan: &Plan, lab: &Lab, number: u16) -> Transfer {
    let end = |namespace, address, port| End {
        namespace,
        address: SocketAddr::new(address, port),
    };
    let from = end(
        &lab.wiring.guests[0],
        plan.guests[0].address,
        40_000 + number,
    );
    Transfer::start(
        from,
        end(
            &lab.wiring.servers[0],
            plan.servers[0].address,
            5001 + number,
        ),
    )
}

/// Lets the transfers run for a while, and waits until each has made progress.
pub fn go_on(transfers: &[&Transfer], milliseconds: u64) {
    let before: Vec<_> = transfers
        .iter()
        .map(|transfer| transfer.delivered_bytes())
        .collect();
    std::thread::sleep(Duration::from_millis(milliseconds));
    for (transfer, before) in transfers.iter().zip(before) {
        transfer.reach(before + 10_000);
    }
}

/// Returns the object that `uc flows --json` prints.
pub fn flows(sandbox: &Sandbox, lab: &Lab) -> Value {
    let text = success(sandbox.uc(&lab.wiring.hosts, &["flows", "--json"]));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Returns the packet count of a reason in the output of `uc flows --json`.
pub fn packets(flows: &Value, reason: &str) -> u64 {
    let rows = flows["packets"].as_array().unwrap();
    let row = rows.iter().find(|row| row["reason"] == reason);
    row.unwrap_or_else(|| panic!("no {reason}"))["packets"]
        .as_u64()
        .unwrap()
}

/// Returns the names and windows (bytes) of the flows in the output of `uc flows --json`. Panics unless each flow is
/// translated.
pub fn windows(flows: &Value) -> Vec<(String, f64)> {
    let row = |flow: &Value| {
        let ends = format!("{} {}", flow["guest"], flow["remote"]);
        assert_eq!(flow["stage"], "translating", "{flow}");
        (ends, flow["window_bytes"].as_f64().unwrap())
    };
    let mut rows: Vec<_> = flows["flows"].as_array().unwrap().iter().map(row).collect();
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows
}

/// Checks that the flows have the same ends, and windows within 5 %.
pub fn assert_same_windows(before: &[(String, f64)], after: &[(String, f64)]) {
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(after) {
        assert_eq!(before.0, after.0);
        let differs = (after.1 / before.1 - 1.0).abs();
        assert!(differs <= 0.05, "{before:?} {after:?}");
    }
}
