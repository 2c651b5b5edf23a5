//! Application `web` between real kernels: the transfers are the simulator's, each on a connection of its
//! own; and a host that grants their first windows.

mod support;

use std::sync::atomic::AtomicBool;

use support::{experiment, live, run};
use uc_experiment::{Completion, Experiment, RunRecord};
use uc_lab::{LivePorts, Repetition, run_case};
use uc_live::in_peace;

const SEED: u64 = 7;
const NETWORK: &str = "rate = \"20Mbit\"\naccess_rate = \"200Mbit\"\ndelay = \"5ms\"\n\
     queue = { kind = \"droptail\", limit = \"30kB\" }";
const STACK: &str = "[stack.reno]\ncongestion_control = \"reno\"";
/// Two flows in one guest, one in the other; together some 14 Mb/s, beside a flow that fills the link.
const GUESTS: &str = "[[case.guests]]\nname = \"long\"\nstack = \"reno\"\n\
     [[case.guests]]\nname = \"pair\"\nstack = \"reno\"\nflows = 2\nstart = \"200ms\"\n\
     application = { web = { rate = 30, sizes = [[\"1kB\", 0.3], [\"20kB\", 0.9], [\"200kB\", 1.0]] } }\n\
     [[case.guests]]\nname = \"load\"\nstack = \"reno\"\n\
     application = { web = { load = 0.3, sizes = \"10kB\" } }";
const ROUND_TRIP_NS: u64 = 20_000_000;

fn simulated(experiment: &Experiment) -> RunRecord {
    let repetition = uc_sim::Repetition {
        run: 0,
        seed: SEED,
        core: uc_core::COMPILED,
    };
    let (case, cancel) = (&experiment.cases[0], AtomicBool::new(false));
    uc_sim::run_case(experiment, case, repetition, &|_| {}, &cancel).unwrap()
}

fn transfers(record: &RunRecord, group: &str, index: u32) -> Vec<(u64, u64)> {
    let mut flows = record.flows.iter();
    let is_it = |flow: &&uc_experiment::FlowRecord| flow.group == group && flow.index == index;
    let flow = flows.find(is_it).unwrap();
    let key = |it: &Completion| (it.started_ns, it.bytes);
    flow.completions.iter().map(key).collect()
}

#[test]
fn live_transfers_at_random_times_are_the_simulators_each_on_a_connection_of_its_own() {
    if !live() {
        return;
    }
    let experiment = experiment(3, NETWORK, GUESTS, STACK);
    let simulated = simulated(&experiment);
    in_peace(|| {
        let record = run(&experiment, SEED);
        let names = record.flows.iter().map(|it| (&it.group[..], it.index));
        let names: Vec<_> = names.collect();
        assert_eq!(names, [("long", 0), ("pair", 0), ("pair", 1), ("load", 0)]);
        for &(group, index) in &names[1..] {
            let found = transfers(&record, group, index);
            assert!(found.len() > 50, "{group}: {}", found.len());
            assert_eq!(
                found,
                transfers(&simulated, group, index),
                "{group}[{index}]"
            );
        }
        for flow in &record.flows[1..] {
            let arrived = flow
                .completions
                .iter()
                .filter_map(|it| Some((it, it.finished_ns?)));
            let arrived: Vec<_> = arrived.collect();
            let left = flow.completions.len() - arrived.len();
            println!(
                "{}[{}]: {} arrived, {left} left, {} drops",
                flow.group,
                flow.index,
                arrived.len(),
                flow.drops
            );
            assert!(
                left < 12,
                "seed {SEED}: {left} of {}",
                flow.completions.len()
            );
            // a handshake, and the way of the data
            let least = arrived
                .iter()
                .map(|(it, at_ns)| at_ns - it.started_ns)
                .min()
                .unwrap();
            assert!(least >= ROUND_TRIP_NS * 3 / 2, "seed {SEED}: {least} ns");
            let bytes: u64 = arrived.iter().map(|(it, _)| it.bytes).sum();
            let last = flow.samples.last().unwrap();
            assert!(
                last.delivered_bytes >= bytes && last.bytes_sent >= bytes,
                "seed {SEED}: {last:?} {bytes}"
            );
        }
        let drops: u64 = record.flows.iter().map(|flow| flow.drops).sum();
        assert_eq!(record.links["switch->receiver"].dropped_packets, drops);
        assert!(
            record.flows[1..].iter().all(|flow| flow.drops > 0),
            "seed {SEED}"
        );
    });
}

#[test]
fn live_slow_motion_stretches_the_times_between_transfers() {
    if !live() {
        return;
    }
    let experiment = experiment(1, NETWORK, GUESTS, &format!("{STACK}\n"));
    let simulated = simulated(&experiment);
    let mut slow = experiment;
    slow.slower = 3;
    in_peace(|| {
        let record = run(&slow, SEED);
        for (group, index) in [("pair", 1), ("load", 0)] {
            let found = transfers(&record, group, index);
            let expected = transfers(&simulated, group, index);
            assert_eq!(found.len(), expected.len(), "{group}");
            for ((at_ns, bytes), (expected_ns, expected_bytes)) in found.into_iter().zip(expected) {
                assert_eq!(bytes, expected_bytes);
                // The mean gap of slow motion is rounded to nanoseconds.
                assert!(at_ns.abs_diff(expected_ns) < 1_000, "{at_ns} {expected_ns}");
            }
        }
    });
}

#[test]
fn live_a_host_grants_the_first_windows_of_flows_to_several_receivers() {
    if !live() {
        return;
    }
    let network = format!("topology = \"dumbbell\"\n{NETWORK}");
    let guests = "receiver_law = \"pass\"\ngrants = \"4Mbit\"\n[[case.guests]]\nname = \"short\"\ncount = 2\n\
         stack = \"reno\"\nlaw = \"pass\"\nstart_law = \"watch\"\n\
         application = { web = { rate = 20, sizes = \"15kB\" } }";
    let experiment = experiment(2, &network, guests, STACK);
    let repetition = Repetition { run: 0, seed: SEED };
    in_peace(|| {
        let (mut ports, cancel) = (LivePorts::default(), AtomicBool::new(false));
        let case = &experiment.cases[0];
        let record = run_case(&experiment, case, repetition, &mut ports, &|_| {}, &cancel).unwrap();
        let flows: usize = record.flows.iter().map(|flow| flow.completions.len()).sum();
        let count = |name: &str| record.counters[name];
        let (granted, waited) = (count("granter_granted"), count("granter_waited"));
        println!(
            "{flows} flows, {} asked, {granted} granted, {waited} waited",
            count("watch_asked")
        );
        // All but those whose handshake the end of the run cuts off.
        assert!(
            granted + 4 >= flows as u64 && granted <= count("watch_asked"),
            "seed {SEED}"
        );
        // They offer the granter's rate 1.2 times.
        assert!(waited * 2 > granted, "seed {SEED}: {waited} of {granted}");
    });
}
