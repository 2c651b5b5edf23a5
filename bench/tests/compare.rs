//! `uc-bench compare` on results that `uc-bench run` has just written: equal ones, another law, another file.

use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use uc_bench::compare::FILES;
use uc_live::command::{Outcome, folder_with, names_in, outcome, refusal};

use crate::common::{TINY, UC_BENCH};

/// Two flows that start at random times, so that each seed has a result of its own.
fn experiment() -> String {
    let spread = "count = 2\nstart_spread = \"300ms\"\n";
    TINY.replace("count = 1\n", spread)
}

fn uc(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(UC_BENCH);
    command.args(arguments).current_dir(folder.path());
    command
}

/// Runs the experiment in the simulator into a folder of this name.
fn run(folder: &TempDir, out: &str, arguments: &[&str]) {
    let run = ["run", "t.toml", "--on", "sim", "--out", out];
    let done = outcome(uc(folder, &[&run[..], arguments].concat()));
    assert!(matches!(done.status, Some(0 | 1)), "{done:?}");
}

fn compare(folder: &TempDir, arguments: &[&str]) -> Outcome {
    outcome(uc(folder, &[&["compare"], arguments].concat()))
}

/// Compares with `--json`, and returns the exit status and the object.
fn compared(folder: &TempDir, a: &str, b: &str) -> (Option<i32>, Value) {
    let found = compare(folder, &[a, b, "--json"]);
    let object = serde_json::from_str(&found.stdout);
    (found.status, object.unwrap_or_else(|_| panic!("{found:?}")))
}

fn row<'a>(object: &'a Value, name: &str) -> &'a Value {
    let rows = object["compared"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == name);
    row.unwrap_or_else(|| panic!("no {name}: {object:#}"))
}

const MEASURES: [&str; 3] = [
    "utilisation, case only",
    "goodput of virtual, case only",
    "queue, case only, statistic mean, unit seconds",
];

#[test]
fn a_result_compared_with_itself_is_the_same_with_status_0() {
    let folder = folder_with(&experiment());
    run(&folder, "a", &["--repeat", "3"]);
    run(&folder, "again", &["--repeat", "3"]);
    let (status, object) = compared(&folder, "a", "again");
    assert_eq!(status, Some(0), "{object:#}");
    assert_eq!(
        object["compared"].as_array().map(Vec::len),
        Some(MEASURES.len())
    );
    for name in MEASURES {
        let row = row(&object, name);
        assert_eq!(
            (&row["verdict"], &row["n"]),
            (&"same".into(), &3.into()),
            "{row}"
        );
        assert_eq!(
            (&row["difference"], &row["interval"]),
            (&0.0.into(), &[0.0, 0.0][..].into())
        );
    }
    assert_eq!(object["differing"], 0);
    assert_eq!(object["left_out"], serde_json::json!([]));
    let mut files = FILES.map(String::from);
    files.sort();
    assert_eq!(names_in(&folder.path().join("out/compare")), files);
    let told = compare(&folder, &["a", "again"]);
    assert_eq!(told.status, Some(0), "{told:?}");
    assert!(
        told.stdout.contains("0 of 3 measures differ, the same: 3"),
        "{told:?}"
    );
}

#[test]
fn another_law_differs_with_status_1_and_a_page() {
    let folder = folder_with(&experiment());
    run(&folder, "ecn", &["--repeat", "6"]);
    let set = "case.only.guests.virtual.law=dctcp";
    run(&folder, "dctcp", &["--repeat", "6", "--set", set]);
    let (status, object) = compared(&folder, "ecn", "dctcp");
    assert_eq!(status, Some(1), "{object:#}");
    let queue = row(&object, MEASURES[2]);
    assert!(
        queue["verdict"] == "less" || queue["verdict"] == "more",
        "{queue}"
    );
    let (difference, interval) = (&queue["difference"], &queue["interval"]);
    let ends = [0, 1].map(|end| interval[end].as_f64().unwrap());
    let mean = difference.as_f64().unwrap();
    assert!(
        ends[0] <= mean && mean <= ends[1] && ends[0] * ends[1] > 0.0,
        "{queue}"
    );
    assert_eq!(object["b"]["set"], serde_json::json!([set]));
    for side in ["a", "b"] {
        let commit = &object[side]["sittings"][0]["commit"];
        assert!(
            commit.as_str().is_some_and(|commit| !commit.is_empty()),
            "{object:#}"
        );
    }
    let told = compare(&folder, &["ecn", "dctcp", "--out", "page"]);
    assert_eq!(told.status, Some(1), "{told:?}");
    assert!(
        told.stdout.contains("overrides: A – | B --set case.only"),
        "{told:?}"
    );
    let page = std::fs::read_to_string(folder.path().join("page/compare.html")).unwrap();
    for part in [
        "Measure by measure",
        "Differences and their intervals",
        "Goodput and queueing delay",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for loads in ["http", "src=", "url(", "@import", "<link", "<script"] {
        assert!(!page.contains(loads), "the page has {loads:?}");
    }
}

#[test]
fn two_cases_of_one_result_are_compared_by_their_groups() {
    let second = experiment();
    let (_, case) = second.split_once("[[case]]").unwrap();
    let (case, _) = case.split_once("[[expect]]").unwrap();
    let case = case
        .replace("\"only\"", "\"other\"")
        .replace("\"ecn\"", "\"dctcp\"");
    let folder = folder_with(&format!("{second}\n[[case]]{case}"));
    run(&folder, "a", &["--repeat", "6"]);
    let (status, object) = compared(&folder, "a", "a");
    assert_eq!((status, &object["differing"]), (Some(0), &0.into()));
    let told = compare(&folder, &["a", "a", "--case", "only=other", "--json"]);
    assert_eq!(told.status, Some(1), "{told:?}");
    let object: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(row(&object, MEASURES[2])["verdict"], "more", "{object:#}");
    assert_eq!(object["b"]["result"], "a, case other");
    // The expectation measures only the first case.
    assert_eq!(object["alone"][0]["measure"]["kind"], "utilisation");
    refusal(
        uc(&folder, &["compare", "a", "a", "--case", "only=none"]),
        &["--case: no case `none` in a", "only, other"],
    );
    refusal(
        uc(&folder, &["compare", "a", "a", "--case", "only"]),
        &["--case only: write the names of a case of either result: CASE_OF_A=CASE_OF_B"],
    );
}

#[test]
fn runs_of_other_seeds_are_left_out_by_name_and_without_a_pair_nothing_is_compared() {
    let folder = folder_with(&experiment());
    run(&folder, "a", &["--repeat", "4"]);
    run(&folder, "b", &["--repeat", "4", "--seed", "3"]);
    let told = compare(&folder, &["a", "b"]);
    assert_eq!(
        told.status,
        Some(0),
        "equal seeds have equal runs: {told:?}"
    );
    for part in [
        "left out: case only: 2 runs of A (seeds 1–2): B has no run of these seeds",
        "left out: case only: 2 runs of B (seeds 5–6): A has no run of these seeds",
    ] {
        assert!(told.stdout.contains(part), "{told:?}");
    }
    run(&folder, "far", &["--seed", "90"]);
    std::fs::remove_dir_all(folder.path().join("out")).unwrap();
    refusal(
        uc(&folder, &["compare", "a", "far"]),
        &[
            "a with far",
            "no run has the same seed",
            "1 and 90",
            "--seed",
        ],
    );
    assert!(!folder.path().join("out").exists());
}

#[test]
fn a_foreign_file_is_refused_with_status_2() {
    let folder = folder_with(&experiment());
    run(&folder, "a", &[]);
    let other = experiment().replace("\"only\"", "\"other\"");
    std::fs::write(folder.path().join("t.toml"), other).unwrap();
    run(&folder, "b", &[]);
    refusal(
        uc(&folder, &["compare", "a", "b"]),
        &[
            "a with b",
            "no measure has the same case",
            "t/tiny",
            "one experiment",
        ],
    );
    std::fs::write(folder.path().join("x.jsonl"), "{}\n").unwrap();
    refusal(
        uc(&folder, &["compare", "a", "x.jsonl"]),
        &["x.jsonl", "line 1"],
    );
    for missing in ["none", "t/none@sim", "out"] {
        std::fs::create_dir_all(folder.path().join("out")).unwrap();
        refusal(
            uc(&folder, &["compare", "a", missing]),
            &["could not read", "uc-bench run"],
        );
    }
}

#[test]
fn kept_records_are_compared_by_path_and_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let path = "results/sim/vcc/fig11.jsonl";
    let mut command = Command::new(UC_BENCH);
    command
        .args(["compare", path, "vcc/fig11@sim", "--out"])
        .arg(folder.path().join("out"));
    let told = outcome({
        command.current_dir(root);
        command
    });
    assert_eq!(told.status, Some(0), "{told:?}");
    assert!(told.stdout.contains("the same: "), "{told:?}");
}
