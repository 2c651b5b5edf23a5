//! The backends of experiments: the simulator, real kernels, or VMs with kernels of their own.
//! Everything else is the same for all.

mod live;
mod vm;
mod watch;

use std::num::NonZero;

use anyhow::{Result, anyhow};
use uc_batch::{Task, sim};
use uc_experiment::{Arm, BitsPerSec, Experiment, Point, RunRecord};
use uc_lab::vm::Programs;

pub use watch::Watch;

/// Maximum number of concurrent runs on real kernels: more would delay one another's packets.
const LIVE_JOBS: u64 = 4;
/// Sum of the bottlenecks' rates of concurrent runs on real kernels. Two of `vcc/fig11` at 100 Mb/s give the
/// share that one alone gives, four give 0.07 less: the hosts' kernels have no time left.
const LIVE_RATE: BitsPerSec = BitsPerSec::from_mbit(200);
/// Number of concurrent runs with VMs: emulated CPUs leave no time for a second run.
const VM_JOBS: usize = 1;

/// Checks that this backend can run every case at every point, as far as that is known before a
/// run. What a real kernel can't do is known only when it is asked.
///
/// # Errors
/// The first case that it can't run, and why.
pub fn check(arm: Arm, points: &[Point]) -> Result<()> {
    match arm {
        Arm::Sim => sim::check(points),
        Arm::Live => Ok(()),
        Arm::Vm => vm::check(points),
    }
}

/// Returns the programs that VMs of these tasks have inside.
///
/// # Errors
/// If a program is needed and not found.
pub fn inside(arm: Arm, tasks: &[Task<'_>]) -> Result<Programs> {
    match arm {
        Arm::Vm => vm::inside(tasks.iter().map(|task| task.experiment)),
        Arm::Sim | Arm::Live => vm::inside([]),
    }
}

/// Runs the task once on this backend.
///
/// # Errors
/// The error with the task's name; or that it was cancelled.
pub fn run(arm: Arm, task: &Task<'_>, watch: &Watch<'_>) -> Result<RunRecord> {
    let record = match arm {
        Arm::Sim => simulate(task, watch),
        Arm::Live => live::run(task, watch),
        Arm::Vm => live::run_with_machines(task, watch),
    }?;
    Ok(RunRecord {
        point: task.point,
        ..record
    })
}

/// Runs the task in the simulator, and captures its packets if that is wanted.
fn simulate(task: &Task<'_>, watch: &Watch<'_>) -> Result<RunRecord> {
    let Some(file) = &watch.capture else {
        return sim::run(task, watch.progress, watch.cancel);
    };
    let (record, captured) = sim::run_captured(task, watch.progress, watch.cancel, file)?;
    if captured.left_out > 0 {
        let (file, packets) = (file.display(), captured.packets);
        watch.bar.suspend(|| {
            errln!(
                "uc-bench: {file}: {packets} packets, and {} more were left out",
                captured.left_out
            );
        });
    }
    Ok(record)
}

/// Returns how many runs of these points go on at once by default.
pub fn default_jobs(arm: Arm, points: &[Point]) -> usize {
    match arm {
        Arm::Sim => std::thread::available_parallelism().map_or(1, NonZero::get),
        Arm::Live => {
            let rate = |of: &Experiment| of.network.rate.0 / u64::from(of.slower);
            let rates = points.iter().map(|point| rate(&point.experiment));
            let rate = rates.max().unwrap_or(1).max(1);
            (LIVE_RATE.0 / rate).clamp(1, LIVE_JOBS) as usize
        }
        Arm::Vm => VM_JOBS,
    }
}

/// Returns the default backend of an experiment: real kernels for root, unless they need slow motion for
/// it, the simulator for other users, and another one if the experiment needs it.
///
/// # Errors
/// Why the first choice can't run it, if none can.
pub fn default_arm(experiment: &Experiment) -> Result<Arm> {
    let choices = if is_root() && experiment.slower == 1 {
        [Arm::Live, Arm::Sim, Arm::Vm]
    } else {
        [Arm::Sim, Arm::Live, Arm::Vm]
    };
    let fitting = choices
        .into_iter()
        .find(|arm| experiment.suits(*arm).is_ok());
    match fitting {
        Some(arm) => Ok(arm),
        None => Err(experiment.suits(choices[0]).err().map_or_else(
            || anyhow!("{}: no arm can run it", experiment.name),
            anyhow::Error::from,
        )),
    }
}

/// Returns `true` if this process's effective user is root.
pub fn is_root() -> bool {
    // SAFETY: takes no argument, changes nothing, can't fail.
    unsafe { libc::geteuid() == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_runs_go_on_at_once_on_real_kernels_where_links_are_fast() {
        let text = include_str!("../tests/common/tiny.toml");
        let jobs = |rate: &str| {
            let mut experiment = Experiment::from_str("tiny", text).unwrap();
            experiment
                .apply_set(&format!("network.rate={rate}"))
                .unwrap();
            default_jobs(Arm::Live, &experiment.points().unwrap())
        };
        let rates = ["1Mbit", "50Mbit", "60Mbit", "100Mbit", "101Mbit", "10Gbit"];
        assert_eq!(rates.map(jobs), [4, 4, 3, 2, 1, 1]);
    }
}
