//! Flows that start by `watch`: their cost on an idle path, their gain where many start at once,
//! and no trace of them where the start law is another.

use crate::common::{again, experiment, experiment_with, group, run};
use uc_experiment::RunRecord;

/// 10 Gb/s and 100 us into one receiver, with 250 packets of ns-2's usual size as its buffer.
const INCAST: &str = r#"
name = "sim/watch"
title = "watch"
duration = "800ms"
sample = "10ms"
[network]
topology = "star"
rate = "10Gbit"
access_rate = "10100Mbit"
delay = "25us"
queue = { kind = "threshold", limit = "260kB", mark = "52kB", not_ect = "queue" }
[stack.dctcp]
congestion_control = "dctcp"
ecn = true
[stack.reno]
congestion_control = "reno"
[stack.server]
congestion_control = "dctcp"
ecn = true
delayed_ack = "0s"
[stack.legacy]
congestion_control = "reno"
delayed_ack = "0s"
"#;

const WATCH: &str = "start_law = \"watch\"\n";

/// Formats short flows of 10 kB, in epochs of 125 ms.
fn short(count: u32, stack: &str, more: &str) -> String {
    let epochs = "rounds = 4, every = \"125ms\", gap = \"1211ns\"";
    let application = format!("application = {{ epochs = {{ size = \"10kB\", {epochs} }} }}");
    let rest = format!("count = {count}\nstack = \"{stack}\"\nstart = \"100ms\"\n{application}");
    group("short", &format!("{rest}\n{more}"))
}

fn long(count: u32) -> String {
    group("long", &format!("count = {count}\nstack = \"dctcp\""))
}

/// Returns all completion times of short flows, in nanoseconds; none may be missing.
fn times(record: &RunRecord) -> Vec<u64> {
    let short = record.flows.iter().filter(|flow| flow.group == "short");
    let transfers = short.flat_map(|flow| &flow.completions);
    transfers
        .map(|transfer| {
            let finished_ns = transfer.finished_ns;
            finished_ns.unwrap_or_else(|| panic!("{}", again(record, "watch")))
                - transfer.started_ns
        })
        .collect()
}

fn mean_ns(record: &RunRecord) -> u64 {
    let times = times(record);
    times.iter().sum::<u64>() / times.len() as u64
}

fn drops(record: &RunRecord) -> u64 {
    record.flows.iter().map(|flow| flow.drops).sum()
}

fn counted(record: &RunRecord, name: &str) -> u64 {
    record.counters.get(name).copied().unwrap_or(0)
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_a_different_seed_different_bytes() {
    let experiment = experiment(INCAST, &[long(10), short(20, "dctcp", WATCH)]);
    let json = |seed| serde_json::to_string(&run(&experiment, seed)).expect("can be written");
    assert_eq!(json(3), json(3));
    assert_ne!(json(3), json(4));
}

#[test]
fn records_without_watch_flows_have_no_probe_counters() {
    let record = run(&experiment(INCAST, &[long(2), short(4, "dctcp", "")]), 1);
    let named = |name: &String| name.starts_with("watch_");
    assert!(!record.counters.keys().any(named));
}

#[test]
fn an_idle_path_is_probed_once_and_flows_start_within_5_percent_of_plain_ones() {
    for seed in 1..4 {
        let plain = run(&experiment(INCAST, &[short(1, "dctcp", "")]), seed);
        let watch = run(&experiment(INCAST, &[short(1, "dctcp", WATCH)]), seed);
        let (plain_ns, watch_ns) = (mean_ns(&plain), mean_ns(&watch));
        let again = again(&watch, "watch");
        assert!(
            watch_ns * 100 <= plain_ns * 105,
            "{watch_ns} {plain_ns} {again}"
        );
        assert_eq!(counted(&watch, "watch_probed_flows"), 1, "{again}");
        assert_eq!(counted(&watch, "watch_unprobed_flows"), 3, "{again}");
        assert_eq!(counted(&watch, "watch_probes_arrived"), 10, "{again}");
    }
}

#[test]
fn fifty_flows_that_start_among_fifty_long_ones_lose_no_packet() {
    let plain = run(&experiment(INCAST, &[long(50), short(50, "dctcp", "")]), 1);
    let watch = run(
        &experiment(INCAST, &[long(50), short(50, "dctcp", WATCH)]),
        1,
    );
    let again = again(&watch, "watch");
    assert!(
        drops(&plain) > 0,
        "an incast that overflows nothing: {again}"
    );
    let lost = |record: &RunRecord| -> u64 {
        let short = record.flows.iter().filter(|flow| flow.group == "short");
        short.map(|flow| flow.drops).sum()
    };
    assert_eq!(lost(&watch), 0, "{again}");
    assert!(mean_ns(&watch) * 3 < mean_ns(&plain), "{again}");
}

#[test]
fn the_receivers_host_sets_the_windows_also_if_the_receiver_connects() {
    let epochs = "rounds = 4, every = \"125ms\", gap = \"1211ns\", request = \"200B\"";
    let rest = |more| {
        let application = format!("application = {{ epochs = {{ size = \"20kB\", {epochs} }} }}");
        format!("count = 40\nstack = \"dctcp\"\nstart = \"100ms\"\n{application}\n{more}")
    };
    let all = |more| experiment(INCAST, &[long(20), group("short", &rest(more))]);
    let (plain, watch) = (run(&all(""), 2), run(&all(WATCH), 2));
    let again = again(&watch, "watch");
    assert_eq!(times(&watch).len(), 160, "{again}");
    assert!(counted(&watch, "watch_probed_flows") > 0, "{again}");
    assert!(counted(&watch, "watch_first_windows_waited") > 0, "{again}");
    assert!(drops(&plain) > drops(&watch), "{again}");
    assert!(mean_ns(&watch) < mean_ns(&plain), "{again}");
}

#[test]
fn watch_works_together_with_the_law_of_a_port() {
    let law = "law = \"dctcp\"\n";
    let keys = "receiver = \"legacy\"\nreceiver_law = \"dctcp\"";
    let long = |count| group("long", &format!("count = {count}\nstack = \"reno\"\n{law}"));
    let all = |more: &str| {
        let short = short(50, "reno", &format!("{law}{more}"));
        experiment_with(INCAST, keys, &[long(50), short])
    };
    let (plain, watch) = (run(&all(""), 1), run(&all(WATCH), 1));
    let again = again(&watch, "watch");
    assert_eq!(times(&watch).len(), 200, "{again}");
    assert!(counted(&watch, "port_translated") > 0, "{again}");
    assert!(mean_ns(&watch) * 3 < mean_ns(&plain), "{again}");
}

#[test]
fn observe_sends_probes_and_changes_no_window() {
    let observe = format!("{WATCH}watch = {{ observe = true }}");
    let watch = run(
        &experiment(INCAST, &[long(50), short(50, "dctcp", &observe)]),
        1,
    );
    let again = again(&watch, "watch");
    assert!(counted(&watch, "watch_probes_sent") > 0, "{again}");
    assert_eq!(counted(&watch, "watch_first_windows_waited"), 0, "{again}");
    assert!(drops(&watch) > 0, "{again}");
}

#[test]
fn flows_start_where_no_probe_is_sent_at_all() {
    let without = format!("{WATCH}watch = {{ probes = 0 }}");
    let watch = run(
        &experiment(INCAST, &[long(10), short(20, "dctcp", &without)]),
        1,
    );
    assert_eq!(times(&watch).len(), 80);
    assert_eq!(counted(&watch, "watch_probes_sent"), 0);
}
