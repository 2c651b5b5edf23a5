//! Ports come and go, and so do the processes that attach them: every connection lives on.

mod common;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use common::bench::{build, wait_until};
use common::sandbox::Sandbox;
use common::transfer::{End, Transfer};
use common::uc::{outcome, success};
use common::{RED1, STACKS, experiment, guest, live_with};
use serde_json::Value;
use uc_core::consts;
use uc_lab::{Lab, Plan};
use uc_port::{AttachVia, Programs};

const TOOLS: [&str; 3] = ["unshare", "nsenter", "mount"];
const PORT: &str = "port0";
/// A queue that drops late and marks nothing: two flows share it without starving each other.
const SHARED: &str = "rate = \"20Mbit\"\naccess_rate = \"100Mbit\"\ndelay = \"1ms\"\n\
     queue = { kind = \"droptail\", limit = \"100kB\" }";

fn one_guest(network: &str) -> (Plan, Lab) {
    build(&experiment(
        1,
        network,
        &guest("legacy", "legacy", ""),
        STACKS,
    ))
}

fn start(plan: &Plan, lab: &Lab, number: u16) -> Transfer {
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
        end(&lab.wiring.server, plan.server.address, 5001 + number),
    )
}

/// Lets the transfers run for a while, in which each of them gets on.
fn go_on(transfers: &[&Transfer], milliseconds: u64) {
    let before: Vec<_> = transfers
        .iter()
        .map(|transfer| transfer.delivered_bytes())
        .collect();
    std::thread::sleep(Duration::from_millis(milliseconds));
    for (transfer, before) in transfers.iter().zip(before) {
        let after = transfer.delivered_bytes();
        assert!(
            after > before + 10_000,
            "{}: {before} to {after}",
            transfer.source
        );
    }
}

fn flows(sandbox: &Sandbox, lab: &Lab) -> Value {
    let text = success(sandbox.uc(&lab.wiring.hosts, &["flows", "--json"]));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn packets(flows: &Value, reason: &str) -> u64 {
    let rows = flows["packets"].as_array().unwrap();
    let row = rows.iter().find(|row| row["reason"] == reason);
    row.unwrap_or_else(|| panic!("no {reason}"))["packets"]
        .as_u64()
        .unwrap()
}

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

fn killed_while_it_attaches(via: &str) {
    let (plan, lab) = one_guest(SHARED);
    let sandbox = Sandbox::new();
    let hosts = &lab.wiring.hosts;
    let transfer = start(&plan, &lab, 0);
    for pause_ms in [0, 3, 10, 30, 60, 90, 120, 150, 180, 220, 260, 300] {
        let mut command = sandbox.uc(hosts, &["attach", PORT, "--via", via]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(pause_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        println!("{via}: killed after {pause_ms} ms: {:?}", sandbox.pins());
        // Whatever it left, the next one attaches, or says that the killed one had done it all.
        let next = outcome(sandbox.uc(hosts, &["attach", PORT, "--via", via]));
        let is_whole = next.status == Some(0) || next.stderr.contains("attached already");
        assert!(is_whole, "{via}, killed after {pause_ms} ms: {next:?}");
        let seen = flows(&sandbox, &lab);
        assert_eq!(
            seen["ports"][0]["name"], PORT,
            "{via}, {pause_ms} ms: {seen}"
        );
        success(sandbox.uc(hosts, &["detach", PORT]));
        assert!(
            sandbox.is_clean(),
            "{via}, {pause_ms} ms: {:?}",
            sandbox.pins()
        );
    }
    assert!(transfer.finish() > 500_000, "{via}");
}

#[test]
fn live_an_attach_that_is_killed_at_any_moment_breaks_nothing_and_can_be_mended() {
    if !live_with(&TOOLS) {
        return;
    }
    killed_while_it_attaches("tcx");
    killed_while_it_attaches("clsact");
}

/// Not a test of its own: attaches without pins, in the namespace in which it was started, and
/// waits to be killed.
#[test]
#[ignore = "runs until it is killed; live_a_killed_process_with_unpinned_links starts it"]
fn a_process_that_holds_the_links() {
    let via = match std::env::var("UC_TEST_VIA").as_deref() {
        Ok("clsact") => AttachVia::Clsact,
        _ => AttachVia::Tcx,
    };
    let ifindex = nix::net::if_::if_nametoindex(PORT).unwrap();
    let programs = Programs::load(64).unwrap();
    let (law, profile) = (uc_experiment::Law::Ecn, uc_experiment::Profile::Linux);
    let policy = uc_cli::live::policy(law, profile, consts::ECN_SYNS_ALWAYS as u8);
    programs.set_policy(ifindex, &policy).unwrap();
    let _links = programs.attach(ifindex, via).unwrap();
    println!("attached");
    loop {
        std::thread::park();
    }
}

fn killed_with_unpinned_links(via: &str) {
    let (plan, lab) = one_guest(SHARED);
    let mut command = lab.wiring.hosts.command(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "a_process_that_holds_the_links",
        "--ignored",
        "--nocapture",
    ]);
    let mut holder = command
        .env("UC_TEST_VIA", via)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let is_attached = |line: std::io::Result<String>| line.unwrap().contains("attached");
    assert!(
        lines.map(is_attached).any(|attached| attached),
        "{via}: the holder attached"
    );
    let transfer = start(&plan, &lab, 0);
    go_on(&[&transfer], 1500);
    holder.kill().unwrap();
    holder.wait().unwrap();
    go_on(&[&transfer], 1000);
    go_on(&[&transfer], 1000);
    assert!(transfer.finish() > 2_000_000, "{via}");
}

#[test]
fn live_a_killed_process_with_unpinned_links_breaks_no_connection() {
    if !live_with(&TOOLS) {
        return;
    }
    std::thread::scope(|scope| {
        for via in ["tcx", "clsact"] {
            scope.spawn(move || killed_with_unpinned_links(via));
        }
    });
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
