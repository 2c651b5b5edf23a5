//! The running flows of a case, on whatever platform their guests run.

use std::collections::BTreeMap;

use uc_experiment::{Completion, FlowSample};
use uc_net::Nanos;

use crate::error::LabError;
use crate::flow::FiveTuple;

/// A check whether the run is to go on; called about every 20 ms while something is waited for. An
/// error ends the run.
pub type GoOn<'a> = &'a dyn Fn() -> Result<(), LabError>;

/// The running flows of a case. Dropping it ends them.
pub trait Load {
    /// Returns the flows, in the order of the record.
    fn flows(&self) -> Vec<Running>;

    /// Waits until every flow is connected that starts before the run's clock, and returns the
    /// number of retransmitted SYNs. Flows send as soon as they are connected.
    ///
    /// # Errors
    /// The guest that could not connect, or the error of `go_on`.
    fn wait_connected(&mut self, go_on: GoOn<'_>) -> Result<u64, LabError>;

    /// Starts the flows that begin with the run's clock, which started at `started`.
    ///
    /// # Errors
    /// The guest whose flow could not be started.
    fn begin(&mut self, started: Nanos) -> Result<(), LabError>;

    /// Checks that no flow has failed.
    ///
    /// # Errors
    /// The first failure of a flow.
    fn check(&mut self) -> Result<(), LabError>;

    /// Returns the current state of every flow, in the order of the record.
    ///
    /// # Errors
    /// The guest whose flow could not be read.
    fn sample(&mut self) -> Result<Vec<Sighting>, LabError>;

    /// Returns the guests' counters of the whole run, the retransmission timeouts of each flow where
    /// they are known, and its transfers.
    ///
    /// # Errors
    /// The guest that could not be read.
    fn finish(&mut self) -> Result<Counted, LabError>;
}

/// A running flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Index of the flow's guest in the plan.
    pub guest: usize,
    /// Name of the flow's group.
    pub group: String,
    /// Index of the flow in its group, from 0.
    pub index: u32,
    /// Connection in the guest's direction.
    pub tuple: FiveTuple,
}

/// One flow at one time.
#[derive(Debug, Clone, Copy)]
pub struct Sighting {
    /// Time of the sample.
    pub at: Nanos,
    /// State at its sender and its receiver; the run fills in the sample's time.
    pub sample: FlowSample,
    /// Whether ECN was negotiated.
    pub negotiated_ecn: bool,
}

/// The guests' counters at the end of a run.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// Counters by name.
    pub counters: BTreeMap<String, u64>,
    /// Timeouts of each flow; `None` where they are not counted.
    pub timeouts: Vec<Option<u32>>,
    /// Messages and transfers of each flow; empty where no flow has any.
    pub completions: Vec<Vec<Completion>>,
}
