//! A run to make.

use anyhow::anyhow;
use uc_core::{COMPILED, Core};
use uc_experiment::{Case, Experiment, Point};

/// One run of one case at one point.
#[derive(Clone)]
pub struct Task<'a> {
    /// The experiment at the point of the run.
    pub experiment: &'a Experiment,
    /// Number of the point in the sweep.
    pub point: u32,
    /// The case that is run.
    pub case: &'a Case,
    /// Number of the repetition, from 0.
    pub run: u32,
    /// The seed of all random numbers of the run.
    pub seed: u64,
    /// The core that decides at the ports of a simulated run.
    pub core: Core,
}

impl Task<'_> {
    /// Returns the task's name for errors.
    pub fn name(&self) -> String {
        let (experiment, case) = (&self.experiment.name, &self.case.name);
        format!("{experiment}, case {case}, seed {}", self.seed)
    }
}

/// Returns the tasks repetition by repetition, so that a temporary disturbance of live runs affects all cases alike.
/// `runs_of` returns the numbers of a case's repetitions at a point; `seed` is the seed of repetition 0. The core of
/// the tasks is the repository's own.
pub fn tasks(
    points: &[Point],
    seed: u64,
    runs_of: impl Fn(u32, &str) -> Vec<u32>,
) -> Vec<Task<'_>> {
    let mut tasks = Vec::new();
    for point in points {
        for case in &point.experiment.cases {
            for run in runs_of(point.number, &case.name) {
                tasks.push(Task {
                    experiment: &point.experiment,
                    point: point.number,
                    case,
                    run,
                    seed: seed.wrapping_add(u64::from(run)),
                    core: COMPILED,
                });
            }
        }
    }
    // Stable: the points and cases of a repetition keep their order.
    tasks.sort_by_key(|task| task.run);
    tasks
}

/// Returns the error of a cancelled task.
pub fn cancelled() -> anyhow::Error {
    anyhow!("cancelled by a signal; everything that the runs had made was removed")
}
