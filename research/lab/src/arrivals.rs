//! Application `web`: transfers that begin at random times, each on a connection of its own.

use uc_experiment::{Experiment, Guests, Sizes};
use uc_net::Nanos;

/// The arrivals of a group's flows.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrivals {
    /// Mean time between two arrivals at one flow.
    pub mean_gap: Nanos,
    /// Payloads of the transfers.
    pub sizes: Sizes,
    /// End of the run.
    pub end: Nanos,
}

impl Arrivals {
    pub(crate) fn of(experiment: &Experiment, group: &Guests) -> Option<Self> {
        let (mean_gap, sizes) = group.web(&experiment.network)?;
        Some(Self {
            mean_gap,
            sizes: sizes.clone(),
            end: experiment.duration,
        })
    }
}
