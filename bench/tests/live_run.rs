//! `uc-bench run` on a tiny experiment: its object, its exit status, its files, and Ctrl-C.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use uc_lab::netns::Namespace;
use uc_live::command::{Outcome, assert_refusal, outcome};

use crate::common::{TINY, UC_BENCH, live};

/// A timeout that only a hang reaches on a busy machine: ten times the run itself.
const PATIENCE: Duration = Duration::from_secs(60);

fn folder_with(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.toml"), text).unwrap();
    folder
}

fn run_in(folder: &TempDir) -> Command {
    let mut command = Command::new(UC_BENCH);
    command
        .current_dir(folder.path())
        .args(["run", "t.toml", "--on", "live", "--json", "--seed", "5"]);
    command
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn assert_object(outcome: &Outcome, holds: bool) {
    let object: Value = serde_json::from_str(&outcome.stdout).expect("one JSON object");
    let expected = [
        "experiment",
        "arm",
        "seed",
        "commit",
        "runs",
        "points",
        "results",
        "unjudged",
        "emulation",
        "holds",
    ];
    assert_eq!(keys(&object), BTreeSet::from(expected));
    let late = &object["emulation"];
    // a run on a machine that stalls is made again, which one line says
    let again = outcome.stderr.lines().count();
    assert_eq!(
        (&late["repeated"], &late["late"]),
        (&again.into(), &0.into())
    );
    assert_eq!(object["experiment"], "t/tiny");
    assert_eq!(object["arm"], "live");
    assert_eq!(
        (&object["seed"], &object["runs"]),
        (&Value::from(5), &Value::from(1))
    );
    assert!(
        object["commit"]
            .as_str()
            .is_some_and(|commit| !commit.is_empty())
    );
    assert_eq!(object["holds"], holds);
    let results = object["results"].as_array().unwrap();
    assert_eq!(results.len(), 1);
    let expected = [
        "name", "paper", "ours", "spread", "interval", "expect", "basis", "verdict", "holds", "n",
    ];
    assert_eq!(keys(&results[0]), BTreeSet::from(expected));
    assert_eq!(results[0]["name"], "it uses the link");
    assert_eq!(results[0]["holds"], holds);
    assert!(
        results[0]["ours"]
            .as_f64()
            .is_some_and(|ours| (0.5..=1.1).contains(&ours))
    );
}

#[test]
fn live_run_prints_one_object_with_the_promised_keys_and_its_status_is_the_verdict() {
    if !live() {
        return;
    }
    for (bound, status) in [("at_least = 0.5", 0), ("at_most = 0.01", 1)] {
        let folder = folder_with(&TINY.replace("at_least = 0.5", bound));
        let outcome = outcome(run_in(&folder));
        let is_again = |line: &&str| {
            line.starts_with("uc-bench: case only, run 0: ")
                && line.contains("; again, with at most ")
        };
        let other_lines = outcome.stderr.lines().filter(|line| !is_again(line));
        assert_eq!(
            (outcome.status, other_lines.collect()),
            (Some(status), Vec::<&str>::new()),
            "{bound}"
        );
        assert_object(&outcome, status == 0);
        assert_eq!(
            names_in(folder.path()),
            ["out", "t.toml"].map(String::from).into()
        );
        let files = uc_batch::outputs::FILES.into_iter().chain([uc_batch::RUNS]);
        let files = files.map(String::from).collect();
        assert_eq!(names_in(&folder.path().join("out/t-tiny")), files);
    }
}

/// Network namespaces that the process holds by descriptor.
fn namespaces_of(child: &Child) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{}/fd", child.id())) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_namespace = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("net:"))
    };
    paths
        .filter(is_namespace)
        .map(|path| path.to_str().unwrap().to_owned())
        .collect()
}

/// Creates a namespace with one end of a veth pair whose other end is in the namespace at `path`:
/// it vanishes with that namespace.
fn canary(path: &str) -> Namespace {
    let cage = Namespace::new("the canary").unwrap();
    let mut command = cage.command(uc_lab::need::program("ip").unwrap());
    command.args([
        "link", "add", "canary", "type", "veth", "peer", "name", "watched", "netns",
    ]);
    assert!(command.arg(path).status().unwrap().success(), "{path}");
    cage
}

/// Returns `true` if a connection is established in one of the namespaces: the transfer has begun.
fn transfers(paths: &[String]) -> bool {
    let is_open = |path: &String| {
        let Ok(namespace) = File::open(path) else {
            return false;
        };
        let look = move || {
            if setns(namespace, CloneFlags::CLONE_NEWNET).is_err() {
                return false; // the number is another file's by now
            }
            let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
            // The fourth word is the state, 1 is ESTABLISHED.
            table
                .lines()
                .any(|line| line.split_whitespace().nth(3) == Some("01"))
        };
        std::thread::spawn(look).join().unwrap()
    };
    paths.iter().any(is_open)
}

fn sings(cage: &Namespace) -> bool {
    cage.enter(|| nix::net::if_::if_nametoindex("canary").is_ok())
        .unwrap()
}

#[test]
fn live_ctrl_c_ends_a_run_early_and_leaves_nothing() {
    if !live() {
        return;
    }
    let folder = folder_with(&TINY.replace("duration = \"2s\"", "duration = \"600s\""));
    let mut command = run_in(&folder);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    // In the middle of its transfer: a kernel that verifies programs is not interrupted.
    while !transfers(&namespaces_of(&child)) {
        assert!(start.elapsed() < PATIENCE, "the run has begun");
        std::thread::sleep(Duration::from_millis(20));
    }
    let cages: Vec<Namespace> = namespaces_of(&child)
        .iter()
        .map(|path| canary(path))
        .collect();
    assert!(
        cages.len() >= 3 && cages.iter().all(sings),
        "hosts, server and a guest"
    );

    let start = Instant::now();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        assert!(start.elapsed() < PATIENCE, "the run outlives SIGINT");
        std::thread::sleep(Duration::from_millis(10));
    };
    println!("ended {:?} after SIGINT", start.elapsed());
    let (mut stdout, mut stderr) = (String::new(), String::new());
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut stdout)
        .unwrap();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_refusal(
        &Outcome {
            status,
            stdout,
            stderr,
        },
        &["cancelled"],
        "SIGINT",
    );
    assert_eq!(names_in(folder.path()), ["t.toml"].map(String::from).into());
    let start = Instant::now();
    while cages.iter().any(sings) {
        assert!(start.elapsed() < PATIENCE, "a namespace outlives the run");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Stops a process for `pause`, its network's thread among others, while frames are under way.
fn hold_up(child: &Child, pause: Duration) {
    let start = Instant::now();
    while !transfers(&namespaces_of(child)) {
        assert!(start.elapsed() < PATIENCE, "the run has begun");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500)); // the flow has filled the queue
    let pid = Pid::from_raw(child.id() as i32);
    kill(pid, Signal::SIGSTOP).unwrap();
    std::thread::sleep(pause);
    kill(pid, Signal::SIGCONT).unwrap();
}

#[test]
fn live_run_whose_network_stood_still_is_made_again_and_the_result_says_so() {
    if !live() {
        return;
    }
    let folder = folder_with(TINY);
    let mut command = run_in(&folder);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    hold_up(&child, Duration::from_millis(200));
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let object: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let told = "case only, run 0: the network stood still for";
    assert!(
        stderr.contains(told) && stderr.contains("; again"),
        "{stderr}"
    );
    let late = &object["emulation"];
    assert_eq!((&late["repeated"], &late["late"]), (&1.into(), &0.into()));
    assert_eq!(object["results"][0]["verdict"], "holds");
    assert_eq!(output.status.code(), Some(0), "{stderr}");
}

#[test]
fn live_run_that_is_late_even_alone_is_reported_as_late_and_decides_nothing() {
    if !live() {
        return;
    }
    // No machine delivers within four nanoseconds.
    let folder = folder_with(&format!("late_max = 0.000001\n{TINY}"));
    let outcome = outcome(run_in(&folder));
    let object: Value = serde_json::from_str(&outcome.stdout).expect("one JSON object");
    assert_eq!(
        outcome.stderr.matches("; again").count(),
        1,
        "{}",
        outcome.stderr
    );
    let late = &object["emulation"];
    assert_eq!((&late["repeated"], &late["late"]), (&1.into(), &1.into()));
    let result = &object["results"][0];
    assert_eq!(result["verdict"], "undecided");
    let why = result["late"].as_str().unwrap();
    assert!(why.starts_with("1 of its runs too late to count"), "{why}");
    assert_eq!(outcome.status, Some(1));
}
