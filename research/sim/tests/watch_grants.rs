//! First windows that one host grants to all flows of a shared link, which lead to several hosts.

use crate::common::{again, experiment_with, group, run};
use uc_experiment::RunRecord;

/// 10 Gb/s and 100 us between as many senders and receivers; the buffer holds 250 packets of ns-2.
const DUMBBELL: &str = r#"
name = "sim/watch-grants"
title = "turns between hosts"
duration = "800ms"
sample = "10ms"
[network]
topology = "dumbbell"
rate = "10Gbit"
access_rate = "10100Mbit"
delay = "16666ns"
queue = { kind = "threshold", limit = "260kB", mark = "52kB", not_ect = "queue" }
[stack.dctcp]
congestion_control = "dctcp"
ecn = true
[stack.server]
congestion_control = "dctcp"
ecn = true
delayed_ack = "0s"
"#;

const WATCH: &str = "start_law = \"watch\"\n";
const GRANTS: &str = "grants = \"10Gbit\"";

/// Runs long flows, and short ones of 10 kB in epochs of 125 ms; `epochs` has further keys.
fn epochs(count: u32, keys: &str, more: &str, epochs: &str) -> RunRecord {
    let epochs = format!("rounds = 4, every = \"125ms\", gap = \"1211ns\"{epochs}");
    let application = format!("application = {{ epochs = {{ size = \"10kB\", {epochs} }} }}");
    let short = format!("count = {count}\nstack = \"dctcp\"\nstart = \"100ms\"\n{application}\n");
    let long = format!("count = {count}\nstack = \"dctcp\"\n");
    let groups = [
        group("long", &format!("{long}{more}")),
        group("short", &format!("{short}{more}")),
    ];
    run(&experiment_with(DUMBBELL, keys, &groups), 1)
}

/// Returns the mean completion time of the short flows' transfers, in nanoseconds; `transfers` of
/// them are complete.
fn mean_ns(record: &RunRecord, transfers: usize) -> u64 {
    let short = record.flows.iter().filter(|flow| flow.group == "short");
    let times: Vec<u64> = short
        .flat_map(|flow| &flow.completions)
        .filter_map(|transfer| Some(transfer.finished_ns? - transfer.started_ns))
        .collect();
    assert_eq!(times.len(), transfers, "{}", again(record, "watch_grants"));
    times.iter().sum::<u64>() / times.len() as u64
}

fn counted(record: &RunRecord, name: &str) -> u64 {
    record.counters.get(name).copied().unwrap_or(0)
}

#[test]
fn a_burst_to_many_hosts_takes_turns_and_is_much_faster_than_without_grants() {
    let plain = epochs(25, "", "", "");
    let alone = epochs(25, "", WATCH, "");
    let grants = epochs(25, GRANTS, WATCH, "");
    let again = again(&grants, "watch_grants");
    assert_eq!(counted(&alone, "watch_grants"), 0, "{again}");
    assert_eq!(counted(&grants, "watch_grants"), 125, "{again}");
    assert!(counted(&grants, "watch_grants_waited") > 50, "{again}");
    assert_eq!(counted(&grants, "watch_grants_unanswered"), 0, "{again}");
    assert!(mean_ns(&grants, 100) * 3 < mean_ns(&plain, 100), "{again}");
    assert!(mean_ns(&grants, 100) * 3 < mean_ns(&alone, 100), "{again}");
}

#[test]
fn servers_wait_for_their_turn_before_they_see_the_request() {
    let request = ", request = \"200B\"";
    let plain = epochs(25, "", "", request);
    let grants = epochs(25, GRANTS, WATCH, request);
    let again = again(&grants, "watch_grants");
    assert!(counted(&grants, "watch_grants_waited") > 50, "{again}");
    assert!(mean_ns(&grants, 100) * 3 < mean_ns(&plain, 100), "{again}");
}

#[test]
fn a_single_flow_loses_no_time_by_its_question() {
    let one = |keys: &str, more: &str| {
        let application =
            "application = { epochs = { size = \"10kB\", rounds = 4, every = \"50ms\" } }";
        let short = format!("count = 1\nstack = \"dctcp\"\nstart = \"9ms\"\n{application}\n{more}");
        let record = run(
            &experiment_with(DUMBBELL, keys, &[group("short", &short)]),
            1,
        );
        mean_ns(&record, 4)
    };
    let (alone_ns, grants_ns) = (one("", WATCH), one(GRANTS, WATCH));
    // the two packets of a question and its answer, beside the handshake's
    assert!(grants_ns <= alone_ns + 500, "{grants_ns} {alone_ns}");
}

#[test]
fn flows_start_a_millisecond_late_where_the_answer_is_not_there_in_time() {
    // The granter is the first group's receiver: 4 ms of round trip further than the second's.
    let far = DUMBBELL.replace(
        "topology = \"dumbbell\"",
        "topology = { parking-lot = { hops = 2 } }\ntrunk_delay = \"2ms\"",
    );
    let times = |keys: &str| {
        let application =
            "application = { epochs = { size = \"10kB\", rounds = 3, every = \"150ms\" } }";
        let rest =
            format!("count = 1\nstack = \"dctcp\"\nstart = \"100ms\"\n{application}\n{WATCH}");
        let groups = [
            group("far", &format!("{rest}to = 2")),
            group("short", &format!("{rest}to = 1")),
        ];
        let record = run(&experiment_with(&far, keys, &groups), 1);
        (
            mean_ns(&record, 3),
            counted(&record, "watch_grants_unanswered"),
        )
    };
    let ((alone_ns, nobody), (grants_ns, unanswered)) = (times(""), times(GRANTS));
    assert_eq!((nobody, unanswered), (0, 3));
    assert!(
        grants_ns.abs_diff(alone_ns + 1_000_000) < 1_000,
        "{grants_ns} {alone_ns}"
    );
}
