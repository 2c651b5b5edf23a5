//! A run to make.

use anyhow::anyhow;
use uc_core::{COMPILED, Core};
use uc_experiment::{Case, Experiment, Point};

/// One run of one case at one point.
#[derive(Clone)]
pub struct Task<'a> {
    /// The experiment at this point.
    pub experiment: &'a Experiment,
    /// The point's number.
    pub point: u32,
    /// The case to run.
    pub case: &'a Case,
    /// Which repetition, from 0.
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

/// Returns the tasks repetition by repetition, so that a temporary disturbance of a live batch
/// affects all cases alike. `runs_of` names the repetitions of a point and a case; `seed` is that of
/// repetition 0. The core is the tree's.
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
    anyhow!("cancelled; everything was removed")
}
