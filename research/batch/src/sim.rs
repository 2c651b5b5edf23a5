//! Runs a task in the simulator.

use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use uc_experiment::{Nanos, Point, RunRecord};
use uc_sim::{Repetition, SimError, run_case};

use crate::task::{Task, cancelled};

/// Prepares every case at every point without running it.
///
/// # Errors
/// The first case that the simulator can't run, and why.
pub fn check(points: &[Point]) -> Result<()> {
    for point in points {
        let experiment = &point.experiment;
        for case in &experiment.cases {
            let name = || {
                let labels = point.labels.iter();
                let at: String = labels
                    .map(|(axis, label)| format!(", {axis} {label}"))
                    .collect();
                format!("{}, case {}{at}", experiment.name, case.name)
            };
            uc_sim::check(experiment, case).with_context(name)?;
        }
    }
    Ok(())
}

/// Runs the task. `progress` gets the time of the run that has passed; `cancel` ends it.
///
/// # Errors
/// The error with the task's name; or that it was cancelled.
pub fn run(task: &Task<'_>, progress: &dyn Fn(Nanos), cancel: &AtomicBool) -> Result<RunRecord> {
    let repetition = Repetition {
        run: task.run,
        seed: task.seed,
    };
    let record = run_case(task.experiment, task.case, repetition, progress, cancel);
    match record {
        Err(SimError::Cancelled) => Err(cancelled()),
        other => {
            let record = other.with_context(|| task.name())?;
            Ok(RunRecord {
                point: task.point,
                ..record
            })
        }
    }
}
