//! A run to make.

use anyhow::anyhow;
use uc_experiment::{Case, Experiment};

/// One run of one case at one point.
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
}

impl Task<'_> {
    /// Returns the task's name for errors.
    pub fn name(&self) -> String {
        let (experiment, case) = (&self.experiment.name, &self.case.name);
        format!("{experiment}, case {case}, seed {}", self.seed)
    }
}

/// Returns the error of a cancelled task.
pub fn cancelled() -> anyhow::Error {
    anyhow!("cancelled; everything was removed")
}
