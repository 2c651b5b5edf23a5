//! Measures of transfers, timeouts and bottlenecks on made-up records with known results.

use uc_experiment::{
    Arm, Completion, Experiment, FlowRecord, LinkTotals, Measure, QueueSample, Repetition,
    RunRecord, evaluate,
};

const MS: u64 = 1_000_000;

fn experiment(measure: &str) -> Experiment {
    let text = format!(
        r#"
name = "t"
title = "t"
duration = "10s"
settle = "2s"
tail = "1s"
stack = {{ s = {{}} }}
[network]
topology = "dumbbell"
rate = "10Mbit"
delay = "1ms"
queue = {{ kind = "droptail", limit = "1MB" }}
[[case]]
name = "a"
[[case.guests]]
name = "web"
count = 2
stack = "s"
application = {{ transfer = {{ size = "10kB" }} }}
[[expect]]
name = "m"
at_least = 0
measure = {measure}"#
    );
    let experiment = Experiment::from_str("t", &text).expect("reads");
    experiment
        .validate()
        .unwrap_or_else(|error| panic!("{error}"));
    experiment
}

fn measure(record: &RunRecord, text: &str) -> Result<f64, String> {
    let experiment = experiment(text);
    let measure: &Measure = &experiment.expects[0].measure;
    let repetition = Repetition::of(&experiment, std::slice::from_ref(record), 0);
    repetition
        .measure(measure)
        .map_err(|error| error.to_string())
}

fn near(found: Result<f64, String>, expected: f64) {
    let found = found.unwrap_or_else(|error| panic!("{error}"));
    assert!(
        (found - expected).abs() < 1e-9,
        "found {found}, expected {expected}"
    );
}

fn transfer(started_ms: u64, took_ms: Option<u64>) -> Completion {
    Completion {
        started_ns: started_ms * MS,
        finished_ns: took_ms.map(|took_ms| (started_ms + took_ms) * MS),
        bytes: 10_000,
        ideal_ns: Some(MS),
    }
}

/// Makes up six transfers in the measured part by two flows, one of them cut off; and two outside
/// of it.
fn record() -> RunRecord {
    let flow = |index: u32, completions: Vec<Completion>| FlowRecord {
        group: "web".into(),
        index,
        completions,
        timeouts: Some(index + 1),
        ack_gaps: Some(vec![100, 0, 4, 3, 2, 1]),
        ..FlowRecord::default()
    };
    let first = [
        (1_999, Some(5_000)),
        (2_000, Some(10)),
        (3_000, Some(20)),
        (8_999, Some(30)),
    ];
    let second = [
        (2_500, Some(40)),
        (4_000, Some(900)),
        (7_000, None),
        (9_000, Some(1)),
    ];
    let list = |times: [(u64, Option<u64>); 4]| times.map(|(at, took)| transfer(at, took)).to_vec();
    let link = |packets, dropped_packets, marked_packets| LinkTotals {
        packets,
        dropped_packets,
        marked_packets,
        bytes: packets * 1000,
    };
    let sample = |at_ms: u64, packets: u32| QueueSample {
        at_ns: at_ms * MS,
        backlog_bytes: u64::from(packets) * 1514,
        backlog_packets: packets,
        average_bytes: None,
    };
    RunRecord {
        case: "a".into(),
        flows: vec![flow(0, list(first)), flow(1, list(second))],
        queue: vec![
            sample(1_900, 90),
            sample(2_000, 10),
            sample(5_000, 2),
            sample(9_000, 3),
        ],
        bottlenecks: vec!["x".into(), "y".into()],
        links: [
            ("x", link(90, 10, 45)),
            ("y", link(110, 0, 5)),
            ("z", link(1_000, 500, 0)),
        ]
        .map(|(name, link)| (name.to_owned(), link))
        .into(),
        ..RunRecord::default()
    }
}

#[test]
fn completion_times_are_of_transfers_that_began_in_the_measured_part() {
    let fct = |statistic: &str| {
        let text = format!("{{ kind = \"fct\", case = \"a\", of = \"web\"{statistic} }}");
        measure(&record(), &text)
    };
    // 10, 20, 30, 40 and 900 ms, and 3 s at least for the one that the end of the run cut off.
    near(fct(""), 4.0 / 6.0);
    near(fct(", statistic = \"p50\""), 0.03);
    near(fct(", statistic = \"p99\""), 3.0);
    // Each would take 1 ms alone.
    near(fct(", statistic = \"p50\", slowdown = true"), 30.0);
    near(fct(", statistic = \"max\""), 3.0);
    near(
        measure(
            &record(),
            "{ kind = \"unfinished\", case = \"a\", of = \"web\" }",
        ),
        1.0,
    );
}

#[test]
fn timeouts_and_gaps_are_summed_over_the_flows() {
    let of = |kind: &str, rest: &str| {
        let text = format!("{{ kind = \"{kind}\", case = \"a\", of = \"web\"{rest} }}");
        measure(&record(), &text)
    };
    near(of("timeouts", ""), 3.0);
    near(of("ack_gaps", ", from = \"200ms\", to = \"400ms\""), 14.0);
    near(of("ack_gaps", ", from = \"200ms\""), 20.0);
    near(of("ack_gaps", ", from = \"600ms\", to = \"700ms\""), 0.0);
}

#[test]
fn a_bottleneck_is_sampled_in_the_measured_part_and_counted_in_the_whole_run() {
    let of = |text: &str| measure(&record(), &format!("{{ case = \"a\", {text} }}"));
    near(of("kind = \"queue\""), 5.0);
    near(
        of("kind = \"queue\", statistic = \"p99\", unit = \"bytes\""),
        15_140.0,
    );
    near(of("kind = \"marked\""), 50.0 / 200.0);
    near(of("kind = \"lost\""), 10.0 / 210.0);
}

#[test]
fn values_that_a_backend_did_not_record_are_errors_that_name_them() {
    let mut record = record();
    for flow in &mut record.flows {
        flow.completions.clear();
        (flow.timeouts, flow.ack_gaps) = (None, None);
    }
    record.bottlenecks.clear();
    record.queue.clear();
    let cases = [
        (
            "{ kind = \"fct\", case = \"a\", of = \"web\" }",
            "case `a`, repetition 0: no transfer of group `web` began in the measured part; give it \
             more time, or a shorter settle",
        ),
        (
            "{ kind = \"timeouts\", case = \"a\", of = \"web\" }",
            "case `a`, repetition 0: flow 0 of group `web` has no count of timeouts: \
             give its guest one flow, or run it --on sim",
        ),
        (
            "{ kind = \"lost\", case = \"a\" }",
            "case `a`, repetition 0: the record has no link that is named as a bottleneck",
        ),
        (
            "{ kind = \"queue\", case = \"a\" }",
            "case `a`, repetition 0: the record has no sample of the bottleneck's queue",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(measure(&record, text).expect_err(expected), expected);
    }
}

#[test]
fn measures_of_one_backend_are_not_judged_on_another() {
    let experiment = experiment("{ kind = \"clock_jump\", case = \"a\", of = \"web\" }");
    let judged = |arm| evaluate(&experiment, &[record()], arm).expect("computes");
    let live = judged(Arm::Live);
    assert!(live.verdicts.is_empty());
    assert_eq!(
        live.unjudged[0].why,
        "only sim measures it, and this ran on live"
    );
    // Real kernels count the timeouts of guests with one flow.
    let timeouts = self::experiment("{ kind = \"timeouts\", case = \"a\", of = \"web\" }");
    for arm in [Arm::Sim, Arm::Live, Arm::Vm] {
        let found = evaluate(&timeouts, &[record()], arm).expect("computes");
        assert_eq!(found.verdicts.len(), 1, "{arm}");
    }
}
