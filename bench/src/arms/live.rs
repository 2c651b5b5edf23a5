//! Runs a task on real kernels, in namespaces or VMs.

use std::time::Duration;

use anyhow::{Context, Result};
use uc_batch::{Task, cancelled};
use uc_experiment::{Nanos, RunRecord};
use uc_lab::vm::Machines;
use uc_lab::{LabError, LivePorts, Namespaces, Platform, Progress, Repetition, run_case_in};

use super::watch::Watch;

/// Runs the task with network namespaces as guests.
pub(super) fn run(task: &Task<'_>, watch: &Watch<'_>) -> Result<RunRecord> {
    run_on(task, watch, &mut Namespaces)
}

/// Runs the task with VMs as guests.
pub(super) fn run_with_machines(task: &Task<'_>, watch: &Watch<'_>) -> Result<RunRecord> {
    let mut machines = Machines::new(watch.templates).apart_for(task.case);
    run_on(task, watch, &mut machines)
}

fn run_on(task: &Task<'_>, watch: &Watch<'_>, platform: &mut dyn Platform) -> Result<RunRecord> {
    let mut ports = LivePorts::default();
    let progress = |progress: Progress| {
        if let Progress::Running { elapsed, .. } = progress {
            (watch.progress)(nanos(elapsed / task.experiment.slower));
        }
    };
    let repetition = Repetition {
        run: task.run,
        seed: task.seed,
    };
    let record = run_case_in(
        platform,
        task.experiment,
        task.case,
        repetition,
        &mut ports,
        &progress,
        watch.cancel,
    );
    match record {
        Err(LabError::Cancelled) => Err(cancelled()),
        other => other.with_context(|| task.name()),
    }
}

fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
