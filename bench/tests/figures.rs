//! Every experiment that can be simulated, made again: each value of each repetition is that of its
//! record in `results/sim`. A simulated run depends on nothing but file and seed, so the values are the
//! same everywhere.
//!
//! A test run makes about a tenth of the experiments, which a seed draws; `UC_FIGURES=all` makes all of them.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::SystemTime;

use uc_bench::records;
use uc_experiment::Arm;
use uc_live::command::{Outcome, outcome};
use uc_words::fnv::fnv1a;

use crate::common::UC_BENCH;

/// The environment variable whose seed draws experiments.
pub const SEED: &str = "UC_SEED";
const ALL: &str = "UC_FIGURES";

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the names of all simulated records.
pub fn ids() -> Vec<String> {
    records::ids(&root(), Arm::Sim).unwrap()
}

fn reproduce(id: &str) -> Outcome {
    let mut command = Command::new(UC_BENCH);
    command
        .current_dir(root())
        .args(["reproduce", id, "--on", "sim", "--jobs", "1"]);
    outcome(command)
}

/// Makes these experiments, as many at a time as there are processors: of most files the last runs would
/// leave one idle. Returns what does not reproduce its record.
fn differences(ids: &[String]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = reproduce(id);
            let made = outcome.status == Some(0) && outcome.stdout.contains(": reproduced, ");
            print!("{}", outcome.stdout);
            if !made {
                found.push(format!("{}{}", outcome.stdout, outcome.stderr));
            }
        }
        found
    };
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let found = workers.into_iter().map(|worker| worker.join().unwrap());
        found.flatten().collect()
    })
}

/// Returns the seed that draws experiments, a new one unless the environment has one.
pub fn seed() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    match std::env::var(SEED) {
        Ok(text) => text.parse().expect("UC_SEED is a decimal number"),
        Err(_) => since.as_micros() as u64,
    }
}

/// Returns whether a seed draws this experiment: about a tenth of them.
fn is_drawn(id: &str, seed: u64) -> bool {
    let hash = fnv1a(format!("{seed} {id}").as_bytes());
    hash.count_ones().is_multiple_of(10)
}

#[test]
fn every_drawn_simulated_record_is_reproduced() {
    let mut ids = ids();
    let repeat = if std::env::var_os(ALL).is_some() {
        format!("{ALL}=all")
    } else {
        let (seed, all) = (seed(), ids.len());
        ids.retain(|id| is_drawn(id, seed));
        println!("{SEED}={seed} draws {} of {all} experiments", ids.len());
        format!("{SEED}={seed}")
    };
    let found = differences(&ids);
    assert!(
        found.is_empty(),
        "repeat with: {repeat} cargo test -p uc-bench --test all figures::; to accept one: uc-bench reproduce ID --accept\n{}",
        found.concat()
    );
}

#[test]
fn a_seed_draws_about_a_tenth_of_the_experiments_and_any_comes() {
    let ids = ids();
    let drawn = |seed| ids.iter().filter(|id| is_drawn(id, seed)).count();
    let mean = (0..100).map(drawn).sum::<usize>() / 100;
    let tenth = ids.len() / 10;
    assert!(mean.abs_diff(tenth) <= tenth / 5, "{mean} of {}", ids.len());
    let never = ids
        .iter()
        .find(|id| !(0..100).any(|seed| is_drawn(id, seed)));
    assert_eq!(never, None);
}
