//! Every experiment that can be simulated, made again: each value of each repetition is that of its
//! record in `results/sim`. A simulated run depends on nothing but file and seed, so the values are the
//! same everywhere.
//!
//! A test run makes about a tenth of the experiments, which a seed draws; `UC_FIGURES=all` makes all of them.

use std::num::NonZero;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use uc_live::command::{Outcome, outcome};

use crate::common::UC_BENCH;
use crate::draw::{SEED, ids, root, seed, tenth};

const ALL: &str = "UC_FIGURES";

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

#[test]
fn every_drawn_simulated_record_is_reproduced() {
    let (ids, repeat) = if std::env::var_os(ALL).is_some() {
        (ids(), format!("{ALL}=all"))
    } else {
        let seed = seed();
        (tenth(seed), format!("{SEED}={seed}"))
    };
    println!("{repeat}: {} experiments", ids.len());
    let found = differences(&ids);
    assert!(
        found.is_empty(),
        "repeat with: {repeat} cargo test -p uc-bench --test all figures::; to accept one: uc-bench reproduce ID --accept\n{}",
        found.concat()
    );
}
