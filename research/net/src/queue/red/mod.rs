//! Random early detection as Linux's tc-red computes it.
//!
//! Read first: Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance"
//! (1993), figure 17, and Linux's `include/net/red.h` and `net/sched/sch_red.c`, whose arithmetic
//! this module follows number for number (flags: `ecn` or none; `harddrop`, `nodrop` and `adaptive`
//! off). [`RedParameters`] is the user tool's half: the derivation of weight, probability and idle
//! table.

mod parameters;

pub use parameters::{RedParameters, RedSpec};

use super::droptail::DropTail;
use super::{Arrival, DropReason, Length, Verdict};
use uc_words::Nanos;

use crate::error::SpecError;
use crate::random::Stream;

/// RED's decision on an arriving packet, by the average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Pass,
    /// Between min and max, and this packet was chosen.
    Early,
    /// The average is at or above max: the packet is marked or dropped.
    Forced,
}

/// The state of a RED queue.
#[derive(Clone, Debug)]
pub(crate) struct Red {
    parameters: RedParameters,
    tail: DropTail,
    ecn: bool,
    random: Stream,
    /// Average queue in bytes, fixed point with `wlog` fractional bits.
    average_scaled: u64,
    /// Number of packets since `target` was drawn; −1 while the average is outside the thresholds.
    since_random: i64,
    /// Random number: a packet is chosen when (average − min) × `since_random` reaches it.
    target: u64,
    /// When the transmitter last found the queue empty; `None` while packets arrive.
    idle_since: Option<Nanos>,
}

impl Red {
    pub(crate) fn new(spec: &RedSpec, random: Stream) -> Result<Red, SpecError> {
        Ok(Red {
            parameters: RedParameters::derive(spec)?,
            tail: DropTail::new(Length::Bytes(u64::from(spec.limit_bytes)))?,
            ecn: spec.ecn,
            random,
            average_scaled: 0,
            since_random: -1,
            target: 0,
            idle_since: Some(Nanos::ZERO),
        })
    }

    /// Decides on an arriving packet. Linux marks before its child queue checks the limit. The only visible difference:
    /// this code does not count a mark on a packet that is then dropped.
    pub(crate) fn judge(&mut self, arrival: &Arrival) -> Verdict {
        self.average_scaled = match self.idle_since.take() {
            Some(idle_since) => self.average_after_idle(arrival.at.since(idle_since)),
            // avg ← (1 − W)·avg + W·q, with Wlog fractional bits.
            None => {
                let decay = self.average_scaled >> self.parameters.wlog;
                self.average_scaled + arrival.backlog.bytes - decay
            }
        };
        let fits = self.tail.judge(arrival.backlog.with(arrival.size_bytes));
        let reason = match self.action() {
            Action::Pass => return fits,
            Action::Early => DropReason::Early,
            Action::Forced => DropReason::Forced,
        };
        if !self.ecn || !arrival.ecn.can_be_marked() {
            return Verdict::Dropped(reason);
        }
        match fits {
            Verdict::Queued => Verdict::Marked,
            dropped => dropped,
        }
    }

    /// Returns the average queue in whole bytes, rounded down.
    pub(crate) fn average_bytes(&self) -> u64 {
        self.average_scaled >> self.parameters.wlog
    }

    /// Starts the idle period at `now`, when the transmitter found nothing, unless an idle period has started already.
    pub(crate) fn emptied(&mut self, now: Nanos) {
        self.idle_since.get_or_insert(now);
    }

    /// Returns the average after the queue has been empty for `idle`: figure 17's (1 − W)^m, from a
    /// table of shifts, linear in the table's first cells.
    ///
    /// The tool computes the table in ticks of 64 ns, while the kernel indexes it by microseconds.
    /// So Linux's average decays up to 15.6 times more slowly than the formula, and this one decays
    /// like Linux's.
    fn average_after_idle(&self, idle: Nanos) -> u64 {
        let p = &self.parameters;
        let idle_us = (idle.0 / 1_000).min(p.idle_max_us());
        let shift = p.idle_shifts[((idle_us >> p.scell_log) & 0xff) as usize];
        if shift > 0 {
            return self.average_scaled >> shift;
        }
        let decay = (self.average_scaled * idle_us) >> p.scell_log;
        self.average_scaled - decay.min(self.average_scaled - (self.average_scaled >> 1))
    }

    fn action(&mut self) -> Action {
        let p = &self.parameters;
        if self.average_scaled < p.min_scaled {
            self.since_random = -1;
            return Action::Pass;
        }
        if self.average_scaled >= p.max_scaled {
            self.since_random = -1;
            return Action::Forced;
        }
        self.since_random += 1;
        if self.since_random == 0 {
            self.target = self.draw_target();
            return Action::Pass;
        }
        // Uniform spacing instead of independent probabilities: max_p·(avg − min)/(max − min) is
        // compared with random/count (Floyd and Jacobson §7).
        let excess_bytes = (self.average_scaled - p.min_scaled) >> p.wlog;
        if excess_bytes.saturating_mul(self.since_random.unsigned_abs()) < self.target {
            return Action::Pass;
        }
        self.since_random = 0;
        self.target = self.draw_target();
        Action::Early
    }

    /// Draws a number, uniform in 0..(max − min)/max_p.
    fn draw_target(&mut self) -> u64 {
        u64::from(self.random.bits32() / self.parameters.probability_per_byte_q32)
    }
}

#[cfg(test)]
mod tests;
