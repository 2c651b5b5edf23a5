//! A run on several threads has the record of a run on one, to the byte; cases that can't be divided
//! run on one.

use std::sync::atomic::AtomicBool;

use crate::common::{experiment, group};
use uc_experiment::Experiment;
use uc_sim::{Repetition, run_case, undivided};

/// A fat-tree of 16 hosts whose links are all equal, so that many packets come at one time.
const TREE: &str = r#"
name = "sim/tree"
title = "tree"
duration = "12ms"
settle = "2ms"
sample = "1ms"
[network]
topology = { fat-tree = { ports = 4 } }
rate = "1Gbit"
delay = "5us"
queue = { kind = "threshold", limit = "60kB", mark = "20kB", not_ect = "queue" }
[stack.dctcp]
congestion_control = "dctcp"
ecn = true
rto_min = "2ms"
[stack.cubic]
congestion_control = "cubic"
rto_min = "2ms"
[stack.server]
congestion_control = "dctcp"
ecn = true
"#;

/// Two leaves and two spines, with random losses at the links between them.
const LEAVES: &str = r#"
name = "sim/leaves"
title = "leaves"
duration = "60ms"
sample = "7ms"
[network]
topology = { leaf-spine = { leaves = 4, spines = 2 } }
rate = "1Gbit"
delay = "10us"
loss = 0.002
queue = { kind = "red", min = "30kB", max = "90kB", limit = "150kB", burst = 20, probability = 0.1, packet = "1500B", ecn = true }
[stack.ecn]
congestion_control = "reno"
ecn = true
rto_min = "5ms"
[stack.plain]
congestion_control = "cubic"
delayed_ack = "2ms"
rto_min = "5ms"
"#;

/// Two switches, and hosts whose flows begin at one time.
const TRUNK: &str = r#"
name = "sim/trunk"
title = "trunk"
duration = "400ms"
sample = "50ms"
[network]
topology = "dumbbell"
rate = "100Mbit"
access_rate = "100Mbit"
delay = "100us"
queue = { kind = "droptail", limit = "40kB" }
[stack.reno]
congestion_control = "reno"
[stack.old]
congestion_control = "reno"
sack = false
"#;

fn record(experiment: &Experiment, seed: u64, threads: usize) -> String {
    let case = experiment.case("only").expect("the case");
    let repetition = Repetition {
        seed,
        threads,
        ..Repetition::default()
    };
    let never = AtomicBool::new(false);
    let record = run_case(experiment, case, repetition, &|_| (), &never);
    serde_json::to_string(&record.expect("it runs")).expect("a record")
}

/// Checks that the threads change no byte, and that there are parts for more than one.
fn check(base: &str, groups: &[String], seeds: u64) {
    let experiment = experiment(base, groups);
    let case = experiment.case("only").expect("the case");
    assert_eq!(undivided(&experiment, case).expect("it can run"), None);
    for seed in 1..=seeds {
        let one = record(&experiment, seed, 1);
        for threads in [2, 3, 4] {
            let several = record(&experiment, seed, threads);
            assert!(
                one == several,
                "seed {seed}: {threads} threads change the record of {}",
                experiment.name
            );
        }
    }
}

#[test]
fn a_permutation_in_a_fat_tree_has_the_same_bytes_on_several_threads() {
    let bulk = "count = 16\nstack = \"dctcp\"\npattern = { stride = [5] }\nstart_spread = \"2ns\"";
    check(TREE, &[group("all", bulk)], 3);
}

#[test]
fn transfers_of_all_to_all_have_the_same_bytes_on_several_threads() {
    let shuffle = "count = 16\npattern = { shuffle = { parallel = 3 } }\n\
                   application = { transfer = { size = \"9kB\" } }\nstart_spread = \"2ns\"";
    check(
        TREE,
        &[group("all", &format!("stack = \"dctcp\"\n{shuffle}"))],
        3,
    );
    let law = format!("stack = \"cubic\"\nlaw = \"dctcp\"\n{shuffle}");
    check(TREE, &[group("all", &law)], 3);
}

#[test]
fn losses_marks_and_flows_that_come_and_go_have_the_same_bytes_on_several_threads() {
    let sizes = "sizes = [[\"1kB\", 0.5], [\"50kB\", 1.0]]";
    let groups = [
        group("bulk", "count = 4\nstack = \"ecn\"\nstop = \"40ms\""),
        group("law", "count = 3\nstack = \"plain\"\nlaw = \"dctcp\""),
        group(
            "web",
            &format!(
                "count = 5\nstack = \"plain\"\napplication = {{ web = {{ rate = 900.0, {sizes} }} }}"
            ),
        ),
        group(
            "epochs",
            "count = 4\nstack = \"ecn\"\n\
             application = { epochs = { size = \"8kB\", rounds = 5, every = \"9ms\", gap = \"300us\" } }",
        ),
    ];
    check(LEAVES, &groups, 3);
}

#[test]
fn flows_of_a_dumbbell_that_begin_together_have_the_same_bytes_on_several_threads() {
    let groups = [
        group(
            "reno",
            "count = 6\nstack = \"reno\"\nstart_spread = \"3ns\"",
        ),
        group(
            "old",
            "count = 6\nstack = \"old\"\nstart_spread = \"3ns\"\nstop = \"300ms\"",
        ),
    ];
    check(TRUNK, &groups, 3);
}

#[test]
fn more_threads_than_parts_have_the_same_bytes() {
    // Four leaves are at most four parts, and three parts of them are uneven.
    let law = "count = 7\nstack = \"plain\"\nlaw = \"dctcp\"";
    let experiment = experiment(LEAVES, &[group("law", law)]);
    let one = record(&experiment, 1, 1);
    for threads in [3, 9] {
        assert!(one == record(&experiment, 1, threads), "{threads} threads");
    }
}

#[test]
fn without_delay_there_is_no_lookahead_and_a_case_runs_on_one_thread() {
    let base = TRUNK.replace("delay = \"100us\"", "delay = \"0s\"");
    let bulk = "count = 2\nstack = \"reno\"\nstop = \"100ms\"";
    let experiment = experiment(&base, &[group("bulk", bulk)]);
    let case = experiment.case("only").expect("the case");
    let why = undivided(&experiment, case).expect("it can run");
    assert_eq!(why, Some("a link has no delay"));
    assert!(record(&experiment, 1, 1) == record(&experiment, 1, 2));
}

#[test]
fn a_case_whose_hosts_act_at_one_time_runs_on_one_thread() {
    let request = "count = 2\nstack = \"reno\"\napplication = { request = { request = \"100B\", \
                   response = \"10kB\", rounds = 3, gap = \"1ms\" } }";
    let experiment = experiment(TRUNK, &[group("asks", request)]);
    let case = experiment.case("only").expect("the case");
    let why = undivided(&experiment, case).expect("it can run");
    assert_eq!(why, Some("receivers send requests"));
    assert!(record(&experiment, 1, 1) == record(&experiment, 1, 4));
}
