//! Simulated records, judged again by runs with seeds that nobody chose: a verdict that only the kept seeds
//! give is none.
//!
//! A test run judges a tenth of the records, or as many of it as fit into a minute of one processor. A seed draws
//! them, short ones more often; `uc-bench reproduce --all --seed N` judges all.

use std::process::Command;

use uc_live::command::outcome;

use crate::common::UC_BENCH;
use crate::draw::{SEED, root, seed, tenth};

#[test]
fn a_drawn_tenth_of_the_records_stands_with_other_seeds() {
    let seed = seed();
    let (ids, seed) = (tenth(seed), seed.to_string());
    let again = format!("uc-bench reproduce {} --seed {seed}", ids.join(" "));
    println!("{SEED}={seed} draws: {again}");
    let mut command = Command::new(UC_BENCH);
    command
        .current_dir(root())
        .arg("reproduce")
        .args(&ids)
        .args(["--seed", &seed, "--jobs", "1", "--minutes", "1"]);
    let outcome = outcome(command);
    print!("{}", outcome.stdout);
    assert_eq!(
        outcome.status,
        Some(0),
        "repeat with: {again}\n{}{}",
        outcome.stdout,
        outcome.stderr
    );
}
