//! Runs a task in the simulator.

use anyhow::{Context, Result};
use uc_experiment::{Point, RunRecord};
use uc_sim::{Repetition, SimError, run_case};

use super::task::{Task, Watch, cancelled};

/// Prepares every case at every point without running it.
pub(super) fn check(points: &[Point]) -> Result<()> {
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

pub(super) fn run(task: &Task<'_>, watch: &Watch<'_>) -> Result<RunRecord> {
    let repetition = Repetition {
        run: task.run,
        seed: task.seed,
    };
    let record = run_case(
        task.experiment,
        task.case,
        repetition,
        watch.progress,
        watch.cancel,
    );
    match record {
        Err(SimError::Cancelled) => Err(cancelled()),
        other => other.with_context(|| task.name()),
    }
}
