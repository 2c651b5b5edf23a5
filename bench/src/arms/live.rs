//! Runs a task on real kernels, in namespaces or VMs, and repeats it if this machine delayed it.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use uc_batch::{Task, cancelled};
use uc_experiment::{Nanos, RunRecord};
use uc_lab::vm::Machines;
use uc_lab::{LabError, LivePorts, Namespaces, Platform, Progress, Repetition, run_case_in};

use super::watch::Watch;

/// Maximum delay of the emulated network before its packets' times mean nothing: about the
/// round-trip time of the slowest experiments. The network's clock decides, never the outcome.
const DISTURBED_NS: u64 = 50_000_000;
/// Maximum number of disturbed runs before the batch fails.
const TRIES: u32 = 4;

/// Repeats a run until one is undisturbed. Another program, or a hypervisor that takes the CPU
/// away, can stall the emulated network for seconds; such a run says nothing about TCP.
pub(super) fn run(task: &Task<'_>, watch: &Watch<'_>) -> Result<RunRecord> {
    run_in(task, watch, || Namespaces)
}

/// Repeats a run with VMs as guests until one is undisturbed.
pub(super) fn run_with_machines(task: &Task<'_>, watch: &Watch<'_>) -> Result<RunRecord> {
    run_in(task, watch, || {
        Machines::new(watch.templates).apart_for(task.case)
    })
}

fn run_in<H: Platform>(
    task: &Task<'_>,
    watch: &Watch<'_>,
    platform: impl Fn() -> H,
) -> Result<RunRecord> {
    for _ in 0..TRIES {
        let record = run_once(task, watch, &mut platform())?;
        let counters = &record.counters;
        let late_ns = counters.get("wire_late_max_ns").copied().unwrap_or(0);
        if late_ns <= DISTURBED_NS {
            return Ok(record);
        }
        let (case, run) = (&task.case.name, task.run);
        watch.bar.suspend(|| {
            errln!(
                "uc-bench: case {case}, run {run}: the emulated network was held up for {} ms; again",
                late_ns / 1_000_000
            );
        });
    }
    bail!(
        "{}: {TRIES} times in a row this machine held the emulated network up; try when it is \
         quieter, or with fewer --jobs",
        task.experiment.name
    )
}

fn run_once(task: &Task<'_>, watch: &Watch<'_>, platform: &mut dyn Platform) -> Result<RunRecord> {
    let mut ports = LivePorts::default();
    let progress = |progress: Progress| {
        if let Progress::Running { elapsed, .. } = progress {
            (watch.progress)(nanos(elapsed));
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
