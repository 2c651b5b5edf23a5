//! A receiver whose CPU is taken away at times, as its peers see it: during a stall, arriving
//! frames wait in the host, and nothing is sent. When the stall ends, all of them arrive at once.

use std::collections::{BTreeMap, VecDeque};

use uc_experiment::Hypervisor;
use uc_net::Nanos;

use crate::frame::Frame;
use crate::turns::Turns;

/// Maximum number of frames that wait in each direction: more than any queue of a network card.
const WAITING_MAX: usize = 10_000;

/// The receiver's stalls, and the frames that wait for the end of the current one.
pub(crate) struct Stalled {
    turns: Turns,
    epoch: Nanos,
    /// Current or next stall, from and to; `None` when there are no more.
    stop: Option<(Nanos, Nanos)>,
    /// Frames for the receiver.
    arrived: VecDeque<Frame>,
    /// Frames from the receiver, whose kernel is not really stopped.
    sent: VecDeque<Vec<u8>>,
    stops: u64,
    lost: u64,
}

impl Stalled {
    pub fn new(hypervisor: &Hypervisor, seed: u64, epoch: Nanos) -> Self {
        let mut stalled = Self {
            turns: Turns::new(hypervisor, "receiver", 0, seed),
            epoch,
            stop: None,
            arrived: VecDeque::new(),
            sent: VecDeque::new(),
            stops: 0,
            lost: 0,
        };
        stalled.pass();
        stalled
    }

    fn pass(&mut self) {
        let at = |ns: u64| Nanos(self.epoch.0.saturating_add(ns));
        self.stop = self.turns.next().map(|(from, to)| (at(from), at(to)));
    }

    /// Returns whether the receiver is stalled at `now`, and counts the stalls that have ended by then.
    pub fn stands(&mut self, now: Nanos) -> bool {
        while let Some((_, to)) = self.stop
            && to <= now
        {
            self.stops += 1;
            self.pass();
        }
        self.stop.is_some_and(|(from, _)| from <= now)
    }

    /// Returns the time of the next check: the end of the stall, if a frame waits for it; `None` if no frame waits.
    pub fn next(&self) -> Option<Nanos> {
        let waits = !self.arrived.is_empty() || !self.sent.is_empty();
        self.stop.filter(|_| waits).map(|(_, to)| to)
    }

    pub fn arrive(&mut self, frame: Frame) {
        if self.arrived.len() < WAITING_MAX {
            self.arrived.push_back(frame);
        } else {
            self.lost += 1;
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        if self.sent.len() < WAITING_MAX {
            self.sent.push_back(bytes.to_vec());
        } else {
            self.lost += 1;
        }
    }

    /// Returns the next waiting frame for the receiver.
    pub fn wake(&mut self) -> Option<Frame> {
        self.arrived.pop_front()
    }

    /// Returns the next waiting frame from the receiver.
    pub fn said(&mut self) -> Option<Vec<u8>> {
        self.sent.pop_front()
    }

    pub fn counters(&self) -> BTreeMap<String, u64> {
        BTreeMap::from([
            ("receiver_stalls".into(), self.stops),
            ("receiver_stalled_frames_lost".into(), self.lost),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_receiver_is_stalled_for_two_of_three_slices_and_each_stall_counts_once() {
        let shared = Hypervisor {
            vms: 3,
            ..Hypervisor::default()
        };
        for seed in 0..10 {
            let mut stalled = Stalled::new(&shared, seed, Nanos(7 * MS));
            let standing = (0..9_000).filter(|at| stalled.stands(Nanos((7 + at) * MS)));
            let standing = standing.count();
            assert!(
                (5_930..=6_070).contains(&standing),
                "seed {seed}: {standing}"
            );
            assert!(
                (98..=101).contains(&stalled.stops),
                "seed {seed}: {}",
                stalled.stops
            );
            assert_eq!(stalled.next(), None, "seed {seed}: no frame waits");
            stalled.send(&[1]);
            assert!(stalled.next().is_some(), "seed {seed}");
        }
    }
}
