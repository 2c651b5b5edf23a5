//! Every experiment in the repository can be read and is valid.

use std::path::{Path, PathBuf};

use uc_experiment::{Arm, Experiment};

fn experiment_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("experiments/ is there") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            experiment_files(&path, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            found.push(path);
        }
    }
}

fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut files = Vec::new();
    experiment_files(&root, &mut files);
    files
}

fn committed() -> Vec<Experiment> {
    let files = files();
    let load = |file| Experiment::load(file).unwrap_or_else(|error| panic!("{error}"));
    files.iter().map(load).collect()
}

#[test]
fn every_committed_experiment_loads_and_validates_under_the_name_of_its_path() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let files = files();
    assert!(files.len() >= 4, "found only {files:?}");
    for file in files {
        let experiment = Experiment::load(&file).unwrap_or_else(|error| panic!("{error}"));
        experiment
            .validate()
            .unwrap_or_else(|error| panic!("{error}"));
        let path = file
            .strip_prefix(&root)
            .expect("under the root")
            .with_extension("");
        assert_eq!(Path::new(&experiment.name), path, "{}", file.display());
    }
}

#[test]
fn every_committed_expectation_states_where_its_bar_comes_from() {
    let mut lacking = Vec::new();
    for experiment in committed() {
        for expect in experiment.expects.iter().filter(|it| it.basis.is_none()) {
            lacking.push(format!("{}: {}", experiment.name, expect.name));
        }
    }
    assert!(lacking.is_empty(), "add `basis` to {lacking:#?}");
}

#[test]
fn every_committed_experiment_that_is_not_for_real_kernels_says_why() {
    for file in files() {
        let experiment = Experiment::load(&file).unwrap_or_else(|error| panic!("{error}"));
        let text = std::fs::read_to_string(&file).expect("readable");
        let arms = text.lines().find(|line| line.starts_with("arms"));
        let reason = arms.and_then(|line| line.split_once("# "));
        let says = reason.is_some_and(|(_, reason)| !reason.is_empty());
        let is_real = experiment.suits(Arm::Live).is_ok();
        assert!(
            is_real || says,
            "{}: add a comment to {arms:?}",
            file.display()
        );
    }
}

#[test]
fn committed_experiments_of_one_run_allow_more() {
    for experiment in committed() {
        let one = experiment.repeats_max(Arm::Sim) == 1 || experiment.repeats_max(Arm::Live) == 1;
        // The demo shows one run.
        assert!(!one || experiment.name == "demo", "{}", experiment.name);
    }
}

#[test]
fn an_experiment_written_and_read_again_is_equal() {
    for experiment in committed() {
        let mut changed = experiment.clone();
        // An override goes through the written form and back.
        changed
            .apply_set(&format!("repeat={}", experiment.repeat))
            .expect("applies");
        assert_eq!(changed.network, experiment.network);
        assert_eq!(changed.stacks, experiment.stacks);
        assert_eq!(changed.cases, experiment.cases);
        assert_eq!(changed.expects, experiment.expects);
        assert_eq!(changed.measured_ns(), experiment.measured_ns());
    }
}
