//! A whole run: it repeats, it ends, and it refuses what it can't do.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{DUMBBELL, STAR, experiment, group, mixed, run, try_run};
use uc_experiment::Bytes;
use uc_sim::{Plan, Repetition, SimError, run_case};

#[test]
fn the_same_seed_gives_the_same_bytes_and_a_different_seed_different_bytes() {
    let mut experiment = experiment(STAR, &mixed());
    experiment.duration = "4s".parse().expect("a duration");
    let bytes = |seed| serde_json::to_string(&run(&experiment, seed)).expect("a record");
    let first = bytes(7);
    assert!(first == bytes(7), "seed 7 twice gave two records");
    assert!(first != bytes(8), "seeds 7 and 8 gave one record");
}

#[test]
fn samples_come_at_every_multiple_of_the_interval_and_at_the_end() {
    let mut experiment = experiment(DUMBBELL, &[group("bulk", "stack = \"reno\"")]);
    experiment.duration = "220ms".parse().expect("a duration");
    let record = run(&experiment, 1);
    let times: Vec<u64> = record.flows[0]
        .samples
        .iter()
        .map(|s| s.at_ns / 1_000_000)
        .collect();
    assert_eq!(times, [0, 50, 100, 150, 200, 220]);
    assert_eq!(record.queue.len(), 6);
    assert_eq!(record.started_unix_ms, 0);
}

#[test]
fn flows_of_a_slow_network_begin_in_the_first_tenth_of_their_time() {
    // A hundred packets take 121 s on this network, and the run 2 s.
    let slow = DUMBBELL.replacen("\"100Mbit\"", "\"10kbit\"", 1);
    let late = "stack = \"reno\"\ncount = 20\nstart = \"1s\"";
    let groups = [
        group("first", "stack = \"reno\"\ncount = 20"),
        group("late", late),
        group("short", &format!("{late}\nstop = \"1500ms\"")),
    ];
    let experiment = experiment(&slow, &groups);
    for seed in 1..=20 {
        let plan = Plan::new(&experiment, &experiment.cases[0], seed).expect("can be laid out");
        for (label, flow) in plan.labels.iter().zip(&plan.scenario.flows) {
            let times_ms = match label.group.as_str() {
                "first" => 0..200,
                "late" => 1_000..1_100,
                _ => 1_000..1_050,
            };
            let start_ms = flow.start.0 / 1_000_000;
            assert!(
                times_ms.contains(&start_ms),
                "seed {seed}: {label:?} at {start_ms} ms"
            );
        }
    }
}

#[test]
fn guests_of_one_host_share_its_uplink_and_have_separate_ports() {
    let guests = "count = 4\nstack = \"reno\"\nhost = \"shared\"\nlaw = \"ecn\"";
    let text = DUMBBELL.replace("access_rate = \"1Gbit\"", "access_rate = \"20Mbit\"");
    let server = "[stack.server]\necn = true\ncongestion_control = \"reno\"\n";
    let experiment = experiment(&format!("{text}{server}"), &[group("guest", guests)]);
    let record = run(&experiment, 1);
    let delivered: Vec<u64> = record
        .flows
        .iter()
        .filter_map(|flow| flow.samples.last())
        .map(|sample| sample.delivered_bytes)
        .collect();
    let sum_bps = delivered.iter().sum::<u64>() * 8 / 2;
    assert!((18_000_000..20_000_000).contains(&sum_bps), "{delivered:?}");
    assert!(delivered.iter().all(|&bytes| bytes > 0), "{delivered:?}");
    assert!(record.flows.iter().all(|flow| {
        flow.samples
            .last()
            .is_some_and(|sample| sample.shadow_window_bytes.is_some())
    }));
    assert_eq!(record.links.len(), 6);
}

#[test]
fn every_topology_carries_its_flows() {
    for (topology, bottlenecks) in [
        ("\"star\"", 1),
        ("\"dumbbell\"", 1),
        ("{ parking-lot = { hops = 3 } }", 3),
        ("{ leaf-spine = { leaves = 2, spines = 2 } }", 8),
    ] {
        let text = DUMBBELL.replace("\"dumbbell\"\nrate", &format!("{topology}\nrate"));
        let experiment = experiment(&text, &[group("bulk", "stack = \"reno\"\ncount = 4")]);
        let record = run(&experiment, 5);
        assert_eq!(record.bottlenecks.len(), bottlenecks, "{topology}");
        let last = record.flows.iter().filter_map(|flow| flow.samples.last());
        let least = last.map(|sample| sample.delivered_bytes).min();
        assert!(least > Some(100_000), "{topology}: {least:?}");
        assert!(
            record
                .counters
                .keys()
                .all(|name| !name.starts_with("unfinished"))
        );
    }
}

#[test]
fn ecmp_spreads_flows_over_the_spines() {
    let topology = "{ leaf-spine = { leaves = 2, spines = 2 } }";
    let text = DUMBBELL.replace("\"dumbbell\"\nrate", &format!("{topology}\nrate"));
    let experiment = experiment(&text, &[group("bulk", "stack = \"reno\"\ncount = 16")]);
    let record = run(&experiment, 1);
    let up = ["leaf0->spine0", "leaf0->spine1"].map(|name| record.links[name].packets);
    assert!(up.iter().all(|&packets| packets > 1_000), "seed 1: {up:?}");
}

#[test]
fn a_cancelled_run_ends_at_once() {
    let experiment = experiment(STAR, &mixed());
    let cancel = AtomicBool::new(false);
    let last = Cell::new(0);
    let progress = |now: uc_net::Nanos| {
        last.set(now.0);
        cancel.store(now.0 >= 100_000_000, Ordering::Relaxed);
    };
    let repetition = Repetition {
        seed: 1,
        ..Repetition::default()
    };
    let case = experiment.case("only").expect("the case");
    let outcome = run_case(&experiment, case, repetition, &progress, &cancel);
    assert_eq!(outcome.err(), Some(SimError::Cancelled));
    assert_eq!(last.get(), 100_000_000);
}

#[test]
fn unsupported_requests_are_errors_with_a_remedy() {
    let good = experiment(DUMBBELL, &[group("bulk", "stack = \"reno\"")]);
    let [mut small, mut bbr, mut offload] = [(); 3].map(|()| good.clone());
    small
        .stacks
        .get_mut("reno")
        .expect("a stack")
        .receive_buffer = Some(Bytes(1_000));
    bbr.stacks
        .get_mut("reno")
        .expect("a stack")
        .congestion_control = "bbr".into();
    offload.network.offload = true;
    for (experiment, part) in [
        (small, "raise it"),
        (bbr, "or run the experiment live"),
        (offload, "run the experiment live"),
    ] {
        let error = try_run(&experiment, 1).expect_err("refused").to_string();
        assert!(error.contains(part), "{error}");
    }
}
