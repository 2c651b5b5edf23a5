//! Compares a run with what docs/simulator.md documents of the simulator and its peers. All of the
//! tables would take minutes in a test; these tests check one row each, `make bench` checks all.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::uc::{outcome, uc_unprivileged};
use serde_json::Value;

const ROW: &str = "10G10";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// Returns the cell of a row in the column whose header ends with "ours (`case`)".
fn documented(case: &str) -> String {
    let text = std::fs::read_to_string(root().join("docs/simulator.md")).unwrap();
    let head = format!("ours (`{case}`)");
    let mut lines = text.lines().skip_while(|line| !line.contains(&head));
    let column = cells(lines.next().expect("a table with this column"))
        .iter()
        .position(|cell| *cell == head)
        .unwrap();
    let row = lines
        .take_while(|line| line.starts_with('|'))
        .map(cells)
        .find(|row| row[0] == ROW)
        .expect("the row");
    row[column].to_owned()
}

/// Returns the means of these expectations over the file's repetitions.
fn measured(file: &str, case: &str, names: &[&str]) -> Vec<f64> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = uc_unprivileged();
    command.args(["run", file, "--on", "sim", "--json", "--case", case]);
    command.args(["--point", &format!("dumbbell={ROW}"), "--out"]);
    let out = folder.path().join("out");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).unwrap();
    command.arg(&out).current_dir(root());
    let outcome = outcome(command);
    assert_eq!(outcome.status, Some(0), "{outcome:?}");
    let object: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let results = object["results"].as_array().unwrap();
    let mean = |name: &&str| {
        let found = results.iter().find(|result| result["name"] == **name);
        found.unwrap_or_else(|| panic!("no {name}"))["ours"]
            .as_f64()
            .unwrap()
    };
    names.iter().map(mean).collect()
}

#[test]
fn new_reno_beside_its_peers_is_as_documented() {
    let names = [
        "by ACKs: packets lost",
        "by ACKs: mean queue in packets",
        "by ACKs: Jain's index",
    ];
    let ours = measured("experiments/crossval/droptail.toml", "acks", &names);
    let [lost, queue, jain] = ours[..] else {
        panic!("{ours:?}")
    };
    let found = format!("{:.3} / {queue:.1} / {jain:.3}", lost * 100.0);
    assert_eq!(found, documented("acks"));
}

#[test]
fn dctcp_beside_its_peers_is_as_documented() {
    let names = [
        "DCTCP: packets marked",
        "DCTCP: mean queue in packets",
        "DCTCP: the queue's 99th percentile",
        "DCTCP: Jain's index",
    ];
    let ours = measured("experiments/crossval/marking.toml", "dctcp", &names);
    let [marked, queue, p99, jain] = ours[..] else {
        panic!("{ours:?}")
    };
    let found = format!("{marked:.3} / {queue:.1} / {p99:.0} / {jain:.3}");
    assert_eq!(found, documented("dctcp"));
}
