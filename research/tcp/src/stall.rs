//! Operations for a guest whose CPU is taken away at times. The caller decides whether and when to
//! use them.

use uc_net::Nanos;

use crate::config::RttSample;
use crate::connection::{Connection, State};
use crate::outlet::Outlet;
use crate::segment::Segment;
use crate::sender::Waits;
use crate::seq;

impl Connection {
    /// Returns when the retransmission timer fires; `None` if it does not wait for an acknowledgment.
    pub fn retransmission_deadline(&self) -> Option<Nanos> {
        let is_waiting = self.sender.waits == Waits::Ack;
        self.sender.deadline.filter(|_| is_waiting)
    }

    /// Defers a running retransmission timer to `at`, without changing the timeout.
    pub fn put_off_retransmission(&mut self, at: Nanos) {
        if self.retransmission_deadline().is_some() {
            self.sender.deadline = Some(at);
        }
    }

    /// Returns whether the segment acknowledges outstanding data of this end.
    pub fn acknowledges_new(&self, segment: &Segment) -> bool {
        let ack = seq::unwrap(self.sender.una, segment.ack);
        segment.has(crate::segment::flags::ACK) && ack > self.sender.una && ack <= self.sender.max
    }

    /// Returns the send time of the data whose round-trip time the segment, arriving at `now`,
    /// would show; `None` if it would show none (RFC 6298 §3, RFC 7323 §4).
    pub fn timed_since(&self, now: Nanos, segment: &Segment) -> Option<Nanos> {
        if !self.acknowledges_new(segment) {
            return None;
        }
        if self.state != State::Established {
            return Some(self.syn_sent_at);
        }
        let ack = seq::unwrap(self.sender.una, segment.ack);
        if let Some((end, sent_at)) = self.sender.timed {
            return (ack >= end).then_some(sent_at);
        }
        let (_, echoed_ms) = segment.options.timestamps.filter(|_| self.timestamps)?;
        let now_ms = now.0 / 1_000_000;
        let age_ms = (now_ms as u32).wrapping_sub(echoed_ms);
        Some(Nanos::from_millis(now_ms.saturating_sub(u64::from(age_ms))))
    }

    /// Processes a segment like [`Connection::receive`], but uses its round-trip time sample as
    /// `sample` says.
    pub fn receive_judged(
        &mut self,
        now: Nanos,
        segment: &Segment,
        sample: RttSample,
        out: &mut impl Outlet,
    ) {
        self.sender.rto.judge(sample);
        self.receive(now, segment, out);
        self.sender.rto.judge(RttSample::Measured);
    }
}
