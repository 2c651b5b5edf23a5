//! `uc-bench run --on vm`: whole runs with VMs as guests, and that a killed run leaves nothing.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use uc_live::command::{assert_refusal, folder_with, outcome};
use uc_live::in_peace;

use crate::common::{UC_BENCH, live_vm};

/// Two guests with different kernels, one of them translated, and a third that shares its CPU.
const GUESTS: &str = r#"
name = "t/machines"
title = "machines"
duration = "9s"
settle = "3s"
sample = "100ms"
[network]
rate = "10Mbit"
access_rate = "100Mbit"
delay = "1ms"
queue = { kind = "droptail", limit = "30kB" }
[stack.reno]
congestion_control = "reno"
[stack.newer]
congestion_control = "reno"
kernel = "6.12"
[[case]]
name = "both"
[[case.guests]]
name = "virtual"
stack = "reno"
law = "ecn"
[[case.guests]]
name = "newer"
stack = "newer"
[[case]]
name = "stalled"
[[case.guests]]
name = "stalled"
stack = "reno"
hypervisor = { vms = 3 }
[[expect]]
name = "the link is used"
measure = { kind = "utilisation", case = "both" }
at_least = 0.85
[[expect]]
name = "the link is used by a guest with a third of a processor"
measure = { kind = "utilisation", case = "stalled" }
at_least = 0.2
"#;

fn on_vm(folder: &Path) -> Command {
    let mut command = Command::new(UC_BENCH);
    command
        .current_dir(folder)
        .args(["run", "t.toml", "--on", "vm", "--json", "--seed", "7"]);
    command
}

fn records(folder: &Path, experiment: &str) -> Vec<Value> {
    let path = folder.join("out").join(experiment).join("records.json");
    let text = std::fs::read_to_string(path).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let all = all.get("records").unwrap_or(&all).clone();
    all.as_array().unwrap().clone()
}

/// Returns the bytes delivered between the first and the last sample.
fn delivered(flow: &Value) -> u64 {
    let samples = flow["samples"].as_array().unwrap();
    let at = |sample: &Value| sample["delivered_bytes"].as_u64().unwrap();
    at(samples.last().unwrap()) - at(&samples[0])
}

#[test]
fn live_vm_guests_send_through_translated_ports_and_stop_during_stalls() {
    if !live_vm(&["6.1", "6.12"]) {
        return;
    }
    in_peace(|| {
        let folder = folder_with(GUESTS);
        let ended = outcome(on_vm(folder.path()));
        assert_eq!(
            (ended.status, &ended.stderr[..]),
            (Some(0), ""),
            "{ended:?}"
        );
        let records = records(folder.path(), "t-machines");
        let both = &records[0];
        for flow in both["flows"].as_array().unwrap() {
            assert!(
                delivered(flow) > 500_000,
                "seed 7: {} {}",
                flow["group"],
                delivered(flow)
            );
            assert!(flow["timeouts"].is_u64(), "seed 7: {}", flow["group"]);
            let last = flow["samples"].as_array().unwrap().last().unwrap();
            assert_eq!(last["mss_bytes"], 1448, "seed 7: {last}");
        }
        assert!(both["counters"]["port_translated"].as_u64().unwrap() > 1000);
        let shadow = &both["flows"][0]["samples"][50]["shadow_window_bytes"];
        assert!(shadow.is_u64(), "seed 7: {shadow}");
        // 9 s have 100 rounds of 90 ms; a delayed host misses some.
        let counters = &records[1]["counters"];
        let stalls = counters["vm_stalls"].as_u64().unwrap();
        let stalled_ms = counters["vm_stalled_ms"].as_u64().unwrap();
        println!("{counters}");
        assert!(stalls >= 50, "seed 7: {counters}");
        assert!(stalled_ms >= stalls * 40, "seed 7: {counters}");
    });
}

/// Returns the child processes of this process.
fn children_of(child: &Child) -> Vec<i32> {
    let mut all = Vec::new();
    let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", child.id())) else {
        return all;
    };
    for thread in threads.flatten() {
        let text = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        all.extend(
            text.split_whitespace()
                .filter_map(|pid| pid.parse::<i32>().ok()),
        );
    }
    all
}

fn is_machine(pid: i32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.is_ok_and(|name| name.starts_with("uc") || name.starts_with("qemu"))
}

#[test]
fn live_vm_a_run_killed_at_any_moment_leaves_no_vm() {
    if !live_vm(&["6.1"]) {
        return;
    }
    let long = GUESTS.replace("duration = \"9s\"", "duration = \"600s\"");
    let long = long.replace("kernel = \"6.12\"", "");
    // While the first VM boots, and while the stalled guest is stopped.
    for (case, machines) in [("both", 1), ("stalled", 1)] {
        let folder = folder_with(&long);
        let mut command = on_vm(folder.path());
        command
            .args(["--case", case])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let start = Instant::now();
        let mut seen = Vec::new();
        while seen.len() < machines {
            assert!(
                start.elapsed() < Duration::from_secs(120),
                "{case}: no machine"
            );
            assert!(child.try_wait().unwrap().is_none(), "{case}: it ended");
            std::thread::sleep(Duration::from_millis(20));
            seen = children_of(&child)
                .into_iter()
                .filter(|pid| is_machine(*pid))
                .collect();
        }
        if case == "stalled" {
            std::thread::sleep(Duration::from_secs(15));
            seen.extend(
                children_of(&child)
                    .into_iter()
                    .filter(|pid| is_machine(*pid)),
            );
        }
        kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).unwrap();
        child.wait().unwrap();
        let start = Instant::now();
        while let Some(pid) = seen.iter().find(|pid| is_machine(**pid)) {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "{case}: {pid} lives on"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        let left: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .flatten()
            .collect();
        println!(
            "{case}: killed with {} machines seen; left {left:?}",
            seen.len()
        );
    }
}

#[test]
fn live_vm_a_missing_qemu_or_unbootable_kernel_is_an_error_in_one_line() {
    if !live_vm(&["6.1"]) {
        return;
    }
    let folder = folder_with(GUESTS);
    let elsewhere = tempfile::tempdir().unwrap();
    for name in ["ip", "ethtool"] {
        let path = uc_lab::need::find(name).unwrap();
        std::os::unix::fs::symlink(path, elsewhere.path().join(name)).unwrap();
    }
    let mut command = on_vm(folder.path());
    command.env("PATH", elsewhere.path());
    assert_refusal(&outcome(command), &["qemu-system-x86"], "no QEMU");

    let kernels = elsewhere.path().join("undercurrent/kernels/6.1");
    let mut command = on_vm(folder.path());
    command.env("XDG_CACHE_HOME", elsewhere.path());
    assert_refusal(
        &outcome(command),
        &["6.1", "scripts/vm-kernels"],
        "no kernel",
    );

    std::fs::create_dir_all(kernels.join("modules")).unwrap();
    std::fs::write(kernels.join("release"), "6.1.0-none\n").unwrap();
    std::fs::write(kernels.join("vmlinuz"), [0; 100_000]).unwrap();
    let mut command = on_vm(folder.path());
    command
        .args(["--case", "stalled"])
        .env("XDG_CACHE_HOME", elsewhere.path());
    assert_refusal(
        &outcome(command),
        &["6.1.0-none", "did not boot", "QEMU ended"],
        "no boot",
    );
}

#[test]
fn stalled_guests_are_refused_on_the_live_backend() {
    let folder = folder_with(&GUESTS.replace("kernel = \"6.12\"", ""));
    let mut command = Command::new(UC_BENCH);
    command
        .current_dir(folder.path())
        .args(["run", "t.toml", "--on", "live"]);
    let parts = ["hypervisor is for sim and vm only", "--on sim|vm"];
    assert_refusal(&outcome(command), &parts, "live");
}
