//! Refusals of `uc-bench run`: one line with the object and the remedy, exit status 2, and nothing left
//! behind.

use std::process::Command;

use tempfile::TempDir;
use uc_live::command::{folder_with, names_in, refusal};

use crate::common::{TINY, UC_BENCH, live, unprivileged};

fn run_in(folder: &TempDir) -> Command {
    let mut command = Command::new(UC_BENCH);
    command
        .current_dir(folder.path())
        .args(["run", "t.toml", "--json"]);
    command
}

/// Text of the good file, its replacement, and the parts of the refusal, in this order.
const MALFORMED: [(&str, &str, &[&str]); 7] = [
    (
        "settle =",
        "setle =",
        &["t.toml:", "unknown key `setle`", "did you mean `settle`?"],
    ),
    (
        "\"10Mbit\"",
        "10",
        &["t.toml:", "a number in a file needs a unit", "\"10Mbit\""],
    ),
    (
        "\"10Mbit\"",
        "\"10Mb\"",
        &["t.toml:", "`10Mb` is not a rate", "bit, kbit, Mbit, Gbit"],
    ),
    (
        "count = 1",
        "count = 0",
        &["t.toml:", "count: is 0", "give at least 1"],
    ),
    (
        "count = 1",
        "count = -1",
        &["t.toml:", "integer `-1`", "a whole number"],
    ),
    (
        "stack = \"legacy\"",
        "stack = \"lagacy\"",
        &["[stack.lagacy]", "did you mean `legacy`?"],
    ),
    ("[network]", "this is no TOML", &["t.toml:"]),
];

#[test]
fn malformed_experiments_are_refused_with_place_and_remedy() {
    for (from, to, parts) in MALFORMED {
        assert!(TINY.contains(from), "{from:?}");
        let folder = folder_with(&TINY.replacen(from, to, 1));
        refusal(run_in(&folder), parts);
        assert_eq!(
            names_in(folder.path()),
            ["t.toml"],
            "nothing is left behind"
        );
    }
}

#[test]
fn missing_files_and_senseless_overrides_are_refused() {
    let folder = folder_with(TINY);
    let mut missing = Command::new(UC_BENCH);
    missing
        .current_dir(folder.path())
        .args(["run", "no/such.toml"]);
    refusal(
        missing,
        &[
            "no/such.toml: No such file",
            "name an experiment file (*.toml)",
        ],
    );
    for (argument, parts) in [
        (
            "network.rat=1Mbit",
            &["--set network.rat=1Mbit", "rate"][..],
        ),
        (
            "network.rate=1",
            &[
                "--set network.rate=1",
                "a number in a file needs a unit and quotes",
            ],
        ),
        ("repeat=0", &["repeat: is 0", "run it at least once"]),
    ] {
        let mut command = run_in(&folder);
        command.args(["--set", argument]);
        refusal(command, parts);
    }
    let mut command = run_in(&folder);
    command.args(["--case", "nosuch"]);
    let told = refusal(command, &["--case nosuch: no such case", "only"]);
    assert!(!told.contains("--set"), "{told}");
    let mut command = run_in(&folder);
    command.args(["--out", "t.toml/results"]);
    refusal(command, &["could not make the folder t.toml/results"]);
    assert_eq!(
        names_in(folder.path()),
        ["t.toml"],
        "nothing is left behind"
    );
}

/// Text added to the good file, arguments, and the parts of the refusal, in this order.
const UNSUITED: [(&str, &str, &[&str], &[&str]); 6] = [
    (
        "sample = \"100ms\"",
        "sample = \"100ms\"\narms = [\"sim\"]",
        &["--on", "live"],
        &["t.toml:", "arms", "exclude backend live", "--on sim"],
    ),
    (
        "congestion_control = \"reno\"",
        "congestion_control = \"bbr\"",
        &["--on", "sim"],
        &["t.toml:", "congestion_control", "`bbr`", "--on live"],
    ),
    (
        "congestion_control = \"reno\"",
        "congestion_control = \"reno\"\nnagle = false",
        &["--on", "live"],
        &["t.toml:", "nagle", "--on sim"],
    ),
    (
        "sample =",
        "sample =",
        &["--point", "ecn=9"],
        &["--point ecn=9", "t/tiny has no [[sweep]]"],
    ),
    (
        "[[case]]",
        "[[sweep]]\nname = \"rate\"\nset = { \"network.rate\" = [\"5Mbit\", \"10Mbit\"] }\n[[case]]",
        &["--point", "rat=5Mbit"],
        &["--point rat=5Mbit", "no axis `rat`", "rate"],
    ),
    (
        "[[case]]",
        "[[sweep]]\nname = \"rate\"\nset = { \"network.rate\" = [\"5Mbit\", \"10Mbit\"] }\n[[case]]",
        &["--point", "rate=7Mbit"],
        &["no `7Mbit` on the axis rate", "5Mbit, 10Mbit"],
    ),
];

#[test]
fn unsuitable_backends_and_points_are_refused_with_the_remedy() {
    for (from, to, arguments, parts) in UNSUITED {
        assert!(TINY.contains(from), "{from:?}");
        let folder = folder_with(&TINY.replacen(from, to, 1));
        let mut command = run_in(&folder);
        command.args(arguments);
        refusal(command, parts);
        assert_eq!(names_in(folder.path()), ["t.toml"], "{arguments:?}");
    }
    let mut command = Command::new(UC_BENCH);
    command.args(["run", "t.toml", "--on", "cloud"]);
    let told = uc_live::command::outcome(command);
    assert_eq!(told.status, Some(2), "{told:?}");
    assert!(told.stderr.contains("sim, live, vm"), "{told:?}");
}

/// Text of the good file, its replacement, arguments, and the parts of the refusal, in this order.
const TOO_MUCH: [(&str, &str, &[&str], &[&str]); 7] = [
    (
        "sample = \"100ms\"",
        "sample = \"1ns\"",
        &[],
        &[
            "t/tiny: all runs together (1) keep 4000000002 samples",
            "larger `sample`",
        ],
    ),
    (
        "sample = \"100ms\"",
        "sample = \"1ms\"",
        &["--repeat", "100000"],
        &["all runs together (100000)", "--repeat"],
    ),
    (
        "sample =",
        "sample =",
        &["--repeat", "100001"],
        &["repeat: is 100001", "at most 100000"],
    ),
    (
        "count = 1",
        "flows = 70000",
        &[],
        &["t/tiny, case only: 70000 flows", "lower `count` or `flows`"],
    ),
    (
        "kind = \"threshold\", limit = \"200kB\", mark = \"30kB\"",
        "kind = \"red\", min = \"30kB\", max = \"90kB\", limit = \"200kB\", burst = 60, \
         probability = 0.0, packet = \"1500B\", ecn = true",
        &[],
        &["t/tiny, case only", "network:", "probability"],
    ),
    (
        "[[expect]]",
        "[[case.guests]]\nname = \"b\"\nstack = \"legacy\"\nhost = \"h\"\nto = 1\n\
         [[case.guests]]\nname = \"c\"\nstack = \"legacy\"\nhost = \"h\"\nto = 2\n[[expect]]",
        &["--set", "network.topology={ parking-lot = { hops = 2 } }"],
        &[
            "t.toml:33:6: case.0.guests.2.to: host `h` sends to a receiver at 1 already",
            "a host has one",
        ],
    ),
    (
        "[[case]]",
        "[[sweep]]\nname = \"flows\"\nset = { \"case.only.guests.virtual.flows\" = [1, 70000] }\n\
         [[case]]",
        &[],
        &["t/tiny, case only, flows 70000", "above 65536"],
    ),
];

#[test]
fn file_that_cannot_be_simulated_is_refused_before_the_first_run_and_leaves_nothing() {
    for (from, to, arguments, parts) in TOO_MUCH {
        assert!(TINY.contains(from), "{from:?}");
        let folder = folder_with(&TINY.replacen(from, to, 1));
        let mut command = run_in(&folder);
        command
            .args(["--on", "sim", "--out", "results"])
            .args(arguments);
        // A first run would still be running, or the folder could not be created.
        std::fs::write(folder.path().join("results"), "in the way").unwrap();
        refusal(command, parts);
        assert_eq!(names_in(folder.path()), ["results", "t.toml"], "{to}");
    }
}

#[test]
fn numbers_out_of_range_are_refused_with_the_range() {
    for (arguments, range) in [
        (&["run", "t.toml", "--jobs", "0"][..], "1..=1024"),
        (&["run", "t.toml", "--jobs", "1000000"], "1..=1024"),
    ] {
        let mut command = Command::new(UC_BENCH);
        command.args(arguments);
        let told = uc_live::command::outcome(command);
        assert_eq!(told.status, Some(2), "{arguments:?}: {told:?}");
        assert!(told.stderr.contains(range), "{arguments:?}: {told:?}");
    }
}

#[test]
fn a_run_without_root_names_the_missing_capability() {
    let folder = folder_with(TINY);
    let mut command = unprivileged();
    let arguments = ["run", "t.toml", "--on", "live"];
    command.current_dir(folder.path()).args(arguments);
    refusal(command, &["CAP_NET_ADMIN is missing", "run as root"]);
    assert_eq!(
        names_in(folder.path()),
        ["t.toml"],
        "nothing is left behind"
    );
}

#[test]
fn live_a_run_on_a_kernel_without_bpf_names_the_port_and_the_remedy() {
    use std::os::unix::process::CommandExt;
    if !live() {
        return;
    }
    let folder = folder_with(TINY);
    let mut command = run_in(&folder);
    command.args(["--on", "live"]);
    let filter = uc_live::seccomp::without_bpf();
    // SAFETY: two system calls between fork and exec, which allocate nothing.
    unsafe { command.pre_exec(move || filter.install()) };
    refusal(
        command,
        &["port0", "this kernel can't", "CONFIG_BPF_SYSCALL"],
    );
    assert_eq!(
        names_in(folder.path()),
        ["t.toml"],
        "nothing is left behind"
    );
}
