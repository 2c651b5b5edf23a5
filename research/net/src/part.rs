//! State of a network that is one of several parts, and the packets that change parts.

use std::collections::VecDeque;
use std::sync::Arc;

use uc_words::Nanos;

use crate::depot::Rank;
use crate::division::Division;
use crate::order::{Cause, Numbering, Phase};

/// A packet on its way from one part to another.
// In whole lines of the cache, which another core reads.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Crossing<P> {
    pub(crate) at: Nanos,
    pub(crate) rank: Rank,
    pub(crate) link: u32,
    pub(crate) sequence: u64,
    pub(crate) to: crate::HostId,
    pub(crate) size_bytes: u32,
    pub(crate) packet: P,
}

/// State of a network that is one of several parts.
#[derive(Clone, Debug)]
pub(crate) struct Part<P> {
    pub(crate) number: u8,
    /// Part of the switch at the far end of each link; [`ALL`] where the next link decides, [`HOST`] where
    /// there is a host.
    pub(crate) owners: Vec<u8>,
    pub(crate) division: Arc<Division>,
    /// Numbers of the packets that come to links.
    pub(crate) numbering: Numbering,
    /// Causes of the packets in the inbox.
    pub(crate) waiting: VecDeque<Cause>,
    /// Packets for each other part.
    pub(crate) leaving: Vec<Vec<Crossing<P>>>,
    /// Earliest arrival in `leaving`; the maximum if it is empty.
    pub(crate) first_leaving: Nanos,
    /// Packets from another part, copied at once.
    pub(crate) incoming: Vec<Crossing<P>>,
    /// Packets that have come to a link to a host since the last call of [`Network::take_coming`].
    pub(crate) coming: Vec<(Nanos, u32)>,
}

impl<P> Part<P> {
    /// Notes that a packet of this rank arrives, at a host or at a switch.
    #[inline]
    pub(crate) fn comes(&mut self, rank: Rank, is_at_host: bool) {
        let phase = if is_at_host {
            Phase::Answer
        } else {
            Phase::Passage
        };
        self.numbering.cause = Cause::arrival(rank, phase);
    }

    /// Notes that a packet comes to the inbox.
    pub(crate) fn waits(&mut self) {
        self.waiting.push_back(self.numbering.cause);
    }

    /// Notes that a packet leaves the inbox.
    pub(crate) fn injects(&mut self) {
        self.numbering.cause = self.waiting.pop_front().unwrap_or_default();
    }
}
