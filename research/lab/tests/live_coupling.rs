//! Coupled congestion controls on real kernels, with namespaces as guests, at 10 Mbit/s and 100 ms
//! (ctrlTCP's figures 1 and 3).

mod support;

use support::{experiment, goodput_bps, live, run};
use uc_experiment::{Experiment, RunRecord};
use uc_live::in_peace;

const SECOND_NS: u64 = 1_000_000_000;
const SECONDS: u32 = 40;
/// Start of the measurement: both have left slow start, and the group has found its window.
const FROM_NS: u64 = 10 * SECOND_NS;
const PATH: &str = "rate = \"10Mbit\"\ndelay = \"25ms\"";
const RENO: &str = "[stack.reno]\ncongestion_control = \"reno\"";
/// A DropTail queue that lets one TCP fill the link.
const DROPTAIL: &str = "queue = { kind = \"droptail\", limit = \"125kB\" }";
/// A RED queue that drops every packet with the same probability. A full DropTail queue can lock a
/// flow out for minutes when four others take its places (Floyd and Jacobson's phase effects).
const RED: &str = "queue = { kind = \"red\", min = \"30kB\", max = \"90kB\", limit = \"250kB\", \
     burst = 30, probability = 0.1, packet = \"1500B\", ecn = false }";

/// Runs one guest with a flow and one with `flows`, all with this congestion control.
fn two_guests(control: &str, flows: u32, queue: &str, seed: u64) -> RunRecord {
    let stack = format!("[stack.guest]\ncongestion_control = \"{control}\"");
    let guest = |name: &str, flows| {
        format!("[[case.guests]]\nname = \"{name}\"\nstack = \"guest\"\nflows = {flows}\n")
    };
    let guests = guest("one", 1) + &guest("many", flows);
    let network = format!("{PATH}\n{queue}");
    run(&experiment(SECONDS, &network, &guests, &stack), seed)
}

/// Returns the goodput of each guest of these names in bits per second, summed over its flows.
fn guests_bps(record: &RunRecord, names: &[&str]) -> Vec<f64> {
    let end_ns = u64::from(SECONDS) * SECOND_NS - SECOND_NS / 2;
    let of_guest = |name: &&str| {
        let flows = (0..record.flows.len()).filter(|&flow| record.flows[flow].group == *name);
        flows
            .map(|flow| goodput_bps(record, flow, FROM_NS, end_ns))
            .sum()
    };
    names.iter().map(of_guest).collect()
}

/// Computes Jain's index.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

/// Checks that the coupled pair shares equally and uses the link as well as the uncoupled one.
fn assert_coupled(control: &str, flows: u32, seed: u64) {
    let record = two_guests(control, flows, DROPTAIL, seed);
    let shares = guests_bps(&record, &["one", "many"]);
    let (fairness, sum) = (jain(&shares), shares.iter().sum::<f64>());
    println!("{control} 1:{flows} seed {seed}: {shares:?}, Jain {fairness:.4}, sum {sum:.0}");
    assert!(fairness >= 0.99, "seed {seed}: {shares:?} bit/s");
    assert!(sum >= 0.9 * 10e6, "seed {seed}: {shares:?} bit/s");
}

#[test]
fn live_coupled_guests_with_four_flows_and_with_one_get_equal_goodput() {
    if live() {
        in_peace(|| assert_coupled("ctrltcp", 4, 1));
    }
}

#[test]
fn live_coupled_cubic_guests_get_equal_goodput() {
    if live() {
        in_peace(|| assert_coupled("ctrlcubic", 4, 2));
    }
}

#[test]
fn live_an_uncoupled_guest_with_four_flows_gets_four_times_as_much() {
    if !live() {
        return;
    }
    in_peace(|| {
        let record = two_guests("reno", 4, RED, 1);
        let shares = guests_bps(&record, &["one", "many"]);
        println!("reno 1:4: {shares:?}, Jain {:.4}", jain(&shares));
        // 0.735 is one to four exactly
        assert!(
            (0.6..0.85).contains(&jain(&shares)),
            "seed 1: {shares:?} bit/s"
        );
    });
}

/// The guests send to receivers of their own, over one trunk, so the round trip is 150 ms.
#[test]
fn live_weights_one_two_and_three_determine_shares_whatever_the_number_of_flows() {
    if !live() {
        return;
    }
    in_peace(|| {
        let guest = |name: &str, flows: u32, weight: u32| {
            let coupling = format!("coupling = {{ group = \"trunk\", weight = {weight} }}");
            format!(
                "[[case.guests]]\nname = \"{name}\"\nstack = \"reno\"\nflows = {flows}\n{coupling}\n"
            )
        };
        let guests = guest("a", 3, 1) + &guest("b", 2, 2) + &guest("c", 1, 3);
        let network =
            format!("topology = \"dumbbell\"\naccess_rate = \"100Mbit\"\n{PATH}\n{DROPTAIL}");
        let experiment = experiment(SECONDS, &network, &guests, RENO);
        let record = run(&experiment, 1);
        let shares = guests_bps(&record, &["a", "b", "c"]);
        println!("weights 1:2:3 with 3, 2 and 1 flows: {shares:?}");
        let sum: f64 = shares.iter().sum();
        for (weight, share) in [1.0, 2.0, 3.0].into_iter().zip(&shares) {
            let due = sum * weight / 6.0;
            assert!(
                (share / due - 1.0).abs() < 0.05,
                "seed 1: {shares:?} bit/s, due {due}"
            );
        }
    });
}

/// The test is `experiments/ctrltcp/fig1.toml` in 44 seconds: flows join after 12, 20 and 28,
/// and the first guest falls idle after 36.
#[test]
fn live_a_guest_keeps_its_half_as_flows_join_and_an_idle_one_releases_it_at_once() {
    if !live() {
        return;
    }
    in_peace(|| {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../experiments/ctrltcp/fig1.toml"
        );
        let mut experiment = Experiment::load(file).unwrap();
        experiment.keep_cases(&["coupled".into()]).unwrap();
        experiment.apply_set("duration=44s").unwrap();
        experiment
            .apply_set("case.coupled.guests.vm1.stop=36s")
            .unwrap();
        for (flow, start) in [(2, "12s"), (3, "20s"), (4, "28s")] {
            let set = format!("case.coupled.guests.vm2-flow{flow}.start={start}");
            experiment.apply_set(&set).unwrap();
        }
        let record = run(&experiment, 1);
        let bps = |from: u64, to: u64| {
            let of = |flow| goodput_bps(&record, flow, from * SECOND_NS, to * SECOND_NS);
            let flows: Vec<f64> = (0..record.flows.len()).map(of).collect();
            (flows[0], flows.iter().skip(1).sum::<f64>())
        };
        for (from, to) in [(14, 20), (22, 28), (30, 36)] {
            let (one, other) = bps(from, to);
            println!("{from} to {to} s: {one:.0} and {other:.0}");
            assert!(
                jain(&[one, other]) >= 0.99,
                "seed 1, {from} to {to} s: {one}, {other}"
            );
            assert!(
                one + other >= 0.9 * 10e6,
                "seed 1, {from} to {to} s: {one}, {other}"
            );
        }
        // 9.49 Mbit/s of payload is all that the link carries
        let (one, other) = bps(37, 43);
        println!("37 to 43 s: {one:.0} and {other:.0}");
        assert!(
            one < 1e4 && other >= 0.95 * 9.49e6,
            "seed 1: {one}, {other}"
        );
    });
}
