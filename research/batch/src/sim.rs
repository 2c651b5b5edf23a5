//! Runs a task in the simulator.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use uc_experiment::{Nanos, Point, RunRecord};
use uc_sim::{Captured, Repetition, SimError, run_case, run_case_captured};

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

/// Runs the task. `progress` gets the virtual time that has passed; setting `cancel` ends the run.
///
/// # Errors
/// The error with the task's name; or that the run was cancelled.
pub fn run(task: &Task<'_>, progress: &dyn Fn(Nanos), cancel: &AtomicBool) -> Result<RunRecord> {
    let record = run_case(
        task.experiment,
        task.case,
        repetition(task),
        progress,
        cancel,
    );
    named(task, record, |record| record)
}

/// Runs the task as [`run`] does, and writes the packets at its bottleneck into the file, which exists
/// only when it is complete.
///
/// # Errors
/// As [`run`], or the error with the file's path.
pub fn run_captured(
    task: &Task<'_>,
    progress: &dyn Fn(Nanos),
    cancel: &AtomicBool,
    file: &Path,
) -> Result<(RunRecord, Captured)> {
    let part = file.with_extension("part");
    let (experiment, case) = (task.experiment, task.case);
    let ran = run_case_captured(experiment, case, repetition(task), progress, cancel, &part);
    let moved = ran.and_then(|ran| {
        let failed = |error: std::io::Error| SimError::Capture {
            file: file.display().to_string(),
            why: error.to_string(),
        };
        fs::rename(&part, file).map(|()| ran).map_err(failed)
    });
    if moved.is_err() {
        let _not_made = fs::remove_file(&part);
    }
    named(task, moved, |(record, _)| record)
}

fn repetition(task: &Task<'_>) -> Repetition {
    Repetition {
        run: task.run,
        seed: task.seed,
        core: task.core,
    }
}

/// Adds the task's name to an error, or the point's number to the record that `of` finds in the result.
fn named<T>(
    task: &Task<'_>,
    made: Result<T, SimError>,
    of: impl FnOnce(&mut T) -> &mut RunRecord,
) -> Result<T> {
    match made {
        Err(SimError::Cancelled) => Err(cancelled()),
        other => {
            let mut made = other.with_context(|| task.name())?;
            of(&mut made).point = task.point;
            Ok(made)
        }
    }
}
