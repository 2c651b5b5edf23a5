//! The backends of experiments: the simulator, real kernels in network namespaces, or VMs with kernels of their own.
//! All other code is the same for every backend.

mod live;
mod vm;
mod watch;

use std::num::NonZero;

use anyhow::{Result, anyhow};
use uc_batch::{Task, sim};
use uc_experiment::{Arm, BitsPerSec, Experiment, Point, RunRecord};
use uc_lab::vm::Programs;

pub use watch::Watch;

/// Maximum number of concurrent runs on real kernels. More runs would delay each other's packets.
const LIVE_JOBS: u64 = 4;
/// Maximum sum of the bottlenecks' rates of concurrent runs on real kernels. Two runs of `vcc/fig11` at 100 Mb/s
/// measure the share that a single run measures; four measure 0.07 less, because the kernels of the hosts get too
/// little CPU time.
const LIVE_RATE: BitsPerSec = BitsPerSec::from_mbit(200);
/// Number of concurrent runs with VMs: emulated CPUs leave no time for a second run.
const VM_JOBS: usize = 1;

/// Checks that this backend can run every case at every point, as far as this is known before a run. Only a run shows
/// what a real kernel can't do.
///
/// # Errors
/// The first case that the backend can't run, and why.
pub fn check(arm: Arm, points: &[Point]) -> Result<()> {
    match arm {
        Arm::Sim => sim::check(points),
        Arm::Live => Ok(()),
        Arm::Vm => vm::check(points),
    }
}

/// Returns the programs that the VMs of these tasks contain.
///
/// # Errors
/// A program is needed and not found.
pub fn inside(arm: Arm, tasks: &[Task<'_>]) -> Result<Programs> {
    match arm {
        Arm::Vm => vm::inside(tasks.iter().map(|task| task.experiment)),
        Arm::Sim | Arm::Live => vm::inside([]),
    }
}

/// Runs the task once on this backend.
///
/// # Errors
/// The error with the task's name, or that the run was cancelled.
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

/// Runs the task in the simulator. If `watch.capture` names a file, writes the run's packets into it.
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

/// Returns the default number of concurrent runs of these points.
pub fn default_jobs(arm: Arm, points: &[Point]) -> usize {
    match arm {
        Arm::Sim => std::thread::available_parallelism().map_or(1, NonZero::get),
        Arm::Live => {
            let rate = |of: &Experiment| {
                // Where hosts both send and receive, each has a bottleneck.
                let bottlenecks = of.network.topology.hosts().unwrap_or(1);
                of.network.rate.0 * u64::from(bottlenecks) / u64::from(of.slower)
            };
            let rates = points.iter().map(|point| rate(&point.experiment));
            let rate = rates.max().unwrap_or(1).max(1);
            (LIVE_RATE.0 / rate).clamp(1, LIVE_JOBS) as usize
        }
        Arm::Vm => VM_JOBS,
    }
}

/// Returns the default backend of an experiment: for root real kernels, unless they need slow motion for the
/// experiment; for other users the simulator. If the experiment does not allow that backend, returns one that it
/// allows.
///
/// # Errors
/// The experiment allows no backend; the error says why not the first choice.
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
            || {
                anyhow!(
                    "{}: no backend (sim, live, vm) can run this experiment",
                    experiment.name
                )
            },
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
        let switch = text.replacen(
            "[network]",
            "[network]\ntopology = { switch = { hosts = 4 } }",
            1,
        );
        let mut switch = Experiment::from_str("tiny", &switch).unwrap();
        switch.apply_set("network.rate=25Mbit").unwrap();
        assert_eq!(default_jobs(Arm::Live, &switch.points().unwrap()), 2);
    }
}
