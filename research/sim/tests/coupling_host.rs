//! Law `coupled`: unchanged guests share one window through their ports' shadows, at a bottleneck
//! of 10 Mb/s and a round trip of 100 ms (ctrlTCP's figure 3).

use crate::common::{JAIN, TRUNK, USED, again, experiment, group, measure, run};
use uc_experiment::RunRecord;

fn coupled(stack: &str, rest: &str) -> String {
    format!("stack = \"{stack}\"\nlaw = \"coupled\"\ncoupling = {{ group = \"trunk\" }}\n{rest}")
}

fn at_test(record: &RunRecord) -> String {
    again(record, "coupling_host")
}

#[test]
fn guests_with_four_flows_and_with_one_get_equal_goodput_if_their_ports_are_coupled() {
    let stacks = ["reno", "cubic", "old", "walking", "scaled"];
    for (number, stack) in stacks.into_iter().enumerate() {
        for profile in ["rfc", "linux"] {
            let profile = format!("profile = \"{profile}\"");
            let groups = [
                group("one", &coupled(stack, &profile)),
                group("four", &coupled(stack, &format!("flows = 4\n{profile}"))),
            ];
            let experiment = experiment(TRUNK, &groups);
            let record = run(&experiment, number as u64);
            let jain = measure(&experiment, &record, JAIN);
            let used = measure(&experiment, &record, USED);
            let again = at_test(&record);
            println!("{stack} {profile}: Jain {jain:.4}, utilisation {used:.4}");
            assert!(jain >= 0.99, "{stack}, {profile}: Jain {jain}; {again}");
            assert!(
                used >= 0.95,
                "{stack}, {profile}: utilisation {used}; {again}"
            );
        }
    }
}

/// Formats a guest of this weight, coupled at its port.
fn weighted(name: &str, flows: u32, weight: u32) -> String {
    let coupling = format!("coupling = {{ group = \"trunk\", weight = {weight} }}");
    group(
        name,
        &format!("stack = \"reno\"\nlaw = \"coupled\"\nflows = {flows}\n{coupling}"),
    )
}

#[test]
fn shares_are_in_proportion_to_the_guests_weights_whatever_their_flows_number() {
    let flows_of = [[1, 1, 1], [1, 2, 3], [3, 2, 1]];
    for (seed, flows) in (10..).zip(flows_of) {
        let names = ["a", "b", "c"];
        let guests = |at: usize| weighted(names[at], flows[at], at as u32 + 1);
        let experiment = experiment(TRUNK, &[guests(0), guests(1), guests(2)]);
        let record = run(&experiment, seed);
        let share = |at: usize| {
            let goodput = format!(
                "kind = \"goodput\"\ncase = \"only\"\nof = \"{}\"",
                names[at]
            );
            measure(&experiment, &record, &goodput) * f64::from(flows[at])
        };
        let shares = [0, 1, 2].map(share);
        println!("{flows:?} flows: {shares:?}");
        let sum: f64 = shares.iter().sum();
        for (weight, share) in [1.0, 2.0, 3.0].into_iter().zip(shares) {
            let ratio = share / (sum * weight / 6.0);
            let again = at_test(&record);
            assert!(
                (0.95..=1.05).contains(&ratio),
                "{flows:?}: {shares:?}; {again}"
            );
        }
    }
}

#[test]
fn coupling_shares_equally_and_uses_the_link_as_well_as_without() {
    let pair = |rest: &str| {
        let groups = [
            group("one", &format!("stack = \"reno\"\n{rest}")),
            group("four", &format!("stack = \"reno\"\nflows = 4\n{rest}")),
        ];
        let experiment = experiment(TRUNK, &groups);
        let record = run(&experiment, 20);
        let [jain, used] = [JAIN, USED].map(|text| measure(&experiment, &record, text));
        (jain, used, at_test(&record))
    };
    let (apart, used_apart, again) = pair("");
    assert!(apart < 0.85, "Jain {apart}; {again}");
    let coupling = "law = \"coupled\"\ncoupling = { group = \"trunk\" }";
    let (together, used_together, again) = pair(coupling);
    assert!(together >= 0.99, "Jain {together}; {again}");
    assert!(
        used_together >= used_apart - 0.03,
        "{used_together} of the link, {used_apart} uncoupled; {again}"
    );
}

#[test]
fn capacity_that_a_guest_leaves_goes_to_the_other_up_to_its_own_windows() {
    let used_after = |stays: u32, stops: u32, seed: u64| {
        let groups = [
            group("stays", &coupled("reno", &format!("flows = {stays}"))),
            group(
                "stops",
                &coupled("reno", &format!("flows = {stops}\nstop = \"40s\"")),
            ),
        ];
        let experiment = experiment(TRUNK, &groups);
        let record = run(&experiment, seed);
        let within = |from_ms: u32, to_ms: u32| {
            let during = format!("{USED}\nduring = [\"{from_ms}ms\", \"{to_ms}ms\"]");
            measure(&experiment, &record, &during)
        };
        let used = [within(40_000, 41_000), within(43_000, 46_000)];
        (used, at_test(&record))
    };
    for seed in 30..35 {
        // ctrlTCP's figure 1: the guest with one flow falls idle
        let ([soon, later], again) = used_after(4, 1, seed);
        assert!(soon >= 0.95 && later >= 0.95, "{soon}, {later}; {again}");
        // A window can't push: the remaining flow is given everything at once. After its own loss
        // has halved its window, it grows into the given one by a segment per round trip.
        let ([soon, later], again) = used_after(1, 4, seed);
        assert!(soon >= 0.8 && later >= 0.95, "{soon}, {later}; {again}");
    }
}

#[test]
fn a_mark_reduces_the_group_once_if_the_peer_negotiates_ecn() {
    let base = TRUNK
        .replace(
            "kind = \"droptail\", limit = \"125kB\"",
            "kind = \"threshold\", limit = \"250kB\", mark = \"90kB\", not_ect = \"queue\"",
        )
        .replace(
            "[stack.reno]",
            "[stack.server]\ncongestion_control = \"reno\"\necn = true\n[stack.reno]",
        );
    let groups = [
        group("one", &coupled("reno", "")),
        group("four", &coupled("cubic", "flows = 4")),
    ];
    let experiment = experiment(&base, &groups);
    let record = run(&experiment, 22);
    let [jain, used] = [JAIN, USED].map(|text| measure(&experiment, &record, text));
    let again = at_test(&record);
    let sum = |of: fn(&uc_experiment::FlowRecord) -> u64| record.flows.iter().map(of).sum::<u64>();
    let (marks, drops) = (sum(|flow| flow.marks), sum(|flow| flow.drops));
    println!("Jain {jain:.4}, utilisation {used:.4}, {marks} marks, {drops} drops");
    assert!(jain >= 0.99, "Jain {jain}; {again}");
    assert!(used >= 0.95, "utilisation {used}; {again}");
    // slow start alone may overrun the queue
    assert!(
        marks > 20 && drops < marks,
        "{marks} marks, {drops} drops; {again}"
    );
}

#[test]
fn guests_coupled_by_themselves_and_by_their_ports_may_share_one_group() {
    let by_itself = "stack = \"reno\"\ncoupling = { group = \"trunk\" }";
    let groups = [
        group("one", by_itself),
        group("four", &coupled("reno", "flows = 4")),
    ];
    let experiment = experiment(TRUNK, &groups);
    let record = run(&experiment, 23);
    let jain = measure(&experiment, &record, JAIN);
    assert!(jain >= 0.99, "Jain {jain}; {}", at_test(&record));
}

#[test]
fn the_same_seed_gives_the_same_record_and_short_flows_leave_their_shares() {
    let base = TRUNK.replace("80s", "40s");
    let web = "application = { web = { rate = 3, sizes = \"50kB\" } }";
    let groups = [
        group("long", &coupled("reno", "flows = 2")),
        group("web", &coupled("cubic", web)),
    ];
    let experiment = experiment(&base, &groups);
    let (first, second) = (run(&experiment, 24), run(&experiment, 24));
    let again = at_test(&first);
    assert_eq!(first, second, "{again}");
    // the web's half of the window is not all used; uncoupled the flows use 0.99
    let used = measure(&experiment, &first, USED);
    assert!(used >= 0.92, "utilisation {used}; {again}");
}
