//! Processes that attach are killed, or race: nothing breaks, and the next command repairs what
//! they left.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use uc_port::{AttachVia, Programs};

use crate::common::bench::build;
use crate::common::by_hand::{PORT, SHARED, TOOLS, flows, go_on, one_guest, start};
use crate::common::kills::Kills;
use crate::common::sandbox::Sandbox;
use crate::common::uc::{outcome, success};
use crate::common::{STACKS, experiment, guest, live_with};

/// Kills of an attach through each kind of hook, unless `UC_KILLS` is given.
const KILLS: u64 = 12;
/// Time that an attach takes, about: its kills come within it.
const ATTACH: Duration = Duration::from_millis(300);

fn killed_while_it_attaches(via: &str) {
    let (plan, lab) = one_guest(SHARED);
    let sandbox = Sandbox::new();
    let hosts = &lab.wiring.hosts;
    let transfer = start(&plan, &lab, 0);
    let mut kills = Kills::of(KILLS);
    while let Some(kill) = kills.another() {
        let mut command = sandbox.uc(hosts, &["attach", PORT, "--via", via]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        kills.sleep(&kill, ATTACH);
        child.kill().unwrap();
        child.wait().unwrap();
        println!("{via}: kill {} leaves {:?}", kill.number, sandbox.pins());
        // Whatever it left, the next one attaches, or reports that the killed one was complete.
        let next = outcome(sandbox.uc(hosts, &["attach", PORT, "--via", via]));
        let is_whole = next.status == Some(0) || next.stderr.contains("attached already");
        assert!(is_whole, "{via}: {next:?}");
        let seen = flows(&sandbox, &lab);
        assert_eq!(seen["ports"][0]["name"], PORT, "{via}: {seen}");
        success(sandbox.uc(hosts, &["detach", PORT]));
        assert!(sandbox.is_clean(), "{via}: {:?}", sandbox.pins());
    }
    // While Linux adds or removes a clsact qdisc it drops all packets of the interface, up to three
    // times a kill. A retransmission may be among them each time, so that the sender's timeout doubles.
    let sent_bytes = match via {
        "clsact" => transfer.end().0,
        _ => transfer.finish(),
    };
    assert!(sent_bytes > 500_000, "{via}");
}

#[test]
fn live_an_attach_killed_at_any_moment_breaks_nothing_and_can_be_repeated() {
    if !live_with(&TOOLS) {
        return;
    }
    killed_while_it_attaches("tcx");
    killed_while_it_attaches("clsact");
}

#[test]
fn live_an_attach_completes_the_pins_of_a_killed_one() {
    if !live_with(&TOOLS) {
        return;
    }
    let (plan, lab) = one_guest(SHARED);
    let sandbox = Sandbox::new();
    let uc = |arguments: &[&str]| sandbox.uc(&lab.wiring.hosts, arguments);
    let transfer = start(&plan, &lab, 0);
    // The moments between the pins are too short to be hit: the test removes the last pins instead.
    for missing in [
        &["to_guest"][..],
        &["to_guest", "from_guest"],
        &["to_guest", "flows"],
    ] {
        success(uc(&["attach", PORT]));
        let links = sandbox.pins().into_iter();
        let links = links.filter(|pin| pin.starts_with("port-"));
        links.for_each(|link| sandbox.unpin(&link));
        missing.iter().for_each(|pin| sandbox.unpin(pin));
        assert!(!sandbox.pins().is_empty(), "{missing:?}");
        success(uc(&["attach", PORT]));
        assert_eq!(
            flows(&sandbox, &lab)["ports"][0]["name"],
            PORT,
            "{missing:?}"
        );
        success(uc(&["detach", PORT]));
        assert!(sandbox.is_clean(), "{missing:?}: {:?}", sandbox.pins());
    }
    assert!(transfer.finish() > 500_000);
}

#[test]
fn live_links_without_their_programs_pins_are_removed_by_the_next_command() {
    if !live_with(&TOOLS) {
        return;
    }
    let (plan, lab) = one_guest(SHARED);
    let sandbox = Sandbox::new();
    let uc = |arguments: &[&str]| sandbox.uc(&lab.wiring.hosts, arguments);
    let transfer = start(&plan, &lab, 0);
    for (next, status) in [(&["detach", PORT][..], 2), (&["detach", "--all"], 0)] {
        success(uc(&["attach", PORT, "--via", "tcx"]));
        sandbox.unpin("to_guest");
        let ended = outcome(uc(next));
        assert_eq!(ended.status, Some(status), "{next:?}: {ended:?}");
        assert!(sandbox.is_clean(), "{next:?}: {:?}", sandbox.pins());
    }
    success(uc(&["attach", PORT, "--via", "tcx"]));
    sandbox.unpin("to_guest");
    success(uc(&["attach", PORT, "--via", "tcx"]));
    assert_eq!(flows(&sandbox, &lab)["ports"][0]["name"], PORT);
    success(uc(&["detach", PORT]));
    assert!(sandbox.is_clean(), "{:?}", sandbox.pins());
    assert!(transfer.finish() > 500_000);
}

#[test]
fn live_concurrent_attaches_share_one_set_of_programs() {
    if !live_with(&TOOLS) {
        return;
    }
    const PORTS: [&str; 4] = ["port0", "port1", "port2", "port3"];
    let text = guest("legacy", "legacy", "count = 4");
    let (_plan, lab) = build(&experiment(1, SHARED, &text, STACKS));
    let sandbox = Sandbox::new();
    let at_once = |verb: &str| {
        let uc = |port| outcome(sandbox.uc(&lab.wiring.hosts, &[verb, port]));
        std::thread::scope(|scope| {
            let uc = &uc;
            let runs = PORTS.map(|port| scope.spawn(move || uc(port)));
            for run in runs {
                let ended = run.join().unwrap();
                assert_eq!(ended.status, Some(0), "{verb}: {ended:?}");
            }
        });
    };
    for _ in 0..3 {
        at_once("attach");
        let seen = flows(&sandbox, &lab);
        assert_eq!(
            seen["ports"].as_array().unwrap().len(),
            PORTS.len(),
            "{seen}"
        );
        at_once("detach");
        assert!(sandbox.is_clean(), "{:?}", sandbox.pins());
    }
}

/// Attaches without pins in the namespace in which it was started, and waits to be killed. Only
/// another test runs it.
#[test]
#[ignore = "runs until it is killed; live_a_killed_process_with_unpinned_links starts it"]
fn a_process_that_holds_the_links() {
    let via = match std::env::var("UC_TEST_VIA").as_deref() {
        Ok("clsact") => AttachVia::Clsact,
        _ => AttachVia::Tcx,
    };
    let ifindex = nix::net::if_::if_nametoindex(PORT).unwrap();
    let programs = Programs::load(64).unwrap();
    let (law, profile) = (uc_experiment::Law::ECN, uc_experiment::Profile::Linux);
    let parameters = uc_experiment::Parameters::default();
    let policy = uc_law::policy(law, profile, &parameters);
    programs.set_plan(ifindex, &policy.into()).unwrap();
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
        "live_killed::a_process_that_holds_the_links",
        "--ignored",
        "--nocapture",
    ]);
    let mut holder = command
        .env("UC_TEST_VIA", via)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let is_attached = |line: std::io::Result<String>| line.unwrap().contains("attached");
    assert!(lines.any(is_attached), "{via}: the holder attached");
    let transfer = start(&plan, &lab, 0);
    go_on(&[&transfer], 1500);
    holder.kill().unwrap();
    holder.wait().unwrap();
    go_on(&[&transfer], 1000);
    go_on(&[&transfer], 1000);
    transfer.reach(2_000_000);
    transfer.finish();
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
