//! `uc-bench reproduce` in a small repository of its own: what is accepted is reproduced, and each way in
//! which a record can be wrong has its answer.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use uc_live::command::{Outcome, outcome, refusal};

use crate::common::UC_BENCH;

const EXPERIMENT: &str = r#"
name = "t/small"
title = "Two flows"
arms = ["sim"]
duration = "2s"
repeat = 3
[network]
rate = "10Mbit"
delay = "1ms"
queue = { kind = "droptail", limit = "30kB" }
[stack.a]
congestion_control = "reno"
[[case]]
name = "pair"
guests = [{ name = "g", stack = "a", count = 2 }]
[[case]]
name = "unmeasured"
guests = [{ name = "g", stack = "a" }]
[[sweep]]
name = "delay"
set = { "network.delay" = ["1ms", "5ms"] }
[[expect]]
name = "use of the link"
measure = { kind = "utilisation", case = "pair" }
at_least = 0.5
"#;

/// A folder with one experiment.
struct Repository(TempDir);

impl Repository {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("experiments/t")).unwrap();
        let repository = Self(folder);
        repository.write(EXPERIMENT);
        repository
    }

    fn write(&self, experiment: &str) {
        fs::write(self.0.path().join("experiments/t/small.toml"), experiment).unwrap();
    }

    fn record(&self, id: &str) -> PathBuf {
        self.0.path().join(format!("results/sim/{id}.jsonl"))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(UC_BENCH);
        command
            .arg("reproduce")
            .args(arguments)
            .current_dir(self.0.path());
        command
    }

    fn reproduce(&self, arguments: &[&str]) -> Outcome {
        outcome(self.command(arguments))
    }

    /// Asserts the exit status and the beginning of the line that is printed.
    fn expect(&self, arguments: &[&str], status: i32, line: &str) {
        let outcome = self.reproduce(arguments);
        assert_eq!(outcome.status, Some(status), "{arguments:?}: {outcome:?}");
        assert!(
            outcome.stdout.starts_with(line),
            "{arguments:?}: {outcome:?}"
        );
        assert_eq!(
            outcome.stdout.lines().count(),
            1,
            "{arguments:?}: {outcome:?}"
        );
    }
}

#[test]
fn an_accepted_record_is_reproduced_and_stays_as_it_is() {
    let repository = Repository::new();
    repository.expect(&["t/small"], 1, "t/small sim: no record");
    assert!(!repository.record("t/small").exists());
    repository.expect(
        &["t/small", "--accept"],
        0,
        "t/small sim: accepted (no record), 2 of 2 hold",
    );
    let text = fs::read_to_string(repository.record("t/small")).unwrap();
    // Head, sitting, and the measure at two points with three repetitions each.
    let rows: Vec<&str> = text.lines().skip(2).collect();
    assert_eq!(rows.len(), 2, "{text}");
    for (row, delay) in rows.iter().zip(["1ms", "5ms"]) {
        let object: serde_json::Value = serde_json::from_str(row).unwrap();
        assert_eq!(object["row"]["at"]["delay"], delay, "{row}");
        assert_eq!(
            object["row"]["values"].as_array().unwrap().len(),
            3,
            "{row}"
        );
    }
    for arguments in [
        &["experiments/t/small.toml", "--jobs", "1"][..],
        &["--all"],
        &["t/small", "--accept"],
    ] {
        repository.expect(arguments, 0, "t/small sim: reproduced, 2 of 2 hold");
    }
    assert_eq!(
        fs::read_to_string(repository.record("t/small")).unwrap(),
        text
    );
}

#[test]
fn a_changed_value_is_named_with_its_row_and_repetition() {
    let repository = Repository::new();
    repository.reproduce(&["t/small", "--accept"]);
    let path = repository.record("t/small");
    let text = fs::read_to_string(&path).unwrap();
    let last = text.rfind(',').unwrap() + 1;
    let end = text.rfind("]}}").unwrap();
    let value: f64 = text[last..end].parse().unwrap();
    let off = f64::from_bits(value.to_bits() + 1);
    fs::write(&path, format!("{}{off}{}", &text[..last], &text[end..])).unwrap();
    let line = "t/small sim: 1 of 2 rows differ; first: utilisation, case pair, delay 5ms: repetition 2 was ";
    repository.expect(&["t/small"], 1, line);
    repository.expect(
        &["t/small", "--accept"],
        0,
        "t/small sim: accepted (1 of 2 rows differ)",
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_verdict_that_only_the_kept_values_give_does_not_stand_with_other_seeds() {
    let repository = Repository::new();
    repository.reproduce(&["t/small", "--accept"]);
    let again = ["t/small", "--seed", "5001"];
    let stands = repository.reproduce(&again);
    assert_eq!(stands.status, Some(0), "{stands:?}");
    assert!(stands.stdout.contains("0 of 2 rows change"), "{stands:?}");
    // A bar that the values of the record keep, and no run does.
    repository.write(&EXPERIMENT.replace("at_least = 0.5", "at_most = 0.5"));
    let path = repository.record("t/small");
    let text = fs::read_to_string(&path).unwrap();
    let last = text.rfind("\"values\":").unwrap();
    let planted = format!("{}\"values\":[0.4,0.41,0.42]}}}}\n", &text[..last]);
    fs::write(&path, planted).unwrap();
    let falls = repository.reproduce(&again);
    assert_eq!(falls.status, Some(1), "{falls:?}");
    assert!(
        falls
            .stdout
            .contains("  use of the link, delay 5ms: holds, now fails: 0.9"),
        "{falls:?}"
    );
    assert!(
        falls
            .stdout
            .ends_with("1 from holds to fails: the records do not stand\n"),
        "{falls:?}"
    );
}

#[test]
fn a_record_of_another_file_is_stale_and_one_with_other_bars_is_not() {
    let repository = Repository::new();
    repository.reproduce(&["t/small", "--accept"]);
    repository.write(&EXPERIMENT.replace("at_least = 0.5", "at_least = 0.6"));
    repository.expect(&["t/small"], 0, "t/small sim: reproduced, 2 of 2 hold");
    repository.write(&EXPERIMENT.replace("30kB", "20kB"));
    repository.expect(&["t/small"], 1, "t/small sim: stale record");
    repository.expect(
        &["t/small", "--accept"],
        0,
        "t/small sim: accepted (stale record)",
    );
    repository.expect(&["t/small"], 0, "t/small sim: reproduced");
    // A record for an expectation that the file does not have any more.
    let further = EXPERIMENT
        .replace("30kB", "20kB")
        .replace("utilisation", "jain");
    repository.write(&further);
    repository.expect(
        &["t/small"],
        1,
        "t/small sim: 4 of 2 rows differ; first: jain",
    );
}

#[test]
fn a_variant_has_a_record_of_its_own_that_knows_its_overrides() {
    let repository = Repository::new();
    let variant = ["t/small", "--set", "network.rate=20Mbit", "--as", "t/fast"];
    repository.expect(
        &[&variant[..], &["--accept"]].concat(),
        0,
        "t/fast sim: accepted",
    );
    repository.expect(&["t/fast"], 0, "t/fast sim: reproduced");
    repository.expect(&variant, 0, "t/fast sim: reproduced");
    let text = fs::read_to_string(repository.record("t/fast")).unwrap();
    assert!(text.contains(r#""set":["network.rate=20Mbit"]"#), "{text}");
    let all = repository.reproduce(&["--all"]);
    assert_eq!(all.stdout.lines().count(), 2, "{all:?}");
    assert!(all.stdout.starts_with("t/fast sim: reproduced"), "{all:?}");
    let other = ["t/small", "--set", "network.rate=5Mbit", "--as", "t/fast"];
    refusal(
        repository.command(&other),
        &[
            "t/fast.jsonl was made with --set network.rate=20Mbit",
            "--as",
        ],
    );
}

#[test]
fn a_command_without_time_leaves_the_record_alone() {
    let repository = Repository::new();
    repository.expect(
        &["t/small", "--accept", "--minutes", "0"],
        1,
        "t/small sim: incomplete",
    );
    assert!(!repository.record("t/small").exists());
}

#[test]
fn an_impossible_command_is_refused_in_one_line() {
    let repository = Repository::new();
    refusal(
        repository.command(&["t/none"]),
        &["experiments/t/none.toml", "name an experiment file"],
    );
    refusal(
        repository.command(&["t/small", "--on", "live"]),
        &["t/small"],
    );
    fs::create_dir_all(repository.record("t").parent().unwrap().join("t")).unwrap();
    fs::write(repository.record("t/small"), "{}\n").unwrap();
    refusal(
        repository.command(&["t/small"]),
        &["small.jsonl", "line 1", "accept the record again"],
    );
    let elsewhere = tempfile::tempdir().unwrap();
    let mut command = repository.command(&["--all"]);
    command.current_dir(elsewhere.path());
    refusal(
        command,
        &["experiments", "run the command in the repository"],
    );
}

#[test]
fn quoted_numbers_and_the_page_follow_the_records() {
    let repository = Repository::new();
    let root = repository.0.path();
    repository.reproduce(&["t/small", "--accept"]);
    fs::create_dir(root.join("docs")).unwrap();
    let quote = "<!-- sim t/small: use of the link {delay=5ms} -->";
    fs::write(
        root.join("README.md"),
        format!("Uses 9.999{quote} of it.\n"),
    )
    .unwrap();
    fs::write(root.join("docs/a.md"), "0.5 of nothing.\n").unwrap();
    let outcome = repository.reproduce(&["--docs"]);
    assert_eq!(outcome.status, Some(1), "{outcome:?}");
    let problem = "docs/a.md: 1 numbers are not from a record, at most 0 may be";
    for part in [problem, "README.md: differs", "results/README.md: differs"] {
        assert!(outcome.stdout.contains(part), "{outcome:?}");
    }
    fs::write(root.join("results/unsourced.counts"), "docs/a.md 3\n").unwrap();
    assert_eq!(
        repository.reproduce(&["--docs", "--accept"]).status,
        Some(0)
    );
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    assert!(readme.starts_with("Uses 0.9"), "{readme}");
    assert!(readme.contains(quote), "{readme}");
    let counts = fs::read_to_string(root.join("results/unsourced.counts")).unwrap();
    assert!(counts.ends_with("README.md 0\ndocs/a.md 1\n"), "{counts}");
    let page = fs::read_to_string(root.join("results/README.md")).unwrap();
    assert!(
        page.contains("| use of the link (delay 5ms) | – | ≥ 0.5 | 0.9"),
        "{page}"
    );
    assert!(
        page.contains("`uc-bench reproduce t/small --on sim`"),
        "{page}"
    );
    let again = repository.reproduce(&["--docs"]);
    assert_eq!(again.status, Some(0), "{again:?}");
    assert_eq!(again.stdout, "1 numbers come from records\n");
}

#[test]
fn a_part_of_the_theorems_is_accepted_reproduced_and_shown_in_a_document() {
    let repository = Repository::new();
    let root = repository.0.path();
    let part = "verify/smallest";
    repository.expect(&[part], 1, "verify/smallest: no record");
    repository.expect(
        &[part, "--accept"],
        0,
        "verify/smallest: accepted (no record)",
    );
    repository.expect(
        &[part, "--jobs", "1"],
        0,
        "verify/smallest: reproduced, 4 rows",
    );
    fs::create_dir(root.join("docs")).unwrap();
    let labels = "{law=dctcp; reason=any}";
    let page = format!(
        "Takes 7<!-- rows {part}: transmissions {labels} --> of them.\n\n<!-- table {part} {labels} -->\n\
         | an old row | 0.5 |\n\nNo 0.25.\n"
    );
    fs::write(root.join("docs/a.md"), page).unwrap();
    fs::write(root.join("results/unsourced.counts"), "docs/a.md 1\n").unwrap();
    repository.reproduce(&["--docs", "--accept"]);
    let again = repository.reproduce(&["--docs"]);
    assert_eq!(again.status, Some(0), "{again:?}");
    let page = fs::read_to_string(root.join("docs/a.md")).unwrap();
    let table = format!("{labels} -->\n| time, ms | at both senders |");
    assert!(
        page.contains(&table) && !page.contains("an old row"),
        "{page}"
    );
    assert!(page.starts_with("Takes 8<!--"), "{page}");

    let path = root.join("results/verify/smallest.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replacen(r#""transmissions":8"#, r#""transmissions":9"#, 1),
    )
    .unwrap();
    let line = "verify/smallest: 1 of 4 rows differ; first: row 3";
    repository.expect(&[part], 1, line);
    assert!(
        repository
            .reproduce(&["--docs"])
            .stdout
            .contains("docs/a.md: differs")
    );
    let live = repository.command(&[part, "--on", "live"]);
    refusal(live, &["verify/smallest", "remove --on"]);
}

/// Figures as `make bench` writes them.
const BENCH: &str = r#"{"commit": "0123abc", "kernel": "6.18.0", "processors": 2, "load": 1.25, "figures": [
{"group": "g", "name": "data", "base": "empty program", "ratio": 9.1070, "low": 9.0350, "high": 9.1870, "pairs": 41, "value": 244.9900, "unit": "ns"},
{"group": "g", "name": "data", "base": "parsed, looked up", "ratio": 1.4820, "low": 1.4610, "high": 1.5010, "pairs": 41, "value": 244.9900, "unit": "ns"}
]}
"#;

#[test]
fn figures_of_the_benchmark_and_means_of_rows_are_quoted_by_their_labels() {
    let repository = Repository::new();
    let root = repository.0.path();
    repository.reproduce(&["t/small", "--accept"]);
    fs::create_dir(root.join("docs")).unwrap();
    let data = "{name=data; base=parsed, looked up}";
    let page = format!(
        "1.00 (1.00 to 1.00)<!-- rows bench: ratio {data} -->, 1<!-- rows bench: value {data} --> ns, \
         n = 1<!-- rows bench: pairs {data} -->, 9 ± 9<!-- rows peers: lost {{simulator=a}} × 100 --> %, \
         load 1.1<!-- rows bench: load {data} -->\n"
    );
    fs::write(root.join("docs/a.md"), &page).unwrap();
    let missing = repository.reproduce(&["--docs"]);
    assert_eq!(missing.status, Some(1), "{missing:?}");
    assert!(
        missing
            .stdout
            .contains("bench.jsonl: this record does not exist"),
        "{missing:?}"
    );
    fs::write(root.join("results/bench.json"), BENCH).unwrap();
    let peers = "{\"seeds\": 2}\n{\"simulator\": \"a\", \"seed\": 1, \"lost\": 0.02}\n\
        {\"simulator\": \"a\", \"seed\": 2, \"lost\": 0.04}\n{\"simulator\": \"b\", \"lost\": 0.5}\n";
    fs::write(root.join("results/peers.jsonl"), peers).unwrap();
    let written = repository.reproduce(&["--docs", "--accept"]);
    assert_eq!(written.status, Some(0), "{written:?}");
    let text = fs::read_to_string(root.join("docs/a.md")).unwrap();
    for part in [
        "1.48 (1.46 to 1.50)<!--",
        "245<!--",
        "n = 41<!--",
        "3 ± 1<!--",
        "load 1.2<!--",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for (wrong, problem) in [
        (
            page.replace("; base=parsed, looked up", ""),
            "these labels match rows with different `base`",
        ),
        (
            page.replace("name=data", "name=dat"),
            "no row of the record has these labels",
        ),
        (
            page.replace("bench: load", "bench: loads"),
            "no number in column `loads`",
        ),
    ] {
        fs::write(root.join("docs/a.md"), wrong).unwrap();
        let outcome = repository.reproduce(&["--docs"]);
        assert!(outcome.stdout.contains(problem), "{problem}: {outcome:?}");
    }
}
