//! The kept record of the theorems: rows that a seed draws, made again, are those of `results/verify`. The
//! tables of docs/theorems.md are made from the record.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use uc_core::COMPILED;
use uc_net::random::Stream;
use uc_verify::record::PARTS;
use uc_verify::smallest::{Reason, smallest};
use uc_verify::{Guest, Law, Limit, Outcome, Plan, Workspace, compare};

/// Numbers of rows that a seed draws of each part, in the order of `PARTS`.
const DRAWN: [usize; PARTS.len()] = [2, 3, 2, 1];
const SEED: &str = "UC_SEED";

/// Returns the rows of a part, behind the head.
fn record(name: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(format!("results/{name}.jsonl"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    text.lines().skip(1).map(str::to_owned).collect()
}

/// Returns the seed that draws rows, a new one unless the environment has one.
fn seed() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    match std::env::var(SEED) {
        Ok(text) => text.parse().expect("UC_SEED is a decimal number"),
        Err(_) => since.as_micros() as u64,
    }
}

#[test]
fn drawn_rows_made_again_are_those_of_the_record() {
    let seed = seed();
    println!("{SEED}={seed}");
    std::thread::scope(|scope| {
        for (part, count) in PARTS.into_iter().zip(DRAWN) {
            let kept = record(part.name);
            assert_eq!(kept.len(), part.rows, "{}", part.name);
            let mut random = Stream::new(seed, part.name);
            let mut drawn = BTreeSet::new();
            while drawn.len() < count {
                drawn.insert(random.below(part.rows as u64) as usize);
            }
            for number in drawn {
                let kept = kept[number].clone();
                scope.spawn(move || {
                    let row = part.row(number).unwrap();
                    assert_eq!(
                        row, kept,
                        "{}, row {number}; repeat with {SEED}={seed}, or all: uc-bench reproduce verify",
                        part.name
                    );
                });
            }
        }
    });
}

#[test]
fn every_case_of_the_record_is_exact_and_nothing_lifted_is_nothing_different() {
    let parse = |row: &String| serde_json::from_str::<serde_json::Value>(row).unwrap();
    for row in record("verify/cases").iter().map(parse) {
        assert_eq!(row["exact"], row["cases"], "{row}");
    }
    let lifted = record("verify/lift");
    let rows: Vec<_> = lifted.iter().map(parse).collect();
    assert_eq!(rows[0]["assumption"], "none");
    assert_eq!(rows[0]["ratios"]["identical"], rows[0]["cases"]);
    let table = record("verify/table");
    let rows = table.iter().map(parse);
    for row in rows.filter(|row| row["guest"] == "NewReno") {
        for column in [
            &row["exact"],
            &row["marks"]["identical"],
            &row["losses"]["identical"],
        ] {
            assert_eq!(*column, row["cases"], "{row}");
        }
    }
}

#[test]
fn the_smallest_cases_need_each_of_their_parts() {
    for reason in Reason::ALL {
        let plan = smallest(Law::Ecn, reason).expect("a small case refutes the claim");
        assert_eq!(outcome(&plan), Outcome::Outside(Limit::BeyondGuest));
        let without = |change: &dyn Fn(&mut Plan)| {
            let mut plan = plan.clone();
            change(&mut plan);
            outcome(&plan)
        };
        let parts = [
            without(&|plan| plan.data.lost.clear()),
            without(&|plan| plan.data.marked.clear()),
            without(&|plan| plan.bursts[1].pause_rto_permille = 0),
            without(&|plan| plan.packets -= 1),
        ];
        assert_eq!(parts, [Outcome::Same; 4], "{}", plan.to_toml());
    }
}

fn outcome(plan: &Plan) -> Outcome {
    let mut workspace = Workspace::default();
    compare(plan, Law::Ecn, Guest::NewReno, COMPILED, &mut workspace).outcome
}
