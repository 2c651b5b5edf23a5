//! A lab leaves nothing behind, however it ends.

mod support;

use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use support::{Canary, build, experiment, live};
use uc_lab::netns::Namespace;
use uc_lab::{LabError, NoPorts, Progress, Repetition, run_case};

/// What the run that is to be killed prints when its guests send.
const SENDING: &str = "the guests send";
const NETWORK: &str =
    "rate = \"10Mbit\"\ndelay = \"1ms\"\nqueue = { kind = \"droptail\", limit = \"100kB\" }";
const TWO_GUESTS: &str = "[[case.guests]]\nname = \"g\"\ncount = 2\nstack = \"reno\"";
const RENO: &str = "[stack.reno]\ncongestion_control = \"reno\"";

fn links_here() -> String {
    let output = Command::new("ip").args(["-o", "link"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn live_a_dropped_lab_leaves_nothing() {
    if !live() {
        return;
    }
    let before = links_here();
    let (_, lab) = build(&experiment(1, NETWORK, TWO_GUESTS, RENO));
    let namespaces = [&lab.wiring.hosts, &lab.wiring.servers[0]]
        .into_iter()
        .chain(&lab.wiring.guests);
    let canaries: Vec<Canary> = namespaces
        .map(|namespace| Canary::new(namespace.path().to_str().unwrap()))
        .collect();
    assert_eq!(links_here(), before);
    drop(lab);
    assert!(canaries.iter().all(Canary::dies));
    assert_eq!(links_here(), before);
}

#[test]
fn live_a_namespace_vanishes_when_the_code_inside_panics() {
    if !live() {
        return;
    }
    let mut canary = None;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let namespace = Namespace::new("a guest").unwrap();
        canary = Some(Canary::new(namespace.path().to_str().unwrap()));
        namespace.enter(|| panic!("on purpose")).unwrap();
    }));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"on purpose"));
    assert!(canary.unwrap().dies());
}

/// The process that the next test kills; it tests nothing itself.
#[test]
#[ignore = "runs until it is killed; live_a_killed_run_leaves_nothing starts it"]
fn a_run_that_waits_to_be_killed() {
    let experiment = experiment(600, NETWORK, TWO_GUESTS, RENO);
    let (case, cancel) = (&experiment.cases[0], AtomicBool::new(false));
    let progress = |progress| {
        if matches!(progress, Progress::Running { .. }) {
            println!("{SENDING}");
        }
    };
    let repetition = Repetition { run: 0, seed: 1 };
    let ended = run_case(
        &experiment,
        case,
        repetition,
        &mut NoPorts,
        &progress,
        &cancel,
    );
    panic!("seed 1: {ended:?}");
}

#[test]
fn live_a_killed_run_leaves_nothing() {
    if !live() {
        return;
    }
    let before = links_here();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "a_run_that_waits_to_be_killed",
            "--ignored",
            "--nocapture",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let is_sending = |line: std::io::Result<String>| line.unwrap().contains(SENDING);
    assert!(
        lines.any(is_sending),
        "the child ended before it was killed"
    );
    // In the middle of its transfers, with full sockets.
    std::thread::sleep(std::time::Duration::from_millis(1000));
    let canaries: Vec<Canary> = namespaces_of(child.id())
        .iter()
        .map(|p| Canary::new(p))
        .collect();
    assert_eq!(canaries.len(), 4, "hosts, server and two guests");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(canaries.iter().all(Canary::dies));
    assert_eq!(links_here(), before);
}

/// Returns the descriptors of the process that are network namespaces.
fn namespaces_of(pid: u32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| {
            let target = std::fs::read_link(path).unwrap_or_default();
            target.to_string_lossy().starts_with("net:")
        })
        .map(|path| path.to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn live_a_sysctl_that_is_refused_or_missing_is_named_with_its_value() {
    if !live() {
        return;
    }
    let namespace = Namespace::new("guest[3]").unwrap();
    for (key, value) in [("net.ipv4.tcp_ecn", "77"), ("net.ipv4.no_such_key", "1")] {
        let error = namespace.set_sysctls(&[(key, value.into())]).unwrap_err();
        assert!(matches!(error, LabError::Sysctl { .. }));
        let text = error.to_string();
        assert!(
            [key, value, "guest[3]"]
                .iter()
                .all(|part| text.contains(part)),
            "{text}"
        );
    }
    // The kernel rounds nothing and keeps what it was given.
    namespace
        .set_sysctls(&[("net.ipv4.tcp_rmem", "4096 65536 65536".into())])
        .unwrap();
    let read = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").unwrap();
    assert_eq!(namespace.enter(read).unwrap().trim(), "4096\t65536\t65536");
    assert_ne!(
        read().trim(),
        "4096\t65536\t65536",
        "the machine's own setting is untouched"
    );
}
