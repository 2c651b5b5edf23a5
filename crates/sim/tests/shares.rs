//! Who gets what at a marking bottleneck: the statements that the papers stand on.

mod common;

use common::{STAR, again, experiment, group, measure, run};

#[test]
fn ten_ecn_flows_fill_the_link_and_share_it_without_losing_data() {
    let experiment = experiment(STAR, &[group("ecn", "count = 10\nstack = \"ecn\"")]);
    let record = run(&experiment, 1);
    let used = measure(
        &experiment,
        &record,
        "kind = \"utilisation\"\ncase = \"only\"",
    );
    let jain = measure(&experiment, &record, "kind = \"jain\"\ncase = \"only\"");
    let again = again(&record, "shares");
    assert!(used > 0.98 && used <= 1.001, "utilisation {used}; {again}");
    assert!(jain > 0.98, "Jain {jain}; {again}");
    let resent: u32 = record.flows.iter().map(last_retransmits).sum();
    assert_eq!(resent, 0, "{again}");
    assert!(
        record
            .flows
            .iter()
            .all(|flow| flow.negotiated_ecn && flow.marks > 0),
        "{again}"
    );
    assert!(
        record
            .queue
            .iter()
            .all(|sample| sample.average_bytes.is_some())
    );
    assert_eq!(record.bottlenecks, ["switch->receiver"]);
}

#[test]
fn a_legacy_flow_among_nine_ecn_flows_starves() {
    let groups = [
        group("ecn", "count = 9\nstack = \"ecn\""),
        group("legacy", "stack = \"legacy\""),
    ];
    let experiment = experiment(STAR, &groups);
    let record = run(&experiment, 2);
    let share = measure(&experiment, &record, SHARE_OF_LEGACY);
    let again = again(&record, "shares");
    assert!(share < 0.4, "share {share}; {again}");
    let legacy = record.flows.last().expect("ten flows");
    assert!(legacy.drops > 0 && !legacy.negotiated_ecn, "{again}");
}

#[test]
fn the_same_flow_behind_a_port_with_the_law_ecn_has_an_equal_share_and_loses_nothing() {
    let groups = [
        group("ecn", "count = 9\nstack = \"ecn\""),
        group("legacy", "stack = \"legacy\"\nlaw = \"ecn\""),
    ];
    // Without a scale a window can end anywhere. With one, it ends short of a segment, and what a
    // guest that keeps to Nagle's rule loses by that is another matter than the law's.
    let unscaled = STAR.replace("[stack.server]", "[stack.server]\nwscale = 0");
    let experiment = experiment(&unscaled, &groups);
    let record = run(&experiment, 3);
    let share = measure(&experiment, &record, SHARE_OF_LEGACY);
    let again = again(&record, "shares");
    assert!((0.9..1.1).contains(&share), "share {share}; {again}");
    let translated = record.flows.last().expect("ten flows");
    assert_eq!(last_retransmits(translated), 0, "{again}");
    assert!(
        translated.marks > 0 && !translated.negotiated_ecn,
        "{again}"
    );
    let shadows = translated.samples.iter().skip(1);
    assert!(
        shadows
            .clone()
            .all(|sample| sample.shadow_window_bytes.is_some()),
        "{again}"
    );
    assert!(
        record.counters["port_translated"] > 1_000,
        "{:?}",
        record.counters
    );
}

const SHARE_OF_LEGACY: &str = "kind = \"share\"\ncase = \"only\"\nof = \"legacy\"\nto = \"ecn\"";

fn last_retransmits(flow: &uc_experiment::FlowRecord) -> u32 {
    flow.samples
        .last()
        .map_or(0, |sample| sample.total_retransmits)
}
