//! Records of real kernels: sittings add up, an interrupted one leaves what it made, and runs with new
//! seeds are compared by verdict and interval.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use uc_live::command::outcome;

use crate::common::{TINY, UC_BENCH, live};

/// A timeout that only a hang reaches on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn repository(experiment: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("experiments/t")).unwrap();
    fs::write(folder.path().join("experiments/t/tiny.toml"), experiment).unwrap();
    folder
}

fn reproduce(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(UC_BENCH);
    command
        .current_dir(folder.path())
        .args(["reproduce", "t/tiny", "--on", "live"])
        .args(arguments);
    command
}

fn record(folder: &TempDir) -> PathBuf {
    folder.path().join("results/live/t/tiny.jsonl")
}

/// Returns the number of values in each sitting of the record.
fn values_by_sitting(folder: &TempDir) -> Vec<usize> {
    let text = fs::read_to_string(record(folder)).unwrap_or_default();
    let mut found = Vec::new();
    for line in text.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        if object.get("sitting").is_some() {
            found.push(0);
        }
        let values = object["row"]["values"].as_array();
        let made = values.map_or(0, |values| {
            values.iter().filter(|value| !value.is_null()).count()
        });
        if let Some(last) = found.last_mut() {
            *last += made;
        }
    }
    found
}

/// Returns the record with this number in place of every value.
fn with_values(record: &str, number: f64) -> String {
    let mut text = String::new();
    for line in record.lines() {
        let mut object: serde_json::Value = serde_json::from_str(line).unwrap();
        let row = object.get_mut("row").and_then(|row| row.get_mut("values"));
        match row.and_then(|values| values.as_array_mut()) {
            Some(values) => {
                values.fill(number.into());
                text.push_str(&object.to_string());
            }
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// Ends the command as Ctrl-C does once the record has a value.
fn interrupt(mut child: Child, folder: &TempDir) {
    let begun = Instant::now();
    while values_by_sitting(folder).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "no run has ended");
        sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn live_a_record_goes_on_where_it_was_interrupted_and_is_compared() {
    if !live() {
        return;
    }
    // No run has a drop, so that the intervals of two commands are equal.
    let drops = "measure = { kind = \"drops\", case = \"only\", of = \"virtual\" }\nat_most = 0";
    let (setting, _) = TINY.split_once("measure = ").unwrap();
    let three = "\nrepeat = 3\nrepeat_max = 3\n[network";
    let setting = setting.replacen("\n[network", three, 1);
    let folder = repository(&format!("{setting}{drops}\n"));
    let one_at_a_time = reproduce(&folder, &["--accept", "--jobs", "1"])
        .spawn()
        .unwrap();
    interrupt(one_at_a_time, &folder);
    let first = values_by_sitting(&folder);
    let [made] = first[..] else {
        panic!("{first:?}")
    };
    let begun = fs::read_to_string(record(&folder)).unwrap();

    let added = outcome(reproduce(&folder, &["--accept"]));
    assert_eq!(added.status, Some(0), "{added:?}");
    assert!(
        added.stdout.starts_with("t/tiny live: complete, "),
        "{added:?}"
    );
    let whole = fs::read_to_string(record(&folder)).unwrap();
    assert!(
        whole.starts_with(&begun),
        "the first sitting is as it was:\n{begun}\n{whole}"
    );
    let sittings = values_by_sitting(&folder);
    assert_eq!(sittings.len(), 2, "{sittings:?}");
    assert_eq!(sittings[0], made);
    for word in [
        "\"kernel\":",
        "\"machine\":",
        "\"load\":[",
        "\"begun_unix_s\":",
    ] {
        assert_eq!(whole.matches(word).count(), 2, "{word}: {whole}");
    }
    // Nothing is lacking, so nothing is added.
    let again = outcome(reproduce(&folder, &["--accept"]));
    assert!(
        again.stdout.starts_with("t/tiny live: complete, "),
        "{again:?}"
    );
    assert_eq!(fs::read_to_string(record(&folder)).unwrap(), whole);

    let compared = outcome(reproduce(&folder, &[]));
    assert_eq!(compared.status, Some(0), "{compared:?}");
    assert!(
        compared.stdout.starts_with("t/tiny live: reproduced, "),
        "{compared:?}"
    );
    // A record that says the opposite is not reproduced.
    fs::write(record(&folder), with_values(&whole, 0.1)).unwrap();
    let differs = outcome(reproduce(&folder, &[]));
    assert_eq!(differs.status, Some(1), "{differs:?}");
    let line = "t/tiny live: 1 of 1 verdicts differ; first: it uses the link: fails, now holds";
    assert!(differs.stdout.starts_with(line), "{differs:?}");
}
