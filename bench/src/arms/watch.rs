//! The connection of a run to its caller, which every backend is given.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use indicatif::ProgressBar;
use uc_experiment::Nanos;
use uc_lab::vm::Templates;

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
    /// File for the packets at the bottleneck; only the simulator writes it.
    pub capture: Option<PathBuf>,
}
