//! How far each kind of application has come.

use std::collections::VecDeque;

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
    /// Number of requests sent.
    pub(super) asked: u32,
    /// Responses received.
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

/// A connection to one receiver.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) slot: Slot,
    pub(super) written_bytes: u64,
    /// Messages in flight: the number of each one's completion, and the total bytes delivered once
    /// it has arrived.
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

/// The random streams of one flow's arrivals: times, sizes and receivers, so that a different
/// distribution of sizes leaves the rest unchanged.
#[derive(Debug)]
pub(super) struct Arrivals {
    pub(super) times: Stream,
    pub(super) sizes: Stream,
    pub(super) receivers: Stream,
}

impl Arrivals {
    pub(super) fn new(seed: u64, name: &str) -> Arrivals {
        Arrivals {
            times: Stream::new(seed, &format!("{name}/arrivals")),
            sizes: Stream::new(seed, &format!("{name}/sizes")),
            receivers: Stream::new(seed, &format!("{name}/receivers")),
        }
    }
}
