//! Shares at a marking bottleneck: the statements that the papers stand on.

use crate::common::{STAR, again, experiment, group, measure, run};
use uc_experiment::FlowRecord;

/// Every SYN passes before there is a queue. A dropped SYN leaves an initial window of one segment,
/// and no receive window can express the reduction that a mark on it asks for (docs/theorems.md).
const TOGETHER: &str = "start_spread = \"1ms\"\nstack";

fn together(name: &str, rest: &str) -> String {
    group(name, &rest.replace("stack", TOGETHER))
}

#[test]
fn ten_ecn_flows_fill_the_link_and_share_it_without_losing_data() {
    let experiment = experiment(STAR, &[together("ecn", "count = 10\nstack = \"ecn\"")]);
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

/// The setting is whole segments, one window granularity at all receivers and hosts that follow the
/// RFCs only: the theorem is tested on a network of ten flows, where every flow is affected by each
/// of the others.
#[test]
fn nine_ecn_flows_behave_the_same_beside_a_translated_legacy_flow_and_a_native_one() {
    let nine = together("ecn", "count = 9\nstack = \"ecn\"");
    let native = together("tenth", "stack = \"ecn\"");
    let legacy = together("tenth", "stack = \"legacy\"\nlaw = \"ecn\"");
    let control = run(&experiment(STAR, &[nine.clone(), native]), 3);
    let record = run(&experiment(STAR, &[nine, legacy]), 3);
    let again = again(&record, "shares");
    for (flow, other) in record.flows.iter().zip(&control.flows) {
        let delivered = |flow: &FlowRecord| {
            let bytes = flow.samples.iter().map(|sample| sample.delivered_bytes);
            bytes.collect::<Vec<_>>()
        };
        assert_eq!(delivered(flow), delivered(other), "{again}");
    }
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
