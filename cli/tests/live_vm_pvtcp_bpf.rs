//! PVTCP without a module in the guest's kernel: a minimum RTO that follows the stalls, loaded by
//! `uc guest load pvtcp`, compared with guests whose minimum RTO is fixed, small or 200 ms.

use std::time::Duration;

use uc_experiment::RunRecord;
use uc_lab::vm::{Machine, Machines, Templates};

use crate::common::uc::inside;
use crate::common::{experiment, guest, live_vm};

const SECONDS: u32 = 12;
const NETWORK: &str = "rate = \"100Mbit\"\naccess_rate = \"1Gbit\"\ndelay = \"50us\"\n\
     queue = { kind = \"droptail\", limit = \"64kB\" }";
const STALLED: &str = "hypervisor = { vms = 3 }";
/// Two ticks of Debian's kernels, the minimum that a socket accepts.
const LEAST: &str = "8";

/// The paper's setup: every part of today's stack that repairs or prevents an unnecessary timeout
/// is off.
fn stack(series: &str, rto_min: &str) -> String {
    format!(
        "[stack.old]\ncongestion_control = \"reno\"\nrack = false\nearly_retransmit = false\n\
         sack = false\ntimestamps = false\nfrto = \"off\"\nkernel = \"{series}\"\n{rto_min}"
    )
}

/// Loads the programs before the flow begins. A second load is refused.
fn load(machine: &mut Machine) {
    let arguments = [
        "/bin/uc",
        "guest",
        "load",
        "pvtcp",
        "--rto-min",
        LEAST,
        "--hold",
        "5",
    ];
    let ran = machine.run(&arguments, Duration::from_secs(60)).unwrap();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let ran = machine.run(
        &["/bin/uc", "guest", "list", "--json"],
        Duration::from_secs(60),
    );
    let ran = ran.unwrap();
    let state: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(state["pvtcp"]["rto_min_ms"], 8, "{ran:?}");
    let again = machine.run(&arguments, Duration::from_secs(60)).unwrap();
    assert!(again.stderr.contains("unload it first"), "{again:?}");
}

struct Run<'a> {
    series: &'a str,
    templates: &'a Templates,
}

impl Run<'_> {
    fn run(&self, more: &str, rto_min: &str, loaded: bool) -> RunRecord {
        let stack = stack(self.series, rto_min);
        let experiment = experiment(SECONDS, NETWORK, &guest("one", "old", more), &stack);
        let mut prepare = |_: &uc_lab::Guest, machine: &mut Machine| {
            if loaded {
                load(machine);
            }
            Ok(())
        };
        let mut machines = Machines::new(self.templates).prepared_by(&mut prepare);
        let record = crate::common::run(&mut machines, &experiment);
        let delivered = record.flows[0].samples.last().map(|s| s.delivered_bytes);
        println!(
            "{} {more} {rto_min} by BPF {loaded}: median timeout {} us, {delivered:?} bytes: {:?}",
            self.series,
            median_rto_us(&record),
            record.counters
        );
        record
    }
}

fn timeouts(record: &RunRecord) -> u64 {
    record.counters["vm_one_timeouts"]
}

/// Returns the median RTO over the second half of the run, in microseconds.
fn median_rto_us(record: &RunRecord) -> u32 {
    let samples = &record.flows[0].samples;
    let samples = samples[samples.len() / 2..].iter();
    let mut all: Vec<u32> = samples.filter_map(|sample| sample.rto_us).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

#[test]
fn live_vm_minimum_rto_by_bpf_is_small_and_grows_beyond_the_stalls() {
    let series = std::env::var("UC_VM_SERIES").unwrap_or_else(|_| "6.1".into());
    if !live_vm(&[series.as_str()]) {
        return;
    }
    let templates = Templates::new(inside());
    let run = Run {
        series: &series,
        templates: &templates,
    };
    let small = "rto_min = \"8ms\"";
    let without = run.run(STALLED, small, false);
    let with = run.run(STALLED, "", true);
    let control = run.run("", "", true);
    let stops = with.counters["vm_stalls"];
    let (before, after) = (timeouts(&without), timeouts(&with));
    println!("{series}: {stops} stops: {before} timeouts without, {after} with");
    assert!(
        2 * after <= before,
        "seed 1: {before} timeouts without, {after} with"
    );
    // Longer than a stall of 60 ms; and without stalls far below the initial 200 ms.
    let (raised, small) = (median_rto_us(&with), median_rto_us(&control));
    assert!(raised >= 60_000, "seed 1: {raised} us");
    assert!(small < 60_000, "seed 1: {small} us");
}

#[test]
fn live_vm_unloading_removes_the_minimum_rto_programs() {
    if !live_vm(&["6.1"]) {
        return;
    }
    let template = uc_lab::vm::Template::boot("6.1", &inside(), false).unwrap();
    let mut machine = template
        .machine("a guest", uc_lab::vm::Links::default())
        .unwrap();
    let mut uc = |arguments: &[&str]| {
        let arguments: Vec<&str> = ["/bin/uc", "guest"]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        machine.run(&arguments, Duration::from_secs(60)).unwrap()
    };
    for _ in 0..3 {
        assert_eq!(uc(&["load", "pvtcp"]).status, Some(0));
        assert!(uc(&["list"]).stdout.contains("least timeout 10 ms"));
        assert_eq!(uc(&["unload", "--all"]).status, Some(0));
        assert_eq!(uc(&["list"]).stdout, "nothing is loaded\n");
    }
    let refused = uc(&["load", "pvtcp", "--cgroup", "/proc"]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("cgroup2"), "{refused:?}");
    let refused = uc(&["load", "dctcp", "--hold", "3"]);
    assert!(
        refused
            .stderr
            .contains("--hold has an effect with pvtcp only"),
        "{refused:?}"
    );
    let refused = uc(&["unload", "uc_pvtcp"]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
}
