//! Coupled congestion controls on real kernels: namespaces stand for virtual machines, 10 Mbit/s and
//! 100 ms (ctrlTCP's figures 1 and 3).

mod support;

use std::cell::Cell;
use std::sync::atomic::AtomicBool;

use support::{experiment, goodput_bps, live, run};
use uc_experiment::RunRecord;
use uc_guest::{CouplingPolicy, Ctrltcp};
use uc_lab::{NoPorts, Progress, Repetition, run_case};

const SECOND_NS: u64 = 1_000_000_000;
const SECONDS: u32 = 40;
/// From when on it is measured: both have left slow start, and the group has found its window.
const FROM_NS: u64 = 10 * SECOND_NS;
const PATH: &str = "rate = \"10Mbit\"\ndelay = \"25ms\"";
/// One TCP can fill the link.
const DROPTAIL: &str = "queue = { kind = \"droptail\", limit = \"125kB\" }";
/// Each packet is as likely to be lost as another. A full DropTail queue can lock a flow out for
/// minutes when four others take its places (Floyd and Jacobson's phase effects).
const RED: &str = "queue = { kind = \"red\", min = \"30kB\", max = \"90kB\", limit = \"250kB\", \
     burst = 30, probability = 0.1, packet = \"1500B\", ecn = false }";

/// One guest with a flow and one with `flows`, all with this congestion control.
fn two_guests(control: &str, flows: u32, queue: &str, seed: u64) -> RunRecord {
    let stack = format!("[stack.guest]\ncongestion_control = \"{control}\"");
    let guest = |name: &str, flows| {
        format!("[[case.guests]]\nname = \"{name}\"\nstack = \"guest\"\nflows = {flows}\n")
    };
    let guests = guest("one", 1) + &guest("many", flows);
    let network = format!("{PATH}\n{queue}");
    run(&experiment(SECONDS, &network, &guests, &stack), seed)
}

/// What each guest of these names got, all its flows together.
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

/// Jain's index.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

/// The coupled pair shares equally and uses the link as the uncoupled one does.
fn assert_coupled(control: &str, flows: u32, seed: u64) {
    let record = two_guests(control, flows, DROPTAIL, seed);
    let shares = guests_bps(&record, &["one", "many"]);
    let (fairness, sum) = (jain(&shares), shares.iter().sum::<f64>());
    println!("{control} 1:{flows} seed {seed}: {shares:?}, Jain {fairness:.4}, sum {sum:.0}");
    assert!(fairness >= 0.99, "seed {seed}: {shares:?} bit/s");
    assert!(sum >= 0.9 * 10e6, "seed {seed}: {shares:?} bit/s");
}

#[test]
fn live_a_guest_with_four_coupled_flows_has_no_more_than_a_guest_with_one() {
    if live() {
        assert_coupled("ctrltcp", 4, 1);
    }
}

#[test]
fn live_over_cubic_too() {
    if live() {
        assert_coupled("ctrlcubic", 4, 2);
    }
}

#[test]
fn live_uncoupled_the_guest_with_four_flows_has_four_times_as_much() {
    if !live() {
        return;
    }
    let record = two_guests("reno", 4, RED, 1);
    let shares = guests_bps(&record, &["one", "many"]);
    println!("reno 1:4: {shares:?}, Jain {:.4}", jain(&shares));
    // 0.735 is one to four exactly
    assert!(
        (0.6..0.85).contains(&jain(&shares)),
        "seed 1: {shares:?} bit/s"
    );
}

#[test]
fn live_guests_of_weights_one_two_and_three_share_by_them() {
    if !live() {
        return;
    }
    let ctrltcp = Ctrltcp::register_private(&CouplingPolicy::default()).unwrap();
    let stack = format!("[stack.guest]\ncongestion_control = \"{}\"", ctrltcp.name());
    let guest =
        |name| format!("[[case.guests]]\nname = \"{name}\"\nstack = \"guest\"\nflows = 2\n");
    let guests: String = ["a", "b", "c"].map(guest).concat();
    let network = format!("{PATH}\n{DROPTAIL}");
    let experiment = experiment(SECONDS, &network, &guests, &stack);
    // The namespaces have no names; as soon as all three are in the group, each gets a weight.
    let weighted = Cell::new(false);
    let progress = |_: Progress| {
        let groups = ctrltcp.groups().list().unwrap();
        let Some(group) = groups.iter().find(|group| group.guests.len() == 3) else {
            return;
        };
        if !weighted.replace(true) {
            for (weight, guest) in (1..).zip(&group.guests) {
                ctrltcp.groups().set_weight(guest.netns, weight).unwrap();
            }
        }
    };
    let record = run_case(
        &experiment,
        &experiment.cases[0],
        Repetition { run: 0, seed: 1 },
        &mut NoPorts,
        &progress,
        &AtomicBool::new(false),
    )
    .unwrap();
    let mut shares = guests_bps(&record, &["a", "b", "c"]);
    shares.sort_by(f64::total_cmp);
    println!("weights 1:2:3: {shares:?}");
    let sum: f64 = shares.iter().sum();
    for (weight, share) in [1.0, 2.0, 3.0].into_iter().zip(&shares) {
        let due = sum * weight / 6.0;
        assert!((share / due - 1.0).abs() < 0.05, "{shares:?} bit/s");
    }
}
