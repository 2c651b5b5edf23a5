//! Measures on records made by hand, whose answers are known.

use uc_experiment::{
    Arm, Experiment, FlowRecord, FlowSample, Measure, Outcome, Repetition, RunRecord, evaluate,
};

const MS: u64 = 1_000_000;

fn experiment(expects: &str) -> Experiment {
    let text = format!(
        r#"
name = "t"
title = "t"
duration = "10s"
settle = "2s"
tail = "1s"
network = {{ rate = "10Mbit", delay = "1ms", queue = {{ kind = "droptail", limit = "1MB" }} }}
stack = {{ s = {{}} }}
[[case]]
name = "a"
guests = [{{ name = "many", count = 3, stack = "s" }}, {{ name = "one", stack = "s" }}]
[[case]]
name = "b"
guests = [{{ name = "one", stack = "s" }}]
{expects}"#
    );
    let experiment = Experiment::from_str("t", &text).expect("reads");
    experiment.validate().expect("makes sense");
    experiment
}

/// Makes up a flow that delivers `goodput_bps` evenly from 2 s to 9 s, and something else before
/// and after.
fn flow(group: &str, index: u32, goodput_bps: u64) -> FlowRecord {
    let sample = |i: u64| {
        let inside_ms = (i * 100).clamp(2_000, 9_000) - 2_000;
        let outside_bytes = if i * 100 < 2_000 {
            i * 7
        } else {
            20_000 * (1 + i / 91)
        };
        FlowSample {
            at_ns: i * 100 * MS,
            delivered_bytes: 1_000_000 + outside_bytes + goodput_bps * inside_ms / 8_000,
            cwnd_segments: 20,
            snd_wnd_bytes: 14_480,
            unacked_segments: 10,
            mss_bytes: 1_448,
            bytes_retransmitted: 125 * inside_ms,
            total_retransmits: (inside_ms / 1_000) as u32,
            ..FlowSample::default()
        }
    };
    let samples = (0..=100).map(sample).collect();
    FlowRecord {
        group: group.into(),
        index,
        samples,
        drops: 3,
        ..FlowRecord::default()
    }
}

fn record(case: &str, run: u32, flows: Vec<FlowRecord>) -> RunRecord {
    RunRecord {
        case: case.into(),
        run,
        flows,
        ..RunRecord::default()
    }
}

fn four_flows(one_bps: u64) -> RunRecord {
    let many = (0..3).map(|i| flow("many", i, 1_000_000));
    record("a", 0, many.chain([flow("one", 0, one_bps)]).collect())
}

fn near(found: f64, expected: f64) {
    let tolerance = 1e-9 * expected.abs().max(1.0);
    assert!(
        (found - expected).abs() < tolerance,
        "found {found}, expected {expected}"
    );
}

fn measure(records: &[RunRecord], text: &str) -> Result<f64, String> {
    let experiment = experiment(&format!(
        "[[expect]]\nname = \"m\"\nat_least = 0\nmeasure = {text}"
    ));
    let measure: &Measure = &experiment.expects[0].measure;
    let repetition = Repetition::of(&experiment, records, 0);
    repetition
        .measure(measure)
        .map_err(|error| error.to_string())
}

#[test]
fn goodput_counts_only_the_measured_part() {
    let found = measure(
        &[four_flows(500_000)],
        "{ kind = \"goodput\", case = \"a\", of = \"one\" }",
    );
    near(found.expect("computes"), 500_000.0);
}

#[test]
fn share_is_the_ratio_of_the_means() {
    let share = "{ kind = \"share\", case = \"a\", of = \"one\", to = \"many\" }";
    near(
        measure(&[four_flows(250_000)], share).expect("computes"),
        0.25,
    );
}

#[test]
fn jain_is_one_for_equals_and_a_quarter_for_one_of_four() {
    let jain = "{ kind = \"jain\", case = \"a\" }";
    near(
        measure(&[four_flows(1_000_000)], jain).expect("computes"),
        1.0,
    );
    // x = 1, 1, 1, 3 Mbit/s: 36 / (4 · 12).
    near(
        measure(&[four_flows(3_000_000)], jain).expect("computes"),
        0.75,
    );
    let mut alone = four_flows(1_000_000);
    for flow in &mut alone.flows[..3] {
        flow.samples
            .iter_mut()
            .for_each(|sample| sample.delivered_bytes = 0);
    }
    near(measure(&[alone], jain).expect("computes"), 0.25);
}

#[test]
fn utilisation_counts_the_headers_of_useful_payload() {
    // 1,448 bytes of payload travel in 1,514.
    let found = measure(
        &[four_flows(2_000_000)],
        "{ kind = \"utilisation\", case = \"a\" }",
    );
    near(found.expect("computes"), 0.5 * 1514.0 / 1448.0);
}

#[test]
fn utilisation_counts_flows_whose_connections_are_closed() {
    let utilisation = "{ kind = \"utilisation\", case = \"a\" }";
    let mut run = four_flows(2_000_000);
    // One is closed when the measured part ends, another was never seen open.
    for sample in &mut run.flows[0].samples[40..] {
        sample.mss_bytes = 0;
    }
    for sample in &mut run.flows[1].samples {
        sample.mss_bytes = 0;
    }
    let found = measure(&[run], utilisation);
    near(found.expect("computes"), 0.5 * 1514.0 / 1448.0);
}

#[test]
fn retransmissions_are_differences_and_drops_are_totals() {
    let records = [four_flows(1_000_000)];
    // Four flows retransmit 125 bytes per millisecond each: 4 Mbit/s of 10.
    near(
        measure(&records, "{ kind = \"retransmitted\", case = \"a\" }").expect("computes"),
        0.4,
    );
    let count = measure(
        &records,
        "{ kind = \"retransmits\", case = \"a\", of = \"many\" }",
    );
    near(count.expect("computes"), 21.0);
    let drops = measure(
        &records,
        "{ kind = \"drops\", case = \"a\", of = \"many\" }",
    );
    near(drops.expect("computes"), 9.0);
}

#[test]
fn the_send_window_is_the_shadows_or_the_smaller_of_the_two() {
    let window = "{ kind = \"send_window\", case = \"a\", of = \"one\" }";
    let mut run = four_flows(1_000_000);
    near(measure(&[run.clone()], window).expect("computes"), 10.0);
    for sample in &mut run.flows[3].samples {
        sample.cwnd_segments = 4;
    }
    near(measure(&[run.clone()], window).expect("computes"), 4.0);
    for sample in &mut run.flows[3].samples {
        sample.shadow_window_bytes = Some(1_448 * 13 / 2);
    }
    near(measure(&[run], window).expect("computes"), 6.5);
}

#[test]
fn the_mean_window_weighs_samples_by_the_time_that_they_hold() {
    let mut run = four_flows(1_000_000);
    let at = |at_ms: u64, cwnd_segments| FlowSample {
        at_ns: at_ms * MS,
        cwnd_segments,
        snd_wnd_bytes: u32::MAX,
        mss_bytes: 1_448,
        ..FlowSample::default()
    };
    run.flows[3].samples = vec![at(2_000, 10), at(3_000, 40), at(6_000, 1)];
    let window = "{ kind = \"send_window\", case = \"a\", of = \"one\" }";
    near(
        measure(&[run], window).expect("computes"),
        (10.0 + 3.0 * 40.0) / 4.0,
    );
}

#[test]
fn window_above_looks_only_at_full_windows() {
    let above = "{ kind = \"window_above\", case = \"a\", of = \"one\" }";
    let mut run = four_flows(1_000_000);
    near(measure(&[run.clone()], above).expect("computes"), 1.0);
    // Of 71 measured samples 35 have cwnd at the window, and one of those is not full.
    for sample in &mut run.flows[3].samples[20..55] {
        sample.cwnd_segments = 10;
    }
    run.flows[3].samples[20].unacked_segments = 8;
    near(
        measure(&[run.clone()], above).expect("computes"),
        36.0 / 70.0,
    );
    run.flows[3]
        .samples
        .iter_mut()
        .for_each(|sample| sample.unacked_segments = 0);
    assert_eq!(
        measure(&[run], above).expect_err("never full"),
        "case `a`, repetition 0: flow 0 of group `one` has no sample in which its flight filled \
         the window; measure longer, or a flow that the window limits"
    );
}

#[test]
fn uncomputable_measures_are_errors_that_name_what_is_missing() {
    let share = "{ kind = \"share\", case = \"a\", of = \"one\", to = \"many\" }";
    let cases = [
        (
            vec![],
            "case `a` has no record of repetition 0; make the run, or remove the expectations \
             that read it",
        ),
        (
            vec![record("a", 0, vec![flow("many", 0, 1)])],
            "case `a`, repetition 0: no flow of group `one` was recorded",
        ),
        (
            vec![record(
                "a",
                0,
                vec![FlowRecord {
                    group: "one".into(),
                    ..FlowRecord::default()
                }],
            )],
            "case `a`, repetition 0: flow 0 of group `one` has fewer than two samples between 2s \
             and 9s",
        ),
        (
            vec![record(
                "a",
                0,
                vec![flow("one", 0, 1_000_000), flow("many", 0, 0)],
            )],
            "case `a`, repetition 0: the goodput of group `many` is 0, and nothing can be divided \
             by it",
        ),
    ];
    for (records, expected) in cases {
        assert_eq!(measure(&records, share).expect_err(expected), expected);
    }
    let period = "{ kind = \"sawtooth_period\", case = \"a\", of = \"one\" }";
    assert_eq!(
        measure(&[four_flows(1)], period).expect_err("flat"),
        "case `a`, repetition 0: flow 0 of group `one` has fewer than two window reductions, \
         which a period needs; measure longer"
    );
}

#[test]
fn a_verdict_has_the_mean_its_standard_error_and_whether_it_holds() {
    let experiment = experiment(
        r#"
[[expect]]
name = "b over a"
paper = 1.9
within = [1.5, 2.5]
[expect.measure]
kind = "ratio"
of = { kind = "goodput", case = "b", of = "one" }
to = { kind = "goodput", case = "a", of = "one" }
[[expect]]
name = "drops"
at_most = 0
measure = { kind = "drops", case = "b", of = "one" }
"#,
    );
    let mut records = Vec::new();
    for (run, times) in [1u64, 2, 3].into_iter().enumerate() {
        let run = run as u32;
        records.push(RunRecord {
            run,
            ..four_flows(1_000_000)
        });
        records.push(record("b", run, vec![flow("one", 0, times * 1_000_000)]));
    }
    let judge = |records: &[RunRecord]| evaluate(&experiment, records, Arm::Live);
    let verdicts = judge(&records).expect("computes").verdicts;
    near(verdicts[0].ours.expect("computes"), 2.0);
    near(verdicts[0].spread.expect("three runs"), 1.0 / 3f64.sqrt());
    assert_eq!((verdicts[0].n, verdicts[0].paper), (3, Some(1.9)));
    let [least, most] = verdicts[0].extremes.expect("computes");
    near(least, 1.0);
    near(most, 3.0);
    // 2 ± 0.58 with t of two degrees of freedom reaches beyond 1.5 to 2.5.
    assert_eq!(verdicts[0].outcome, Outcome::Undecided);
    assert!(!verdicts[1].holds);
    assert_eq!(verdicts[0].expect.to_string(), "1.5–2.5");
    assert_eq!(verdicts[1].expect.to_string(), "≤ 0");
    let single = judge(&records[..2]).expect("computes").verdicts;
    assert_eq!(single[0].spread, None);
    assert!(judge(&[]).is_err());
}
