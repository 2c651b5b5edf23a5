//! The flows of a guest that belong to one group, with their times and what they carry.

use uc_experiment::{Guests, Nanos};

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
    /// Number of flows, each on one connection.
    pub flows: u32,
    /// Time at which the flows connect.
    pub start: Nanos,
    /// Random delay after `start`, at most this.
    pub start_spread: Nanos,
    /// Time at which the flows end; `None`: with the run.
    pub stop: Option<Nanos>,
    /// Weight of each flow within its guest's share, if the guest is coupled.
    pub priority: u8,
    /// Messages or the transfer that each flow carries; `None`: blocks on request, or as much as TCP
    /// takes.
    pub messages: Option<Messages>,
    /// Times at which its flows begin, if they are transfers in epochs: those of a flow of the file are
    /// adjacent.
    pub epochs: Option<Epochs>,
}

impl Part {
    /// Returns the flows of guest number `index` of a group.
    pub(crate) fn of(group: &Guests, index: u32) -> Self {
        Self {
            group: group.name.clone(),
            first: index * group.flows * Epochs::of(group).map_or(1, |epochs| epochs.rounds),
            flows: match Epochs::of(group) {
                Some(_) if Pages::of(group).is_some() => 0, // its connections are its clients'
                Some(epochs) => group.flows * epochs.rounds,
                None => group.flows,
            },
            start: group.start,
            start_spread: group.start_spread,
            stop: group.stop,
            priority: group.group().map_or(1, |coupling| coupling.priority),
            messages: Messages::of(group),
            epochs: Epochs::of(group),
        }
    }

    /// Returns whether its flows may end before the run does.
    pub(crate) fn may_end(&self) -> bool {
        self.stop.is_some() || self.messages.as_ref().is_some_and(Messages::ends)
    }
}
