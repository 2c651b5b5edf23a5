//! The flows of a guest that belong to one group, with their times and what they carry.

use uc_experiment::{Experiment, Guests, Nanos};

use crate::arrivals::Arrivals;
use crate::epochs::Epochs;
use crate::messages::Messages;
use crate::pages::Pages;

/// A guest's flows of one group.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Name of the group.
    pub group: String,
    /// Number in the group of the first flow, from 0.
    pub first: u32,
    /// Number of flows, each on one connection if it has no `arrivals`: of a flow of the file, one to each of its
    /// receivers.
    pub flows: u32,
    /// Indices in [`crate::plan::Plan::servers`] of the receivers of each flow of the file.
    pub servers: Vec<usize>,
    /// Time at which the flows connect.
    pub start: Nanos,
    /// Maximum random delay of a flow after `start`.
    pub start_spread: Nanos,
    /// Time at which the flows end; `None`: with the run.
    pub stop: Option<Nanos>,
    /// Weight of each flow within its guest's share, if the guest is coupled.
    pub priority: u8,
    /// Messages or the transfer that each flow carries; `None`: blocks on request, or as much as TCP
    /// takes.
    pub messages: Option<Messages>,
    /// Times of transfers in epochs, each of which is a flow here: those of one flow of the file are adjacent. `None`:
    /// flows begin at `start`.
    pub epochs: Option<Epochs>,
    /// Transfers at random times, each on a connection of its own.
    pub arrivals: Option<Arrivals>,
}

impl Part {
    /// Returns the flows of guest number `index` of a group to these receivers.
    pub(crate) fn of(
        experiment: &Experiment,
        group: &Guests,
        index: u32,
        servers: Vec<usize>,
    ) -> Self {
        let arrivals = Arrivals::of(experiment, group);
        let rounds = Epochs::of(group).map_or(1, |epochs| epochs.rounds);
        let flows = group.flows * rounds * servers.len() as u32;
        Self {
            group: group.name.clone(),
            first: index * flows,
            flows: match Pages::of(group) {
                Some(_) => 0, // its connections are its clients'
                None => flows,
            },
            servers,
            start: group.start,
            start_spread: match arrivals {
                Some(_) => experiment.start_spread(group),
                None => group.start_spread,
            },
            stop: group.stop,
            priority: group.group().map_or(1, |coupling| coupling.priority),
            messages: Messages::of(group),
            epochs: Epochs::of(group),
            arrivals,
        }
    }

    /// Returns the receiver of flow number `flow` of the part.
    pub fn server(&self, flow: u32) -> usize {
        self.servers[flow as usize % self.servers.len()]
    }

    /// Returns whether the flows may end before the run does.
    pub(crate) fn may_end(&self) -> bool {
        self.stop.is_some() || self.messages.as_ref().is_some_and(Messages::ends)
    }
}
