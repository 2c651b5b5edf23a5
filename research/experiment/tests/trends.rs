//! Expectations over the points of a sweep: the points at which they are judged, and trends.

use uc_experiment::{
    Arm, Evaluation, Experiment, FlowRecord, FlowSample, Outcome, RunRecord, evaluate,
};

/// Builds an experiment with two axes: the group's size `n`, and two rates.
fn experiment(expect: &str) -> Experiment {
    let text = format!(
        r#"
name = "t"
title = "t"
duration = "10s"
stack = {{ s = {{}} }}
network = {{ rate = "10Mbit", delay = "1ms", queue = {{ kind = "droptail", limit = "1MB" }} }}
[[case]]
name = "a"
guests = [{{ name = "g", stack = "s" }}]
[[sweep]]
name = "n"
set = {{ "case.a.guests.g.count" = [1, 2, 3] }}
[[sweep]]
name = "rate"
set = {{ "network.rate" = ["10Mbit", "20Mbit"] }}
[[expect]]
name = "goodput"
measure = {{ kind = "goodput", case = "a", of = "g" }}
{expect}"#
    );
    let experiment = Experiment::from_str("t", &text).expect("reads");
    experiment
        .validate()
        .unwrap_or_else(|error| panic!("{error}"));
    experiment
}

/// Makes up records in which a flow gets `bps` of point and repetition.
fn records(runs: u32, bps: impl Fn(u32, u32) -> u64) -> Vec<RunRecord> {
    let mut records = Vec::new();
    for (point, run) in (0..6).flat_map(|point| (0..runs).map(move |run| (point, run))) {
        let sample = |at_s: u64| FlowSample {
            at_ns: at_s * 1_000_000_000,
            delivered_bytes: bps(point, run) / 8 * at_s,
            ..FlowSample::default()
        };
        records.push(RunRecord {
            case: "a".into(),
            run,
            point,
            flows: vec![FlowRecord {
                group: "g".into(),
                samples: vec![sample(0), sample(10)],
                ..FlowRecord::default()
            }],
            ..RunRecord::default()
        });
    }
    records
}

fn judge(expect: &str, runs: u32, bps: impl Fn(u32, u32) -> u64) -> Evaluation {
    evaluate(&experiment(expect), &records(runs, bps), Arm::Sim).expect("computes")
}

/// Returns rates that fall along n: points 0, 2, 4 are n = 1, 2, 3 at 10 Mbit/s; 1, 3, 5 at 20.
fn falling(point: u32, run: u32) -> u64 {
    u64::from(8_000_000 - 1_000_000 * (point / 2) + 80_000 * (run % 2))
}

fn at(evaluation: &Evaluation) -> Vec<String> {
    let labels = |verdict: &uc_experiment::Verdict| {
        let pairs = verdict
            .at
            .iter()
            .map(|(axis, label)| format!("{axis} {label}"));
        pairs.collect::<Vec<_>>().join(", ")
    };
    evaluation.verdicts.iter().map(labels).collect()
}

#[test]
fn without_at_an_expectation_is_judged_at_every_point() {
    let found = judge("at_most = 7_500_000", 3, falling);
    let expected = ["n 1, rate 10Mbit", "n 1, rate 20Mbit", "n 2, rate 10Mbit"];
    assert_eq!(at(&found)[..3], expected);
    let holds: Vec<bool> = found.verdicts.iter().map(|verdict| verdict.holds).collect();
    assert_eq!(holds, [false, false, true, true, true, true]);
    assert!(
        found
            .verdicts
            .iter()
            .all(|verdict| verdict.n == 3 && verdict.steps.is_empty())
    );
    let [low, high] = found.verdicts[0].interval.expect("three runs");
    let ours = found.verdicts[0].ours.expect("computes");
    assert!(low < ours && ours < high);
}

#[test]
fn at_restricts_the_points() {
    let found = judge(
        "at_most = 7_500_000\nat = { n = [\"2\", \"3\"], rate = \"20Mbit\" }",
        2,
        falling,
    );
    assert_eq!(at(&found), ["n 2, rate 20Mbit", "n 3, rate 20Mbit"]);
    let found = judge("at_most = 7_500_000\nat = { n = \"1\" }", 2, falling);
    assert_eq!(at(&found), ["n 1, rate 10Mbit", "n 1, rate 20Mbit"]);
}

#[test]
fn a_trend_is_judged_for_each_combination_of_the_other_axes() {
    let found = judge("along = \"n\"\nfalls = true", 4, falling);
    assert_eq!(at(&found), ["rate 10Mbit", "rate 20Mbit"]);
    for verdict in &found.verdicts {
        assert!(verdict.holds);
        let labels: Vec<&str> = verdict
            .steps
            .iter()
            .map(|step| step.label.as_str())
            .collect();
        assert_eq!(labels, ["1", "2", "3"]);
        assert_eq!(Some(verdict.steps[2].ours), verdict.ours);
        assert_eq!(verdict.expect.to_string(), "falls along n");
        assert!(
            verdict
                .steps
                .iter()
                .all(|step| step.n == 4 && step.interval.is_some())
        );
    }
    let rising = judge(
        "along = \"n\"\nrises = true\nat = { rate = \"10Mbit\" }",
        4,
        falling,
    );
    assert_eq!(at(&rising), ["rate 10Mbit"]);
    assert!(!rising.verdicts[0].holds);
}

#[test]
fn differences_that_straddle_zero_decide_no_trend_and_plateaus_are_none() {
    let noise = |point: u32, run: u32| 800_000 * ((run + point / 2) % 2);
    let noisy = |point: u32, run: u32| u64::from(8_000_000 - 100_000 * point + noise(point, run));
    let found = judge("along = \"n\"\nfalls = true", 4, noisy);
    assert_eq!(found.verdicts[0].outcome, Outcome::Undecided);
    // The same noise at every point cancels in the differences of equal repetitions.
    let shared = |point: u32, run: u32| u64::from(8_000_000 - 100_000 * point + noise(0, run));
    assert!(judge("along = \"n\"\nfalls = true", 4, shared).verdicts[0].holds);
    let flat = |point: u32, run: u32| falling(point.min(3), run);
    let found = judge("along = \"n\"\nfalls = true", 4, flat);
    assert_eq!(found.verdicts[0].outcome, Outcome::Fails);
    // The first two points only, without the plateau between 2 and 3.
    let two = "along = \"n\"\nfalls = true\nat = { n = [\"1\", \"2\"] }";
    assert!(judge(two, 4, flat).verdicts[0].holds);
}

#[test]
fn unjudged_expectations_are_listed_with_the_reason() {
    let single = judge("along = \"n\"\nfalls = true", 1, falling);
    assert!(single.verdicts.is_empty());
    let why = "needs two repetitions or more for its confidence intervals";
    assert_eq!(
        (
            single.unjudged[0].name.as_str(),
            single.unjudged[0].why.as_str()
        ),
        ("goodput", why)
    );
    let other = judge("at_least = 0\non = \"live\"", 2, falling);
    assert!(other.verdicts.is_empty());
    assert_eq!(other.unjudged[0].why, "is for live, and this ran on sim");
}

/// Makes up records in which point 3 (n 2, rate 20Mbit) has a repetition without samples.
fn with_a_hole() -> Vec<RunRecord> {
    let mut records = records(4, falling);
    for record in &mut records {
        if (record.point, record.run) == (3, 1) {
            record.flows[0].samples.clear();
        }
    }
    records
}

const HOLE: &str = "case `a`, repetition 1 at n 2, rate 20Mbit: flow 0 of group `g` has fewer than \
                    two samples between 0ns and 10s";

#[test]
fn uncomputable_expectations_do_not_hold_and_the_rest_is_judged() {
    let found = evaluate(&experiment("at_least = 0"), &with_a_hole(), Arm::Sim).expect("judges");
    assert_eq!(found.verdicts.len(), 6);
    for (number, verdict) in found.verdicts.iter().enumerate() {
        let is_known = number != 3;
        assert_eq!(verdict.holds, is_known, "{verdict:?}");
        assert_eq!(verdict.ours.is_some(), is_known, "{verdict:?}");
        assert_eq!(verdict.why.is_none(), is_known, "{verdict:?}");
        assert_eq!(verdict.n, 4);
    }
    assert_eq!(at(&found)[3], "n 2, rate 20Mbit");
    assert_eq!(found.verdicts[3].why.as_deref(), Some(HOLE));
}

#[test]
fn a_trend_over_a_point_that_cannot_be_computed_does_not_hold() {
    let expect = "along = \"n\"\nrises = true";
    let rising = |mut record: RunRecord| {
        record.point = 5 - record.point;
        record
    };
    // With the axes exchanged, the hole is at point 2: n 2, rate 10Mbit.
    let records: Vec<RunRecord> = with_a_hole().into_iter().map(rising).collect();
    let found = evaluate(&experiment(expect), &records, Arm::Sim).expect("judges");
    assert_eq!(at(&found), ["rate 10Mbit", "rate 20Mbit"]);
    let holds: Vec<bool> = found.verdicts.iter().map(|verdict| verdict.holds).collect();
    assert_eq!(holds, [false, true]);
    let why = found.verdicts[0].why.as_deref().expect("is told");
    assert!(why.contains("at n 2, rate 10Mbit"), "{why}");
    assert!(found.verdicts[0].steps.is_empty());
}

#[test]
fn a_missing_run_is_named_with_its_point() {
    let mut experiment = experiment("at_least = 0");
    experiment.apply_set("repeat=2").expect("applies");
    let mut records = records(2, falling);
    records.retain(|record| (record.point, record.run) != (3, 1));
    let error = evaluate(&experiment, &records, Arm::Sim)
        .expect_err("one is missing")
        .to_string();
    assert_eq!(
        error,
        "case `a` has no record of repetition 1 at n 2, rate 20Mbit; make the run, or remove the \
         expectations that read it"
    );
}

#[test]
fn over_an_axis_the_mean_of_its_points_is_judged_at_each_point_of_the_others() {
    let bps = |point, run| 1_000_000 * u64::from(1 + point) + 8_000 * u64::from(run);
    let evaluation = judge("over = \"n\"\nwithin = [2.9e6, 4.1e6]", 2, bps);
    assert_eq!(at(&evaluation), ["rate 10Mbit", "rate 20Mbit"]);
    let means: Vec<_> = evaluation.verdicts.iter().map(|it| it.ours).collect();
    assert_eq!(means, [Some(3_004_000.0), Some(4_004_000.0)]);
    assert_eq!(
        evaluation.verdicts[0].interval.map(|it| it[0] < 3e6),
        Some(true)
    );
    assert!(evaluation.verdicts.iter().all(|verdict| verdict.holds));
    let some = "over = \"n\"\nat = { n = [\"1\", \"3\"], rate = \"10Mbit\" }\nat_most = 2.9e6";
    let evaluation = judge(some, 2, bps);
    assert_eq!(evaluation.verdicts[0].ours, Some(3_004_000.0));
    assert!(!evaluation.verdicts[0].holds);
}
