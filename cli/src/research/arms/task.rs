//! What every backend is given: a task, and its connection to the caller.

use std::sync::atomic::AtomicBool;

use anyhow::anyhow;
use indicatif::ProgressBar;
use uc_experiment::{Case, Experiment, Nanos};
use uc_vm::Templates;

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
    pub(super) fn name(&self) -> String {
        let (experiment, case) = (&self.experiment.name, &self.case.name);
        format!("{experiment}, case {case}, seed {}", self.seed)
    }
}

/// The connection of a run to its caller: progress and cancellation.
pub struct Watch<'a> {
    /// Called with the time of the run that has passed.
    pub progress: &'a dyn Fn(Nanos),
    /// Set to cancel all runs.
    pub cancel: &'a AtomicBool,
    /// The progress bar, by which messages for people are printed.
    pub bar: &'a ProgressBar,
    /// Images from which VMs are copied; shared by all runs.
    pub templates: &'a Templates,
}

/// Returns the error of a cancelled task.
pub(super) fn cancelled() -> anyhow::Error {
    anyhow!("cancelled; everything was removed")
}
