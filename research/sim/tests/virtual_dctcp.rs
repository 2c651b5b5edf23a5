//! Law `dctcp` at both ends of the network: its visibility to guests and to the network, and the
//! accuracy of the port's α.

use crate::common::{again, experiment, experiment_with, group, measure, run};
use uc_experiment::{Experiment, FlowSample, RunRecord};
use uc_net::Nanos;
use uc_sim::hosts::Side;
use uc_sim::{Plan, World};

/// A dumbbell at 100 Mb/s that marks from 30 kB on.
const MARKING: &str = r#"
name = "sim/marking"
title = "marking"
duration = "4s"
settle = "1s"
sample = "20ms"
[network]
topology = "dumbbell"
rate = "100Mbit"
access_rate = "1Gbit"
delay = "300us"
queue = { kind = "threshold", limit = "600kB", mark = "30kB", not_ect = "queue" }
[stack.reno]
congestion_control = "reno"
[stack.dctcp]
congestion_control = "dctcp"
ecn = true
[stack.classic]
congestion_control = "reno"
ecn = true
delayed_ack = "0s"
[stack.server]
congestion_control = "dctcp"
ecn = true
"#;

/// Builds an experiment with one case of these guests, and these keys of the case.
fn case(keys: &str, guests: &str) -> Experiment {
    experiment_with(MARKING, keys, &[group("guest", guests)])
}

const NATIVE: &str = "count = 5\nstack = \"dctcp\"";
const VIRTUAL: &str = "count = 5\nstack = \"reno\"\nlaw = \"dctcp\"";
const BETWEEN_PORTS: &str = "receiver = \"reno\"\nreceiver_law = \"dctcp\"";

fn samples(record: &RunRecord) -> impl Iterator<Item = &FlowSample> {
    let flows = record.flows.iter();
    flows.flat_map(|flow| flow.samples.iter().filter(|at| at.at_ns >= 1_000_000_000))
}

fn mean_queue(experiment: &Experiment, record: &RunRecord) -> f64 {
    measure(experiment, record, "kind = \"queue\"\ncase = \"only\"")
}

fn alpha_error(experiment: &Experiment, record: &RunRecord) -> f64 {
    let error = "kind = \"alpha_error\"\ncase = \"only\"\nof = \"guest\"";
    measure(experiment, record, error)
}

#[test]
fn guests_without_ecn_between_two_ports_keep_the_queue_of_native_dctcp() {
    let native = case("", NATIVE);
    let between = case(BETWEEN_PORTS, VIRTUAL);
    let (reference, record) = (run(&native, 1), run(&between, 1));
    assert!(
        record
            .flows
            .iter()
            .all(|flow| flow.marks > 0 && flow.drops == 0)
    );
    assert!(record.flows.iter().all(|flow| !flow.negotiated_ecn));
    let [queue, expected] = [
        mean_queue(&between, &record),
        mean_queue(&native, &reference),
    ];
    assert!(
        (queue / expected - 1.0).abs() < 0.1,
        "{queue} packets, native {expected}; {}",
        again(&record, "virtual_dctcp")
    );
    let error = alpha_error(&between, &record);
    assert!(error < 0.05, "{error}; {}", again(&record, "virtual_dctcp"));
    let translated = record.counters.get("receiver_port_translated");
    assert!(translated > Some(&10_000), "{translated:?}");
}

#[test]
fn neither_guest_between_two_ports_sees_a_signal_that_it_did_not_negotiate() {
    let experiment = case(BETWEEN_PORTS, VIRTUAL);
    let only = experiment.case("only").expect("the case");
    let plan = Plan::new(&experiment, only, 2).expect("a plan");
    let mut world = World::new(&plan.scenario).expect("a world");
    world.run_until(Nanos::from_secs(2)).expect("it runs");
    let mut cuts = 0;
    for flow in world.applications.flows() {
        for slot in flow.open() {
            for side in [Side::Guest, Side::Receiver] {
                let end = world.hosts.end(slot, side);
                let totals = end.connection.totals();
                assert!(!end.connection.info().ecn, "seed 2: {side:?} agreed to ECN");
                assert_eq!((totals.ce_received, totals.ecn_cuts), (0, 0), "seed 2");
            }
            let port = world.hosts.end(slot, Side::Guest).port.as_ref();
            cuts += port
                .and_then(|port| port.flow())
                .map_or(0, |flow| flow.cuts);
        }
    }
    assert!(cuts > 50, "seed 2: the ports reduced windows {cuts} times");
}

#[test]
fn the_alpha_from_a_dctcp_receivers_echo_is_exact_to_the_last_bit() {
    let experiment = case("", VIRTUAL);
    let record = run(&experiment, 3);
    assert!(record.flows.iter().all(|flow| flow.drops == 0), "seed 3");
    let mut distinct = std::collections::BTreeSet::new();
    for sample in samples(&record) {
        assert!(sample.shadow_alpha_q30.is_some());
        assert_eq!(
            sample.shadow_alpha_q30,
            sample.exact_alpha_q30,
            "at {} ns; {}",
            sample.at_ns,
            again(&record, "virtual_dctcp")
        );
        distinct.insert(sample.exact_alpha_q30);
    }
    assert!(distinct.len() > 100, "α moves: {}", distinct.len());
}

#[test]
fn a_classic_receiver_is_exact_with_cwr_on_every_packet_and_not_without() {
    let [exact, latched] = ["classic", "exact"].map(|echo| {
        let guests = format!("{VIRTUAL}\nparameters = {{ echo = \"{echo}\" }}");
        let experiment = case("receiver = \"classic\"", &guests);
        let record = run(&experiment, 5);
        assert!(record.flows.iter().all(|flow| flow.marks > 0), "{echo}");
        alpha_error(&experiment, &record)
    });
    assert_eq!(exact, 0.0, "seed 5");
    assert!(latched > 0.02, "{latched}; seed 5");
}

#[test]
fn an_observed_guest_is_unchanged_and_its_samples_include_the_shadow() {
    let watched = format!("{NATIVE}\nlaw = \"dctcp\"\nparameters = {{ observe = true }}");
    let (native, observed) = (case("", NATIVE), case("", &watched));
    let (reference, record) = (run(&native, 6), run(&observed, 6));
    for (flow, expected) in record.flows.iter().zip(&reference.flows) {
        for (sample, expected) in flow.samples.iter().zip(&expected.samples) {
            assert_eq!(sample.delivered_bytes, expected.delivered_bytes, "seed 6");
            assert_eq!(sample.snd_wnd_bytes, expected.snd_wnd_bytes, "seed 6");
            assert_eq!(expected.shadow_window_bytes, None);
        }
    }
    for sample in samples(&record) {
        assert!(sample.shadow_window_bytes.is_some() && sample.guest_alpha_q30.is_some());
    }
    let error = measure(
        &observed,
        &record,
        "kind = \"alpha_error\"\ncase = \"only\"\nof = \"guest\"\nagainst = \"guest\"",
    );
    assert!(error < 0.1, "{error}; {}", again(&record, "virtual_dctcp"));
}

#[test]
fn a_guest_that_ignores_its_window_gains_nothing_from_a_port_with_a_guard() {
    let share = |parameters: &str| {
        let greedy = "[stack.greedy]\ncongestion_control = \"reno\"\nignores_window = true\n";
        let law = format!("law = \"dctcp\"\nparameters = {{ {parameters} }}");
        let groups = [("greedy", "greedy"), ("honest", "reno")]
            .map(|(name, stack)| group(name, &format!("count = 2\nstack = \"{stack}\"\n{law}")));
        let experiment = experiment(&format!("{MARKING}{greedy}"), &groups);
        let record = run(&experiment, 7);
        let share = "kind = \"share\"\ncase = \"only\"\nof = \"greedy\"\nto = \"honest\"";
        let dropped = record.counters["port_beyond_edge"];
        (measure(&experiment, &record, share), dropped)
    };
    let (unguarded, none) = share("min_window = 2");
    let (guarded, dropped) = share("guard = 2");
    assert!(unguarded > 2.0, "{unguarded}; seed 7");
    assert_eq!(none, 0);
    assert!(guarded < 1.0, "{guarded}; seed 7");
    assert!(dropped > 100, "{dropped}; seed 7");
}
