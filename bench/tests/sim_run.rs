//! `uc-bench run --on sim` and `uc-bench demo` as an unprivileged user: the same command gives the same bytes,
//! sweeps have a row for every point, and Ctrl-C leaves nothing.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use uc_batch::RUNS;
use uc_batch::outputs::FILES;
use uc_live::command::{Outcome, assert_refusal, folder_with, names_in, outcome};

use crate::common::{TINY, unprivileged};

const AXES: &str = "[[sweep]]\nname = \"rate\"\nset = { \"network.rate\" = [\"5Mbit\", \"10Mbit\"] }\n\
     [[sweep]]\nname = \"guests\"\nset = { \"case.only.guests.virtual.count\" = [1, 2, 3] }\n";

fn run_in(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = unprivileged();
    command.current_dir(folder.path());
    command.args(["run", "t.toml"]).args(arguments);
    command
}

/// Returns the text of a file that a run has written.
fn left(folder: &TempDir, name: &str) -> String {
    std::fs::read_to_string(folder.path().join("out/t-tiny").join(name)).unwrap()
}

/// Returns the names of the files that a run leaves, sorted.
fn all_files() -> Vec<String> {
    let mut files: Vec<String> = FILES.map(String::from).into();
    files.push(RUNS.to_owned());
    files.sort();
    files
}

fn assert_done(outcome: &Outcome) {
    assert_eq!(outcome.status, Some(0), "{outcome:?}");
}

#[test]
fn equal_seeds_give_equal_bytes_of_every_file_and_other_seeds_others() {
    let arguments = ["--on", "sim", "--seed", "7", "--repeat", "2"];
    let swept = format!("{TINY}{AXES}");
    let (first, again) = (folder_with(&swept), folder_with(&swept));
    for folder in [&first, &again] {
        let outcome = outcome(run_in(folder, &arguments));
        assert_done(&outcome);
        assert_eq!(outcome.stderr, "");
        assert_eq!(names_in(&folder.path().join("out/t-tiny")), all_files());
    }
    for file in FILES {
        assert!(left(&first, file) == left(&again, file), "{file} differs");
    }
    let other = folder_with(&swept);
    assert_done(&outcome(run_in(
        &other,
        &["--on", "sim", "--seed", "8", "--repeat", "2"],
    )));
    assert!(left(&first, "records.json") != left(&other, "records.json"));
}

#[test]
fn the_number_of_jobs_does_not_change_results() {
    let swept = format!("{TINY}{AXES}");
    let run = |jobs: &str| {
        let folder = folder_with(&swept);
        let arguments = ["--on", "sim", "--repeat", "3", "--jobs", jobs];
        assert_done(&outcome(run_in(&folder, &arguments)));
        folder
    };
    let (one, many) = (run("1"), run("5"));
    for file in FILES {
        assert!(left(&one, file) == left(&many, file), "{file} differs");
    }
}

#[test]
fn a_sweep_has_a_row_for_every_point_and_point_chooses_among_them() {
    let folder = folder_with(&format!("{TINY}{AXES}"));
    let run = |arguments: &[&str]| -> (Value, Vec<String>) {
        let outcome = outcome(run_in(
            &folder,
            &[&["--on", "sim", "--json"], arguments].concat(),
        ));
        assert_done(&outcome);
        let object = serde_json::from_str(&outcome.stdout).expect("one JSON object");
        let lines = left(&folder, "verdicts.csv")
            .lines()
            .map(String::from)
            .collect();
        (object, lines)
    };
    let (object, lines) = run(&[]);
    assert_eq!(object["points"].as_array().map(Vec::len), Some(6));
    assert_eq!(object["results"].as_array().map(Vec::len), Some(6));
    assert_eq!(
        object["results"][5]["at"],
        serde_json::json!({"rate": "10Mbit", "guests": "3"})
    );
    assert!(
        lines[0].starts_with("name,at_rate,at_guests,"),
        "{}",
        lines[0]
    );
    assert_eq!(lines.len(), 7, "{lines:?}");
    // Each point has as many flows as guests.
    assert_eq!(
        left(&folder, "flows.csv").lines().count(),
        1 + 2 * (1 + 2 + 3)
    );

    let (object, lines) = run(&[
        "--point",
        "guests=3",
        "--point",
        "guests=1",
        "--point",
        "rate=5Mbit",
    ]);
    let points = serde_json::json!([
        {"rate": "5Mbit", "guests": "1"},
        {"rate": "5Mbit", "guests": "3"},
    ]);
    assert_eq!((&object["points"], lines.len()), (&points, 3));
    assert_eq!(left(&folder, "flows.csv").lines().count(), 1 + 1 + 3);
}

#[test]
fn without_root_and_on_the_simulator_is_used_and_reported() {
    let folder = folder_with(TINY);
    let told = outcome(run_in(&folder, &[]));
    assert_done(&told);
    assert!(
        told.stdout
            .contains("simulated (sim) · 1 run of every case"),
        "{told:?}"
    );
    assert!(
        told.stderr
            .starts_with("uc-bench: not root: t/tiny runs in the simulator"),
        "{told:?}"
    );
    assert!(left(&folder, "report.html").contains("simulated (sim)"));
    // Experiments that only real kernels can run are not simulated instead.
    let bbr = folder_with(&TINY.replace("\"reno\"", "\"bbr\""));
    let told = outcome(run_in(&bbr, &[]));
    assert_refusal(&told, &["CAP_NET_ADMIN is missing", "run as root"], "bbr");
    assert_eq!(names_in(bbr.path()), ["t.toml"]);
}

#[test]
fn a_negative_answer_is_status_1_with_all_files() {
    let folder = folder_with(&TINY.replace("at_least = 0.5", "at_most = 0.01"));
    let told = outcome(run_in(&folder, &["--on", "sim"]));
    assert_eq!(
        (told.status, told.stderr.as_str()),
        (Some(1), ""),
        "{told:?}"
    );
    assert!(told.stdout.contains("0 of 1 expectation holds"), "{told:?}");
    assert_eq!(names_in(&folder.path().join("out/t-tiny")), all_files());
}

#[test]
fn one_repetition_is_judged_by_its_value_and_more_are_made_where_undecided() {
    // Alone on its link a flow gets the same goodput at each seed, or nearly.
    let folder = folder_with(&TINY.replace("duration = ", "repeat_max = 4\nduration = "));
    let told = outcome(run_in(&folder, &["--on", "sim"]));
    assert_done(&told);
    assert!(
        told.stderr.contains("uc-bench: undecided so far: 1; "),
        "{told:?}"
    );
    assert!(told.stdout.contains(" runs of every case"), "{told:?}");
    let object: Value = serde_json::from_str(&left(&folder, "results.json")).unwrap();
    let result = &object["results"][0];
    assert_eq!(result["verdict"], "holds");
    assert!(result["n"].as_u64().is_some_and(|n| n >= 2), "{result}");
    assert!(result["interval"].is_array(), "{result}");
    // Exactly one on request, and its value is compared.
    let told = outcome(run_in(&folder, &["--on", "sim", "--repeat", "1", "--json"]));
    assert_eq!(
        (told.status, told.stderr.as_str()),
        (Some(0), ""),
        "{told:?}"
    );
    let object: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(object["results"][0]["n"], 1);
    assert!(object["results"][0]["interval"].is_null());
}

#[test]
fn expectations_undecided_at_the_limit_are_named_with_status_1() {
    let folder = folder_with(TINY);
    let three = ["--on", "sim", "--repeat", "3"];
    assert_done(&outcome(run_in(&folder, &three)));
    let object: Value = serde_json::from_str(&left(&folder, "results.json")).unwrap();
    // No interval of the same runs decides on which side of their mean they are.
    let mean = object["results"][0]["ours"].as_f64().unwrap();
    let folder = folder_with(&TINY.replace("at_least = 0.5", &format!("at_most = {mean}")));
    let told = outcome(run_in(&folder, &three));
    assert_eq!(
        (told.status, told.stderr.as_str()),
        (Some(1), ""),
        "{told:?}"
    );
    let remark = "undecided: it uses the link: 3 runs, 95 % interval";
    assert!(told.stdout.contains(remark), "{told:?}");
    let object: Value = serde_json::from_str(&left(&folder, "results.json")).unwrap();
    assert_eq!(object["results"][0]["verdict"], "undecided");
    assert_eq!(object["holds"], false);
}

#[test]
fn reasons_for_differences_pass_and_stale_ones_are_errors() {
    let reason = "basis = \"paper\"\ndiffers = \"another stack\"\n";
    let differs = TINY.replace("at_least = 0.5", &format!("{reason}at_most = 0.01"));
    let folder = folder_with(&differs);
    let told = outcome(run_in(&folder, &["--on", "sim"]));
    assert_done(&told);
    assert!(told.stdout.contains("1 differs"), "{told:?}");
    assert!(told.stdout.contains(": another stack"), "{told:?}");
    let object: Value = serde_json::from_str(&left(&folder, "results.json")).unwrap();
    let result = &object["results"][0];
    assert_eq!(
        (&result["verdict"], &result["holds"]),
        (&"differs".into(), &false.into())
    );
    assert_eq!(object["holds"], true);

    let stale = TINY.replace("at_least = 0.5", &format!("{reason}at_least = 0.5"));
    let told = outcome(run_in(&folder_with(&stale), &["--on", "sim"]));
    assert_eq!(told.status, Some(2), "{told:?}");
    assert!(
        told.stderr
            .contains("holds, and the file says why it differs"),
        "{told:?}"
    );
    assert!(told.stdout.contains("STALE"), "{told:?}");
}

#[test]
fn measure_that_cannot_be_computed_is_a_negative_answer_with_all_files() {
    let fct = "[[expect]]\nname = \"it is quick\"\nat_most = 1_000\n\
         measure = { kind = \"fct\", case = \"only\", of = \"virtual\", statistic = \"mean\" }\n";
    // The transfers are over, if they ever began, before the measurement.
    let guests = TINY.replace(
        "count = 1\n",
        "count = 1\napplication = { transfer = { size = \"1MB\" } }\n",
    );
    let text = format!("{guests}{fct}").replace("at_least = 0.5", "at_least = 0");
    let folder = folder_with(&text);
    let told = outcome(run_in(&folder, &["--on", "sim"]));
    assert_eq!(
        (told.status, told.stderr.as_str()),
        (Some(1), ""),
        "{told:?}"
    );
    assert!(told.stdout.contains("1 of 2 expectations hold"), "{told:?}");
    assert!(told.stdout.contains("can't be computed"), "{told:?}");
    assert_eq!(names_in(&folder.path().join("out/t-tiny")), all_files());
    let object: Value = serde_json::from_str(&left(&folder, "results.json")).unwrap();
    let [link, quick] = [&object["results"][0], &object["results"][1]];
    assert_eq!(
        (&link["holds"], &quick["holds"]),
        (&true.into(), &false.into())
    );
    assert!(quick["ours"].is_null(), "{quick}");
    let why = quick["why"].as_str().unwrap_or_default();
    assert!(why.contains("no transfer of group `virtual`"), "{quick}");
}

#[test]
fn the_demo_without_root_runs_in_the_simulator_and_reports_it() {
    let folder = folder_with("");
    let mut command = unprivileged();
    let told = outcome({
        command.current_dir(folder.path()).arg("demo");
        command
    });
    assert_done(&told);
    for part in [
        "SIMULATOR",
        "before: nothing",
        "after: the law ecn",
        "report.html",
    ] {
        assert!(told.stdout.contains(part), "no {part:?}: {told:?}");
    }
    let path = folder.path().join("out/demo/results.json");
    let object: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(
        (&object["arm"], &object["holds"]),
        (&"sim".into(), &true.into())
    );
}

/// Waits until the run has created its folder.
fn wait_for(folder: &Path) {
    let start = Instant::now();
    while !folder.exists() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "the run has begun"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn outcome_of(child: Child) -> Outcome {
    child.wait_with_output().unwrap().into()
}

#[test]
fn ctrl_c_and_sigterm_end_a_simulation_and_leave_nothing() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let folder = folder_with(&TINY.replace("duration = \"2s\"", "duration = \"1000000s\""));
        let child = run_in(&folder, &["--on", "sim"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for(&folder.path().join("out/t-tiny"));
        std::thread::sleep(Duration::from_millis(300));
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        assert_refusal(&outcome_of(child), &["cancelled"], signal.as_str());
        assert_eq!(names_in(folder.path()), ["t.toml"], "{signal}");
    }
}

#[test]
fn a_file_that_cannot_be_written_leaves_the_runs_and_none_of_the_others() {
    let folder = folder_with(TINY);
    // A folder in the place of the last file.
    let out = folder.path().join("out/t-tiny");
    std::fs::create_dir_all(out.join("records.json.part")).unwrap();
    std::fs::set_permissions(&out, Permissions::from_mode(0o777)).unwrap();
    let refused = outcome(run_in(&folder, &["--on", "sim"]));
    assert_refusal(&refused, &["records.json"], "records.json");
    assert_eq!(names_in(&out), ["records.json.part", RUNS]);
}
