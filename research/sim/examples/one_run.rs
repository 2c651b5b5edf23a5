//! Measures one run of one case of an experiment, and prints the hash of its record.
//!
//! `cargo run --release -p uc-sim --example one_run FILE CASE [POINT [THREADS [SEED]]]`
//!
//! POINT is the number of a point of the file's sweeps, from 0. One thread and seed 1 if not given.

use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use uc_experiment::Experiment;
use uc_sim::{Repetition, run_case};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("which file?")?;
    let case = arguments.next().ok_or("which case?")?;
    let point: usize = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let threads = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let seed = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let point = Experiment::load(file)?.points()?.swap_remove(point);
    let experiment = point.experiment;
    let case = experiment.case(&case).ok_or("no such case")?;
    let repetition = Repetition {
        seed,
        threads,
        ..Repetition::default()
    };
    let started = Instant::now();
    let record = run_case(
        &experiment,
        case,
        repetition,
        &|_| (),
        &AtomicBool::new(false),
    )?;
    let wall_s = started.elapsed().as_secs_f64();
    let bytes = serde_json::to_vec(&record)?;
    let packets: u64 = record.links.values().map(|link| link.packets).sum();
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    println!(
        "{threads} threads: {wall_s:.3} s, {packets} packet-hops, record {:016x}",
        hasher.finish()
    );
    Ok(())
}
