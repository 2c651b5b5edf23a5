//! The connection of a run to its caller, which every backend gets.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use indicatif::ProgressBar;
use uc_experiment::Nanos;
use uc_lab::vm::Templates;

/// The connection of a run to its caller: progress and cancellation.
pub struct Watch<'a> {
    /// Is called during the run with the time of the run that has passed.
    pub progress: &'a dyn Fn(Nanos),
    /// Flag that is set to cancel all runs.
    pub cancel: &'a AtomicBool,
    /// The progress bar. Messages for people must be printed through it.
    pub bar: &'a ProgressBar,
    /// Images from which VMs are copied; all runs share them.
    pub templates: &'a Templates,
    /// File for the packets at the bottleneck, which only the simulator writes; `None`: none is written.
    pub capture: Option<PathBuf>,
}
