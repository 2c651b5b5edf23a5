//! A run in the simulator.

use anyhow::{Context, Result};
use uc_experiment::{Nanos, RunRecord};
use uc_sim::{Repetition, SimError, run_case};

use super::{Task, Watch, cancelled};

pub(super) fn run(task: &Task<'_>, watch: &Watch<'_>) -> Result<RunRecord> {
    let repetition = Repetition {
        run: task.run,
        seed: task.seed,
    };
    let record = run_case(
        task.experiment,
        task.case,
        repetition,
        &|elapsed| (watch.progress)(Nanos(elapsed.0)),
        watch.cancel,
    );
    match record {
        Err(SimError::Cancelled) => Err(cancelled()),
        other => other.with_context(|| task.name()),
    }
}
