//! One direction of a link: a queue, a transmitter at a rate, a propagation delay.
//!
//! The time of a departure follows from the arrivals and the rate alone, so how often a link is
//! called changes nothing.

use std::collections::VecDeque;

use uc_words::Nanos;

use crate::error::SpecError;
use crate::fault::Fault;
use crate::link_model::{LinkModel, LinkSpec};
use crate::packet::Packet;
use crate::queue::{DropReason, Verdict};
use crate::stats::LinkReport;

/// One direction of a link outside a network: a [`LinkModel`] with the packets that are on the link.
#[derive(Clone, Debug)]
pub struct Link<P> {
    model: LinkModel,
    /// Packets that have not arrived, by time of arrival.
    flight: VecDeque<(Nanos, P)>,
}

impl<P: Packet> Link<P> {
    /// Creates an empty link. Its random numbers are seeded by `seed` and `name`.
    ///
    /// # Errors
    /// Names the value of `spec` that can't be used.
    pub fn new(spec: &LinkSpec, seed: u64, name: &str) -> Result<Link<P>, SpecError> {
        Ok(Link {
            model: LinkModel::new(spec, seed, name)?,
            flight: VecDeque::new(),
        })
    }

    /// Offers a packet at `now`, which must not lie before an earlier call's `now`. Calls `saw` with the verdict and
    /// the packet, and once more for the copy if a rule duplicates the packet.
    pub fn offer(&mut self, now: Nanos, packet: P, saw: &mut impl FnMut(Verdict, &P)) {
        let hold = match self.model.strike(&packet) {
            None => Nanos::ZERO,
            Some(Fault::Loss) => return saw(Verdict::Dropped(DropReason::Fault), &packet),
            Some(Fault::Reorder { hold }) => hold,
            Some(Fault::Duplicate) => {
                self.enqueue(now, packet.clone(), Nanos::ZERO, saw);
                Nanos::ZERO
            }
        };
        self.enqueue(now, packet, hold, saw);
    }

    fn enqueue(
        &mut self,
        now: Nanos,
        mut packet: P,
        hold: Nanos,
        saw: &mut impl FnMut(Verdict, &P),
    ) {
        let size_bytes = packet.size_bytes();
        let verdict = self.model.judge(now, size_bytes, &mut packet);
        saw(verdict, &packet);
        if !matches!(verdict, Verdict::Dropped(_)) {
            let arrives = self.model.accept(now, size_bytes, hold);
            // Behind all that arrive no later.
            let place = self.flight.partition_point(|&(at, _)| at <= arrives);
            self.flight.insert(place, (arrives, packet));
        }
    }

    /// Removes and returns the next packet that has arrived at the far end by `now`, with its time of arrival; `None`
    /// if no packet has.
    pub fn receive(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        self.flight.pop_front_if(|&mut (at, _)| at <= now)
    }

    /// Returns the time at which the next packet arrives; `None` for an empty link.
    pub fn next_event(&self) -> Option<Nanos> {
        self.flight.front().map(|&(at, _)| at)
    }

    /// Returns the link's totals and queue at `now`, which must not lie before an earlier call's `now`.
    pub fn report(&mut self, now: Nanos) -> LinkReport {
        let mut report = self.model.report(now);
        report.stats.delivered_packets -= self.flight.len() as u64;
        report
    }
}
