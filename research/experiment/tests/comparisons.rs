//! Comparisons of two records: pairs, intervals and judgements, compared with numbers by hand.

use proptest::prelude::*;
use uc_experiment::{
    Arm, Change, Circumstances, Compared, Comparison, Experiment, FlowRecord, FlowSample, Head,
    KeptRecord, LeftOut, Measure, QueueSample, RunRecord, Side, Sitting, Values,
};

use crate::common::TWO_CASES;

/// Returns a record of the lines' rows, whose first repetition has this seed.
fn record(seed: u64, rows: &[&str]) -> KeptRecord {
    let head =
        format!(r#"{{"record":{{"experiment":"t.toml","arm":"sim","seed":{seed},"setup":"0"}}}}"#);
    let sitting = r#"{"sitting":{"commit":"c","core":"d"}}"#;
    let lines = [&[head.as_str(), sitting][..], rows].concat();
    KeptRecord::read(&lines.join("\n")).expect("reads")
}

/// Returns the row of a group's goodput, or of its completion time.
fn row(kind: &str, values: &str) -> String {
    format!(
        r#"{{"row":{{"measure":{{"kind":"{kind}","case":"c","of":"g"}},"values":[{values}]}}}}"#
    )
}

fn goodputs(seed: u64, values: &str) -> KeptRecord {
    record(seed, &[&row("goodput", values)])
}

/// Returns side, seeds and reason of what was left out.
fn left_out(found: &Comparison) -> Vec<(Side, Vec<u64>, String)> {
    let left_out = found.left_out.iter();
    let text = |left: &LeftOut| (left.side, left.seeds.clone(), left.why.clone());
    left_out.map(text).collect()
}

fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-4, "{found}, not {expected}");
}

#[test]
fn differences_are_paired_and_their_interval_is_students() {
    // Differences 1, 2, 0, 5: mean 2, standard error √(14 / 3 / 4) = 1.080123; t(3) = 3.182446.
    let (a, b) = (goodputs(1, "10,20,30,40"), goodputs(1, "11,22,30,45"));
    let found = Comparison::of(&a, &b);
    let [row] = &found.compared[..] else {
        panic!("{found:#?}");
    };
    assert_eq!(row.means, [25.0, 27.0]);
    assert_eq!(row.difference.n, 4);
    let [low, high] = row.difference.interval.expect("four pairs");
    assert_close(low, 2.0 - 3.437434);
    assert_close(high, 2.0 + 3.437434);
    assert_close(row.relative().expect("A is not 0"), 0.08);
    let [low, high] = row.relative_interval().expect("A is not 0");
    assert_close(low, -0.057497);
    assert_close(high, 0.217497);
    assert_eq!(row.change, Change::Unknown);
    assert_eq!(found.differing(), 0);
    assert!(found.left_out.is_empty() && found.alone.is_empty());
}

#[test]
fn an_interval_on_one_side_of_0_is_a_difference() {
    // Differences 2, 3, 2, 3: 2.5 ± 3.182446 · √(1 / 3 / 4) = 0.918693.
    let (a, b) = (goodputs(1, "10,20,30,40"), goodputs(1, "12,23,32,43"));
    let more = Comparison::of(&a, &b);
    let interval = more.compared[0].difference.interval.expect("four pairs");
    assert_close(interval[0], 1.581307);
    assert_close(interval[1], 3.418693);
    assert_eq!(more.compared[0].change, Change::More);
    assert_eq!(more.differing(), 1);
    assert_eq!(Comparison::of(&b, &a).compared[0].change, Change::Less);
    let same = Comparison::of(&a, &a);
    assert_eq!(same.compared[0].change, Change::Same);
    assert_eq!(same.compared[0].relative(), Some(0.0));
    assert_eq!(same.differing(), 0);
}

#[test]
fn runs_are_paired_by_seed_and_the_others_are_named() {
    // Seeds 1 to 4 and 3 to 6.
    let found = Comparison::of(&goodputs(1, "1,2,3,4"), &goodputs(3, "4,5,6,7"));
    let row = &found.compared[0];
    assert_eq!((row.difference.n, row.means), (2, [3.5, 4.5]));
    assert_eq!(row.change, Change::More, "each pair differs by 1");
    assert_eq!(
        left_out(&found),
        [
            (
                Side::A,
                vec![1, 2],
                "B has no run of these seeds".to_owned()
            ),
            (
                Side::B,
                vec![5, 6],
                "A has no run of these seeds".to_owned()
            ),
        ]
    );
    assert_eq!(found.left_out[0].cases, ["c"]);
    let none = Comparison::of(&goodputs(1, "1,2"), &goodputs(8, "1,2"));
    assert!(none.compared.is_empty());
    assert_eq!(none.left_out.len(), 2);
}

#[test]
fn runs_without_a_value_are_left_out_with_the_reason() {
    let (a, b) = (goodputs(1, r#"1,"no flow",3"#), goodputs(1, "1,2,null"));
    let found = Comparison::of(&a, &b);
    assert_eq!(found.compared[0].difference.n, 1);
    assert_eq!(
        left_out(&found),
        [
            (Side::A, vec![3], "B has no run of these seeds".to_owned()),
            (Side::A, vec![2], "no value: no flow".to_owned()),
            (Side::B, vec![2], "A has no value of these seeds".to_owned()),
        ]
    );
}

#[test]
fn one_pair_decides_nothing_unless_it_is_equal() {
    let change = |b: &str| Comparison::of(&goodputs(1, "5"), &goodputs(1, b)).compared[0].change;
    assert_eq!(change("6"), Change::Unknown);
    assert_eq!(change("5"), Change::Same);
}

#[test]
fn a_mean_of_0_has_no_relative_difference() {
    let found = Comparison::of(&goodputs(1, "0,0,0"), &goodputs(1, "1,2,1.5"));
    let row = &found.compared[0];
    assert_eq!((row.relative(), row.relative_interval()), (None, None));
    assert_eq!(row.change, Change::More);
}

#[test]
fn a_ratio_of_a_comparison_is_that_of_the_means_where_its_sides_are_there() {
    let of = |case: &str| format!(r#"{{"kind":"goodput","case":"{case}","of":"g"}}"#);
    let line = |measure: &str, values: &str| {
        format!(r#"{{"row":{{"measure":{measure},"values":[{values}]}}}}"#)
    };
    let ratio = format!(r#"{{"kind":"ratio","of":{},"to":{}}}"#, of("a"), of("b"));
    let (above, below) = (line(&of("a"), "10,10"), line(&of("b"), "1,10"));
    let mean_of = |rows: &[&str]| {
        let rows = record(1, rows);
        let found = Comparison::of(&rows, &rows).compared;
        let ratio = |row: &&Compared| matches!(row.measure, Measure::Ratio { .. });
        found.iter().find(ratio).expect("is a row").means[0]
    };
    let ratios = line(&ratio, "10,1");
    assert_close(mean_of(&[&above, &below, &ratios]), 20.0 / 11.0);
    assert_close(mean_of(&[&ratios]), 5.5);
}

#[test]
fn only_completion_times_are_faster_or_slower() {
    let rows = |values: &str| {
        let rows = [row("goodput", values), row("fct", values)];
        record(1, &rows.each_ref().map(String::as_str))
    };
    let found = Comparison::of(&rows("1,2,3"), &rows("2,3.1,4"));
    let words: Vec<&str> = found
        .compared
        .iter()
        .map(|row| row.change.words(&row.measure))
        .collect();
    assert_eq!(words, ["more", "slower"]);
    let back = Comparison::of(&rows("2,3.1,4"), &rows("1,2,3"));
    assert_eq!(
        back.compared[1].change.words(&back.compared[1].measure),
        "faster"
    );
}

#[test]
fn measures_match_by_name_and_point() {
    let at = |label: &str| {
        row("goodput", "1,2").replace(
            "{\"row\":{",
            &format!("{{\"row\":{{\"at\":{{\"x\":\"{label}\"}},"),
        )
    };
    let a = record(1, &[&at("1"), &at("2"), &row("rtt", "1,2")]);
    let b = record(1, &[&at("3"), &at("2")]);
    let found = Comparison::of(&a, &b);
    let labels: Vec<_> = found
        .compared
        .iter()
        .map(|row| row.at["x"].as_str())
        .collect();
    assert_eq!(labels, ["2"]);
    let alone: Vec<Side> = found.alone.iter().map(|alone| alone.side).collect();
    assert_eq!(alone, [Side::A, Side::A, Side::B]);
}

proptest! {
    #[test]
    fn exchanging_the_sides_negates_each_difference(
        pairs in prop::collection::vec((1.0f64..1e9, 1.0f64..1e9), 2..12),
    ) {
        let text = |side: fn(&(f64, f64)) -> f64| {
            let values: Vec<String> = pairs.iter().map(|pair| side(pair).to_string()).collect();
            goodputs(1, &values.join(","))
        };
        let (a, b) = (text(|pair| pair.0), text(|pair| pair.1));
        let (there, back) = (Comparison::of(&a, &b), Comparison::of(&b, &a));
        let (there, back) = (&there.compared[0], &back.compared[0]);
        prop_assert_eq!(there.difference.mean, -back.difference.mean);
        let [low, high] = there.difference.interval.expect("two or more");
        prop_assert_eq!(back.difference.interval, Some([-high, -low]));
        let opposite = match there.change {
            Change::More => Change::Less,
            Change::Less => Change::More,
            other => other,
        };
        prop_assert_eq!(back.change, opposite);
    }
}

/// A run of 1 MB in 10 s, and of a queue of 5 kB and then 10 kB.
fn run(case: &str, number: u32) -> RunRecord {
    let sample = |at_ns: u64, delivered_bytes: u64| FlowSample {
        at_ns,
        delivered_bytes,
        ..FlowSample::default()
    };
    let queue = |at_ns: u64, backlog_bytes: u64| QueueSample {
        at_ns,
        backlog_bytes,
        ..QueueSample::default()
    };
    RunRecord {
        case: case.into(),
        run: number,
        flows: vec![FlowRecord {
            group: "g".into(),
            samples: vec![sample(0, 0), sample(10_000_000_000, 1_000_000)],
            ..FlowRecord::default()
        }],
        queue: vec![queue(0, 5_000), queue(5_000_000_000, 10_000)],
        ..RunRecord::default()
    }
}

#[test]
fn results_have_ratios_goodputs_and_queueing_delays_but_no_empty_measures() {
    let experiment = Experiment::from_str("t.toml", TWO_CASES).expect("reads");
    let points = experiment.points().expect("two");
    let records = [run("a", 0), run("b", 0), run("a", 1)];
    let values = Values::of_results(&experiment, &points, &records, Arm::Sim);
    let head = Head {
        experiment: "t.toml".into(),
        set: Vec::new(),
        arm: Arm::Sim,
        seed: 1,
        setup: experiment.setup_hash(Arm::Sim),
    };
    let sitting = Sitting::of(Circumstances::default(), &points, &values);
    let record = KeptRecord {
        head,
        sittings: vec![sitting],
    };
    let read = KeptRecord::read(&record.text().expect("writes")).expect("reads");
    let rows = read.measures();
    let of = |wanted: fn(&Measure) -> bool| -> Vec<Vec<f64>> {
        let rows = rows.iter().filter(|row| wanted(&row.measure));
        let numbers = |row: &uc_experiment::KeptMeasure| {
            row.runs
                .values()
                .filter_map(|value| value.clone().ok())
                .collect()
        };
        rows.map(numbers).collect()
    };
    let is_ratio: fn(&Measure) -> bool = |measure| matches!(measure, Measure::Ratio { .. });
    assert_eq!(of(is_ratio), [[1.0]], "only repetition 0 has both cases");
    let goodputs = of(|measure| matches!(measure, Measure::Goodput { .. }));
    assert_eq!(goodputs, [vec![800_000.0; 2], vec![800_000.0]]);
    // 7.5 kB at 10 Mbit/s take 6 ms.
    let delays = of(|measure| matches!(measure, Measure::Queue { .. }));
    assert_eq!(delays, [vec![0.006; 2], vec![0.006]]);
    assert_eq!(rows.len(), 5, "no completion times: {rows:#?}");
}
