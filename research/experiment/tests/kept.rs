//! Kept records: what is written is read again number by number, sittings add up, and judging by kept
//! values gives the verdicts of the runs.

use uc_experiment::{
    Arm, Circumstances, Experiment, FlowRecord, FlowSample, Head, KeptRecord, Point, RunRecord,
    Sitting, Values, evaluate, judge,
};

use crate::common::{SWEPT, TWO_CASES};

fn experiment() -> (Experiment, Vec<Point>) {
    let experiment = Experiment::from_str("t.toml", TWO_CASES).expect("reads");
    experiment.validate().expect("is valid");
    let points = experiment.points().expect("has points");
    (experiment, points)
}

/// A run whose goodput no short decimal fraction equals.
fn record(point: u32, case: &str, run: u32) -> RunRecord {
    let bytes = 1_000_001 + 333_331 * u64::from(run) + 77 * u64::from(point);
    let sample = |at_ns: u64, delivered_bytes: u64| FlowSample {
        at_ns,
        delivered_bytes,
        ..FlowSample::default()
    };
    RunRecord {
        case: case.into(),
        run,
        point,
        flows: vec![FlowRecord {
            group: "g".into(),
            samples: vec![
                sample(0, 0),
                sample(9_999_999_999, bytes * if case == "a" { 3 } else { 7 }),
            ],
            ..FlowRecord::default()
        }],
        ..RunRecord::default()
    }
}

fn records(runs: std::ops::Range<u32>) -> Vec<RunRecord> {
    let places = [(0, "a"), (0, "b"), (1, "a"), (1, "b")];
    let of = |run| places.map(|(point, case)| record(point, case, run));
    runs.flat_map(of).collect()
}

fn kept(sittings: Vec<Sitting>) -> KeptRecord {
    let head = Head {
        experiment: "experiments/t/two.toml".into(),
        set: vec!["repeat=2".into()],
        arm: Arm::Live,
        seed: 1,
        setup: experiment().0.setup_hash(Arm::Sim),
    };
    KeptRecord { head, sittings }
}

fn sitting(records: &[RunRecord]) -> Sitting {
    let (experiment, points) = experiment();
    let values = Values::of(&experiment, &points, records, Arm::Live);
    let circumstances = Circumstances {
        commit: "0123456789ab".into(),
        kernel: Some("6.18".into()),
        load: Some([0.5, 1.25]),
        ..Circumstances::default()
    };
    Sitting::of(circumstances, &points, &values)
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let record = kept(vec![sitting(&records(0..2)), sitting(&records(2..3))]);
    let text = record.text().expect("writes");
    let read = KeptRecord::read(&text).expect("reads");
    assert_eq!(read, record);
    assert_eq!(read.text().expect("writes"), text);
    // A head, two sittings, and in each three rows at two points.
    assert_eq!(text.lines().count(), 1 + 2 * (1 + 3 * 2), "{text}");
}

#[test]
fn kept_values_are_judged_as_the_runs_were() {
    let (experiment, points) = experiment();
    let runs = records(0..2);
    let text = kept(vec![sitting(&runs)]).text().expect("writes");
    let values = KeptRecord::read(&text).expect("reads").values(&points);
    let by_record = judge(&experiment, &points, &values.expect("fits"), Arm::Live);
    let by_runs = evaluate(&experiment, &runs, Arm::Live).expect("judges");
    assert_eq!(by_record.expect("judges"), by_runs);
    // The ratio has a mean, and the reason why there is no round-trip time is kept.
    assert!(by_runs.verdicts[0].ours.is_some(), "{by_runs:#?}");
    let why = by_runs.verdicts[2].why.as_deref();
    assert!(
        why.is_some_and(|why| why.contains("flow 0 of group `g` has")),
        "{why:?}"
    );
}

#[test]
fn sittings_add_up_and_the_missing_runs_are_known() {
    let (experiment, points) = experiment();
    let mut begun = records(0..2);
    // Interrupted before the last run of `b` at the last point.
    begun.pop();
    let record = kept(vec![sitting(&begun)]);
    let mut values = record.values(&points).expect("fits");
    let made = |values: &Values, case| values.runs_of(1, case).into_iter().collect::<Vec<u32>>();
    assert_eq!(made(&values, "a"), [0, 1]);
    assert_eq!(made(&values, "b"), [0]);
    assert!(judge(&experiment, &points, &values, Arm::Live).is_err());
    values.keep_complete(2);
    assert_eq!(made(&values, "a"), [0]);
    assert!(judge(&experiment, &points, &values, Arm::Live).is_ok());

    let record = kept(vec![sitting(&begun), sitting(&[self::record(1, "b", 1)])]);
    let values = record.values(&points).expect("fits");
    let whole = Values::of(&experiment, &points, &records(0..2), Arm::Live);
    assert_eq!(values, whole);
    assert_eq!(record.sittings[1].repetitions(), 1);
}

#[test]
fn only_what_decides_the_runs_changes_the_hash() {
    let hash = |text: &str| {
        let experiment = Experiment::from_str("t.toml", text).expect("reads");
        experiment.setup_hash(Arm::Sim)
    };
    let plain = hash(SWEPT);
    for (from, to) in [
        ("title = \"A test\"", "title = \"Another\"  # by night"),
        ("repeat = 2", "repeat = 20\nrepeat_max = 80"),
        ("at_most = 0.1", "at_most = 0.2"),
    ] {
        assert!(SWEPT.contains(from), "{from}");
        assert_eq!(hash(&SWEPT.replacen(from, to, 1)), plain, "{to}");
    }
    for (from, to) in [
        ("duration = \"1s\"", "duration = \"2s\""),
        ("count = 4", "count = 5"),
        ("[1, 4, 8]", "[1, 4, 9]"),
    ] {
        assert!(SWEPT.contains(from), "{from}");
        assert_ne!(hash(&SWEPT.replacen(from, to, 1)), plain, "{to}");
    }
    let mut changed = Experiment::from_str("t.toml", SWEPT).expect("reads");
    changed.apply_set("network.rate=1Gbit").expect("applies");
    assert_ne!(changed.setup_hash(Arm::Sim), plain);
}

#[test]
fn a_line_of_another_form_is_refused_with_its_number() {
    let text = kept(vec![sitting(&records(0..1))]).text().expect("writes");
    let told = |text: &str| {
        KeptRecord::read(text)
            .expect_err("is no record")
            .to_string()
    };
    assert!(
        told("").starts_with("line 1: expected a record"),
        "{}",
        told("")
    );
    let headless = text.split_once('\n').expect("has lines").1;
    assert!(told(headless).starts_with("line 1: "), "{}", told(headless));
    let unknown = text.replacen("\"commit\"", "\"comit\"", 1);
    assert!(
        told(&unknown).starts_with("line 2: unknown field"),
        "{}",
        told(&unknown)
    );
    let (_, points) = experiment();
    let moved = text.replace("2ms", "3ms");
    let values = KeptRecord::read(&moved).expect("reads").values(&points);
    let error = values.expect_err("has no such point").to_string();
    assert!(error.contains("3ms"), "{error}");
}
