//! Every figure and table, simulated: no expectation of its file fails, and the numbers are those of
//! `docs/simulated.txt`. A simulated run depends on nothing but file and seed, so they are the same
//! everywhere.
//!
//! A test run makes about half of the figures, which a seed draws; `UC_FIGURES=all` makes all of them.

mod common;

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::SystemTime;

use uc_experiment::{Arm, Experiment};
use uc_words::fnv::fnv1a;

/// Folders with experiments: one for each paper.
const FOLDERS: [&str; 6] = [
    "experiments/vcc",
    "experiments/acdc",
    "experiments/ctrltcp",
    "experiments/delay",
    "experiments/hwatch",
    "experiments/pvtcp",
];
/// Maximum number of expectations that stay undecided at their files' limits of repetitions. It may
/// only fall.
const UNDECIDED_MAX: usize = 23;
/// Beginning of a line that names such an expectation.
const UNDECIDED: &str = "undecided: ";
const NUMBERS: &str = "docs/simulated.txt";
const HEAD: &str = "What `uc run FILE --on sim` prints for each experiment of a figure. A test holds these numbers; to
accept others on purpose: UC_ACCEPT=1 cargo test -p uc-cli --test figures
";
const SEED: &str = "UC_SEED";
const ALL: &str = "UC_FIGURES";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the experiments of `folder` that can be simulated, sorted by name.
fn files(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut paths: Vec<String> = names.map(|name| format!("{folder}/{name}")).collect();
    // Figure 4 precedes figure 10.
    paths.sort_by_key(|path| (path.len(), path.clone()));
    paths.retain(|path| is_simulated(path));
    paths
}

fn is_simulated(path: &str) -> bool {
    let experiment = Experiment::load(root().join(path)).unwrap();
    experiment.suits(Arm::Sim).is_ok()
}

/// Returns the table that a run prints, without what differs between machines and commits.
fn table(file: &str) -> String {
    let out = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_uc"))
        .current_dir(root())
        .args(["run", file, "--on", "sim", "--jobs", "1", "--out"])
        .arg(out.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let problems = String::from_utf8_lossy(&output.stderr);
    let undecided = text.lines().any(|line| line.starts_with(UNDECIDED));
    let expected = Some(i32::from(undecided));
    assert!(
        output.status.code() == expected && !text.contains("  FAILS"),
        "repeat with: uc run {file} --on sim\n{text}{problems}"
    );
    // The paragraph with the commit, which may have several lines.
    let mut circumstances = false;
    let of_every_machine = |line: &&str| {
        circumstances = line.starts_with("simulated (") || circumstances && !line.is_empty();
        !circumstances && !line.starts_with("Report:")
    };
    let lines: Vec<&str> = text
        .lines()
        .filter(of_every_machine)
        .map(str::trim_end)
        .collect();
    format!("\n{file}\n{}\n", lines.join("\n").trim_end())
}

/// The tables of these files, as many at a time as there are processors: of most files the last
/// runs would leave one idle.
fn tables(files: &[String]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(number) else {
                return done;
            };
            done.push((number, table(file)));
        }
    };
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let mut tables: Vec<(usize, String)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    tables.sort();
    tables.into_iter().map(|(_, table)| table).collect()
}

/// Returns the seed that draws figures, a new one unless the environment has one.
fn seed() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    match std::env::var(SEED) {
        Ok(text) => text.parse().expect("UC_SEED is a decimal number"),
        Err(_) => since.as_micros() as u64,
    }
}

/// Returns whether a seed draws this file: about half of the files.
fn is_drawn(file: &str, seed: u64) -> bool {
    let hash = fnv1a(format!("{seed} {file}").as_bytes());
    hash.count_ones().is_multiple_of(2)
}

/// Returns the tables of a record by their files, in its order.
fn by_file(record: &str) -> Vec<(&str, &str)> {
    let body = record.strip_prefix(HEAD).expect("the record's head");
    let heads: Vec<usize> = body
        .match_indices("\nexperiments/")
        .map(|(at, _)| at)
        .collect();
    let ends = heads.iter().skip(1).copied().chain([body.len()]);
    let tables = heads.iter().zip(ends).map(|(at, end)| &body[*at..end]);
    let named = tables.map(|table| (table.lines().nth(1).unwrap(), table));
    named.collect()
}

/// Asserts that the record has a table of each of these files, and few undecided expectations.
fn check_record(record: &str, files: &[String]) {
    let recorded: Vec<&str> = by_file(record).iter().map(|(file, _)| *file).collect();
    assert_eq!(recorded, files, "{NUMBERS}");
    let undecided: Vec<&str> = record
        .lines()
        .filter(|line| line.starts_with(UNDECIDED))
        .collect();
    let number = undecided.len();
    assert!(
        number <= UNDECIDED_MAX,
        "{number} are undecided: {undecided:#?}"
    );
}

#[test]
fn no_simulated_figure_fails_its_file_and_all_are_as_the_docs_say() {
    let path = root().join(NUMBERS);
    let mut files: Vec<String> = FOLDERS.into_iter().flat_map(files).collect();
    if std::env::var_os("UC_ACCEPT").is_some() {
        fs::write(&path, HEAD.to_owned() + &tables(&files).concat()).unwrap();
        return check_record(&fs::read_to_string(&path).unwrap(), &files);
    }
    let record = fs::read_to_string(&path).unwrap();
    check_record(&record, &files);
    let repeat = if std::env::var_os(ALL).is_some() {
        format!("{ALL}=all")
    } else {
        let (seed, all) = (seed(), files.len());
        files.retain(|file| is_drawn(file, seed));
        println!("{SEED}={seed} draws {} of {all} figures", files.len());
        format!("{SEED}={seed}")
    };
    let recorded = by_file(&record);
    for (file, table) in files.iter().zip(tables(&files)) {
        let (_, expected) = recorded.iter().find(|(other, _)| other == file).unwrap();
        assert_eq!(
            table.lines().collect::<Vec<_>>(),
            expected.lines().collect::<Vec<_>>(),
            "{NUMBERS}, {file}: repeat with: {repeat} cargo test -p uc-cli --test figures; to accept it: UC_ACCEPT=1"
        );
    }
}

#[test]
fn a_seed_draws_about_half_of_the_figures_and_any_figure_comes() {
    let files: Vec<String> = FOLDERS.into_iter().flat_map(files).collect();
    let drawn = |seed| files.iter().filter(|file| is_drawn(file, seed)).count();
    let mean = (0..100).map(drawn).sum::<usize>() / 100;
    let half = files.len() / 2;
    assert!(mean.abs_diff(half) <= half / 5, "{mean} of {}", files.len());
    let never = files
        .iter()
        .find(|file| !(0..100).any(|seed| is_drawn(file, seed)));
    assert_eq!(never, None);
}
