//! Runs whose emulated network was late: where the limit lies, and what becomes of the verdicts.

use uc_experiment::{Arm, Experiment, Outcome, RunRecord, continuation, evaluate};

use crate::verdicts;

/// Round trip 4 ms: by the default a mean lateness of 1 ms, for data and ACK, is the limit.
fn experiment(keys: &str) -> Experiment {
    verdicts::experiment(keys, "at_least = 1")
}

fn record(case: &str, run: u32, mean_us: u64, max_us: u64) -> RunRecord {
    let late = [("mean", mean_us), ("p99", mean_us), ("max", max_us)];
    let counters = late.map(|(name, us)| (format!("wire_late_{name}_ns"), us * 1_000));
    RunRecord {
        counters: counters.into(),
        ..verdicts::record(case, run, 8.0)
    }
}

#[test]
fn run_is_late_beyond_half_of_an_empty_round_trip_or_the_files_part_of_it() {
    let (usual, strict) = (experiment(""), experiment("late_max = 0.1"));
    let is_late = |experiment: &Experiment, mean_us| {
        let why = experiment.why_late(&record("a", 0, mean_us, mean_us));
        why.is_some()
    };
    assert_eq!([200, 201, 1_000].map(|us| is_late(&usual, us)), [false; 3]);
    assert!(is_late(&usual, 1_001));
    assert!(!is_late(&strict, 200) && is_late(&strict, 201));
    let why = usual.why_late(&record("a", 0, 4_000, 4_000)).unwrap();
    assert!(
        why.contains("added 200 %") && why.contains("`late_max` is 50 %"),
        "{why}"
    );
}

#[test]
fn run_is_late_if_a_frame_waited_for_more_than_50_ms() {
    let experiment = experiment("");
    assert_eq!(experiment.why_late(&record("a", 0, 10, 50_000)), None);
    let why = experiment.why_late(&record("a", 0, 10, 90_000));
    assert_eq!(why.as_deref(), Some("the network stood still for 90 ms"));
}

#[test]
fn simulated_run_is_never_late() {
    let record = RunRecord::default();
    assert_eq!(experiment("late_max = 0.001").why_late(&record), None);
}

#[test]
fn expectations_of_a_late_run_are_undecided_with_the_reason_and_ask_for_no_more_runs() {
    let experiment = experiment("repeat = 2");
    let mut records = vec![
        record("a", 0, 100, 100),
        record("a", 1, 100, 100),
        record("b", 0, 100, 100),
        record("b", 1, 2_000, 2_000),
    ];
    let judged = evaluate(&experiment, &records, Arm::Live).unwrap();
    let [a, b] = &judged.verdicts[..] else {
        panic!("{judged:?}")
    };
    assert_eq!((a.outcome, &a.late), (Outcome::Holds, &None));
    assert_eq!((b.outcome, b.holds, b.n), (Outcome::Undecided, false, 2));
    let why = b.late.as_deref().unwrap();
    assert!(why.starts_with("1 of its runs too late to count"), "{why}");
    assert!(b.why.is_none() && b.ours.is_some() && !judged.passes());
    assert!(continuation(&experiment, &judged, Arm::Live).is_empty());

    records[3] = record("b", 1, 100, 100);
    assert!(evaluate(&experiment, &records, Arm::Live).unwrap().passes());
}

#[test]
fn limit_of_lateness_makes_no_other_setup_and_no_record_stale() {
    let hash = |keys| experiment(keys).setup_hash(Arm::Live);
    assert_eq!(hash("late_max = 0.1"), hash(""));
}
