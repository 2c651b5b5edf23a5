//! Verdicts by interval: each outcome, the reasons of files, and the repetitions that undecided
//! expectations lead to.

use uc_experiment::{
    Arm, Bound, Continuation, Direction, Estimate, Evaluation, Experiment, FlowRecord, FlowSample,
    Outcome, Reproduced, RunRecord, continuation, evaluate,
};

/// Builds an experiment of two cases, in which the goodput of `a` in Mbit/s is expected as `bar`
/// says, and that of `b` is expected to be above 0.
pub fn experiment(keys: &str, bar: &str) -> Experiment {
    let text = format!(
        r#"
name = "t"
title = "t"
duration = "10s"
{keys}
stack = {{ s = {{}} }}
network = {{ rate = "10Mbit", delay = "1ms", queue = {{ kind = "droptail", limit = "1MB" }} }}
[[case]]
name = "a"
guests = [{{ name = "g", stack = "s" }}]
[[case]]
name = "b"
guests = [{{ name = "g", stack = "s" }}]
[[expect]]
name = "goodput of a"
measure = {{ kind = "goodput", case = "a", of = "g" }}
{bar}
[[expect]]
name = "goodput of b"
measure = {{ kind = "goodput", case = "b", of = "g" }}
at_least = 1
"#
    );
    let experiment = Experiment::from_str("t", &text).expect("reads");
    experiment
        .validate()
        .unwrap_or_else(|error| panic!("{error}"));
    experiment
}

/// Returns the record of a run with this goodput in Mbit/s.
pub fn record(case: &str, run: u32, mbps: f64) -> RunRecord {
    let sample = |at_s: u64| FlowSample {
        at_ns: at_s * 1_000_000_000,
        delivered_bytes: (mbps * 1e6 / 8.0) as u64 * at_s,
        ..FlowSample::default()
    };
    RunRecord {
        case: case.into(),
        run,
        flows: vec![FlowRecord {
            group: "g".into(),
            samples: vec![sample(0), sample(10)],
            ..FlowRecord::default()
        }],
        ..RunRecord::default()
    }
}

/// Makes up runs of both cases: those of `a` have these rates, `b` has `runs_of_b`.
fn records(rates: &[f64], runs_of_b: u32) -> Vec<RunRecord> {
    let of_a = (0..).zip(rates).map(|(run, mbps)| record("a", run, *mbps));
    let of_b = (0..runs_of_b).map(|run| record("b", run, 1.0));
    of_a.chain(of_b).collect()
}

fn judge(keys: &str, bar: &str, rates: &[f64]) -> Evaluation {
    let experiment = experiment(keys, bar);
    let runs = experiment.repeats(Arm::Sim);
    evaluate(&experiment, &records(rates, runs), Arm::Sim).expect("judges")
}

fn outcome(bar: &str, rates: &[f64]) -> Outcome {
    let keys = format!("repeat = {}", rates.len());
    judge(&keys, bar, rates).verdicts[0].outcome
}

const NEAR_5: [f64; 4] = [4.9, 5.0, 5.1, 5.0];

#[test]
fn interval_within_outside_or_across_the_bar_decides() {
    // The mean is 5.0, its standard error 0.041, and t of three degrees of freedom 3.182.
    for (bar, expected) in [
        ("within = [4.8e6, 5.2e6]", Outcome::Holds),
        ("at_most = 5.14e6", Outcome::Holds),
        ("at_most = 5.12e6", Outcome::Undecided),
        ("at_most = 4.88e6", Outcome::Undecided),
        ("at_most = 4.86e6", Outcome::Fails),
        ("at_least = 4.86e6", Outcome::Holds),
        ("at_least = 4.88e6", Outcome::Undecided),
        ("at_least = 5.14e6", Outcome::Fails),
        ("within = [4.9e6, 5.1e6]", Outcome::Undecided),
        ("within = [5.2e6, 5.4e6]", Outcome::Fails),
    ] {
        assert_eq!(outcome(bar, &NEAR_5), expected, "{bar}");
    }
}

#[test]
fn planted_wrong_bars_fail() {
    for bar in ["at_most = 4e6", "at_least = 6e6", "within = [0, 1e6]"] {
        let found = judge("repeat = 4", bar, &NEAR_5);
        assert_eq!(found.verdicts[0].outcome, Outcome::Fails, "{bar}");
        assert!(!found.verdicts[0].holds && !found.passes(), "{bar}");
    }
}

#[test]
fn bar_of_another_basis_fails_where_it_would_hide_that_the_papers_number_is_missed() {
    // The mean is 5.0: it is within a quarter of 4.0 and of 6.6.
    for (basis, paper, expected) in [
        ("after-runs", "4.0e6", Outcome::Holds),
        ("after-runs", "6.6e6", Outcome::Holds),
        // The 95 % interval of the mean ends at 4.87 and 5.13.
        ("after-runs", "3.95e6", Outcome::Undecided),
        ("after-runs", "3.85e6", Outcome::Fails),
        ("after-runs", "6.9e6", Outcome::Fails),
        ("after-runs", "0", Outcome::Fails),
        ("theory", "3.85e6", Outcome::Fails),
        ("paper", "3.85e6", Outcome::Holds),
    ] {
        let bar = format!("at_most = 9e6\nbasis = \"{basis}\"\npaper = {paper}");
        let found = judge("repeat = 4", &bar, &NEAR_5);
        let verdict = &found.verdicts[0];
        assert_eq!(verdict.outcome, expected, "{bar}");
        assert_eq!(verdict.holds, expected == Outcome::Holds, "{bar}");
        assert_eq!(found.passes(), expected == Outcome::Holds, "{bar}");
    }
    assert_eq!(outcome("at_most = 9e6\npaper = 1", &NEAR_5), Outcome::Holds);
}

#[test]
fn number_is_reproduced_by_a_bar_and_a_mean_near_it_and_else_a_direction() {
    let (number, direction) = (Some(Reproduced::Number), Some(Reproduced::Direction));
    for (bar, expected) in [
        ("within = [4.8e6, 5.2e6]\npaper = 5.1e6", number),
        ("at_most = 5.4e6\npaper = 5.3e6", number),
        // Without a number, with a bar or a mean far from it.
        ("within = [4.8e6, 5.2e6]", direction),
        ("at_most = 9e6\npaper = 5.3e6", direction),
        ("at_least = 3e6\npaper = 3e6", direction),
        // A quarter of 0 is no tolerance.
        ("at_most = 6e6\npaper = 0", number),
        ("at_most = 4e6\npaper = 5e6", None),
    ] {
        let bar = format!("{bar}\nbasis = \"paper\"");
        let found = judge("repeat = 4", &bar, &NEAR_5);
        assert_eq!(found.verdicts[0].reproduced(), expected, "{bar}");
    }
    let known = "within = [4.8e6, 5.2e6]\npaper = 5.1e6\nbasis = \"after-runs\"";
    assert_eq!(
        judge("repeat = 4", known, &NEAR_5).verdicts[0].reproduced(),
        None
    );
}

#[test]
fn repetitions_without_spread_are_judged_by_their_value() {
    let equal = [5.0; 3];
    assert_eq!(outcome("at_most = 5e6", &equal), Outcome::Holds);
    assert_eq!(outcome("at_least = 5e6", &equal), Outcome::Holds);
    assert_eq!(outcome("at_most = 4.999e6", &equal), Outcome::Fails);
}

#[test]
fn one_repetition_is_judged_by_its_value_only_where_no_more_are_made() {
    let bar = "at_most = 6e6";
    let one = |keys| judge(keys, bar, &[5.0]).verdicts[0].outcome;
    assert_eq!(one("repeat = 1"), Outcome::Holds);
    assert_eq!(one("repeat = 1\nrepeat_max = 1"), Outcome::Holds);
    assert_eq!(one("repeat = 1\nrepeat_max = 2"), Outcome::Undecided);
    let bar = "at_most = 4e6";
    let found = judge("repeat = 1", bar, &[5.0]);
    assert_eq!(found.verdicts[0].outcome, Outcome::Fails);
}

#[test]
fn values_that_are_no_numbers_never_hold() {
    let bound = Bound {
        low: None,
        high: Some(1.0),
    };
    for values in [&[f64::NAN][..], &[0.5, f64::NAN], &[0.5, f64::INFINITY]] {
        for single in [false, true] {
            let outcome = bound.judge(&Estimate::of(values), single);
            assert!(!outcome.holds(), "{values:?}");
        }
        let outcome = Direction::Falls.judge(&Estimate::of(values));
        assert_eq!(outcome, Outcome::Undecided, "{values:?}");
    }
}

#[test]
fn differences_of_one_sign_are_a_trend_in_that_direction() {
    for (differences, falls, rises) in [
        (&[-1.0, -1.1, -0.9][..], Outcome::Holds, Outcome::Fails),
        (&[1.0, 1.1, 0.9], Outcome::Fails, Outcome::Holds),
        (&[0.0, 0.0, 0.0], Outcome::Fails, Outcome::Fails),
        (&[-1.0, 1.0, 0.1], Outcome::Undecided, Outcome::Undecided),
        (&[-1.0], Outcome::Undecided, Outcome::Undecided),
    ] {
        let difference = Estimate::of(differences);
        assert_eq!(Direction::Falls.judge(&difference), falls);
        assert_eq!(Direction::Rises.judge(&difference), rises);
    }
}

#[test]
fn results_that_differ_with_a_reason_pass_and_stale_reasons_do_not() {
    let reason = "basis = \"paper\"\ndiffers = \"another stack\"\n";
    for (bar, expected, passes, holds) in [
        ("at_most = 4e6", Outcome::Differs, true, false),
        ("at_most = 6e6", Outcome::Stale, false, true),
        ("at_most = 5e6", Outcome::Undecided, false, false),
    ] {
        let found = judge("repeat = 4", &format!("{reason}{bar}"), &NEAR_5);
        let verdict = &found.verdicts[0];
        assert_eq!((verdict.outcome, verdict.holds), (expected, holds), "{bar}");
        assert_eq!(found.passes(), passes, "{bar}");
        assert_eq!(verdict.differs.as_deref(), Some("another stack"));
        assert_eq!(found.with(expected).count(), 1, "{bar}");
    }
}

#[test]
fn measures_that_cannot_be_computed_fail_whatever_the_reason_says() {
    let bar = "basis = \"paper\"\ndiffers = \"another stack\"\nat_most = 4e6";
    let experiment = experiment("repeat = 2", bar);
    let mut records = records(&[5.0, 5.0], 2);
    records[0].flows[0].samples.clear();
    let found = evaluate(&experiment, &records, Arm::Sim).expect("judges");
    assert_eq!(found.verdicts[0].outcome, Outcome::Fails);
    assert!(found.verdicts[0].why.is_some());
    assert!(continuation(&experiment, &found, Arm::Sim).is_empty());
}

#[test]
fn undecided_expectations_get_twice_as_many_runs_of_their_cases_up_to_the_limit() {
    let experiment = experiment("repeat = 3\nrepeat_max = 10", "at_most = 5e6");
    let mut runs_of_a = vec![4.9, 5.0, 5.1];
    for expected in [6, 10] {
        let records = records(&runs_of_a, 3);
        let found = evaluate(&experiment, &records, Arm::Sim).expect("judges");
        assert_eq!(found.verdicts[0].outcome, Outcome::Undecided);
        assert_eq!(
            (found.verdicts[0].n, found.verdicts[1].n),
            (runs_of_a.len(), 3)
        );
        let more = continuation(&experiment, &found, Arm::Sim);
        let wanted = Continuation::from([((0, "a".to_owned()), expected)]);
        assert_eq!(more, wanted, "case b needs no more");
        while runs_of_a.len() < expected as usize {
            runs_of_a.push(if runs_of_a.len() % 2 == 0 { 4.9 } else { 5.1 });
        }
    }
    let found = evaluate(&experiment, &records(&runs_of_a, 3), Arm::Sim).expect("judges");
    assert_eq!(found.verdicts[0].outcome, Outcome::Undecided);
    assert!(continuation(&experiment, &found, Arm::Sim).is_empty());
    assert!(!found.passes());
}

#[test]
fn ratios_count_the_repetitions_that_both_cases_have() {
    let ratio = "at_most = 6e6\n[[expect]]\nname = \"a over b\"\nat_most = 10\n\
        measure = { kind = \"ratio\", of = { kind = \"goodput\", case = \"a\", of = \"g\" }, \
        to = { kind = \"goodput\", case = \"b\", of = \"g\" } }";
    let experiment = experiment("repeat = 2\nrepeat_max = 4", ratio);
    let found = evaluate(&experiment, &records(&NEAR_5, 2), Arm::Sim).expect("judges");
    let n: Vec<usize> = found.verdicts.iter().map(|verdict| verdict.n).collect();
    assert_eq!(n, [4, 2, 2]);
}

#[test]
fn the_limit_is_four_times_the_runs_unless_the_file_states_it() {
    for (keys, sim, live) in [
        ("repeat = 3", 12, 12),
        ("repeat = 1", 1, 1),
        ("repeat = 1\nrepeat_max = 5", 5, 5),
        ("repeat = 2\nrepeat_sim = 10", 40, 8),
        ("repeat = 2\nrepeat_sim = 10\nrepeat_max = 6", 10, 6),
    ] {
        let experiment = experiment(keys, "at_most = 1");
        let found = (
            experiment.repeats_max(Arm::Sim),
            experiment.repeats_max(Arm::Live),
        );
        assert_eq!(found, (sim, live), "{keys}");
    }
}
