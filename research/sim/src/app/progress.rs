//! How far each kind of application has come.

use std::collections::VecDeque;

use uc_experiment::Arrivals;
use uc_net::random::Stream;

use crate::hosts::Slot;

/// The state of an application between two notices.
#[derive(Debug)]
pub(super) enum State {
    Bulk,
    /// Number of receivers whose transfer has begun.
    Transfers(usize),
    /// Number of transfers that have begun.
    Epochs(usize),
    Dialogue(Dialogue),
    Web(Arrivals),
    Messages(Channels),
}

/// The progress of a flow's requests and responses.
#[derive(Debug, Default)]
pub(super) struct Dialogue {
    /// Number of requests that were sent.
    pub(super) asked: u32,
    /// Number of responses that were received.
    pub(super) answered: u32,
}

/// Flows that send their requests together.
#[derive(Debug, Default)]
pub(super) struct Barrier {
    pub(super) members: Vec<usize>,
    /// Number of members that are ready for the next round.
    pub(super) ready: usize,
}

/// The connections of one flow and its random streams: one stream for sizes and one for receivers,
/// so that a different distribution of sizes leaves the choice of receivers unchanged.
#[derive(Debug)]
pub(super) struct Channels {
    pub(super) sizes: Stream,
    pub(super) receivers: Stream,
    pub(super) channels: Vec<Channel>,
}

/// A connection of a flow to one of its receivers.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) slot: Slot,
    pub(super) written_bytes: u64,
    /// Messages in flight: the index of each message's completion, and the number of bytes that the connection has
    /// delivered once the message has arrived.
    pub(super) waiting: VecDeque<(usize, u64)>,
}

impl Channels {
    pub(super) fn new(seed: u64, name: &str) -> Channels {
        Channels {
            sizes: Stream::new(seed, &format!("{name}/sizes")),
            receivers: Stream::new(seed, &format!("{name}/receivers")),
            channels: Vec::new(),
        }
    }
}
