//! Vegas (Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet",
//! JSAC 13(8), 1995), its congestion avoidance counted in segments queued on the path and once for a
//! round trip, as in Linux.
//!
//! Deviates from the paper as Linux does: slow start doubles in every round trip, not in every
//! other; and a loss halves, where the paper's own retransmission (§III-A) takes a quarter.

use uc_net::Nanos;

use super::round::{Round, Turn};
use super::{Acked, Control, MAX_CWND_BYTES, NewReno, Observed, Window};

/// α and β (§III-B): fewer segments than this in the queue, and the window grows; more, and it
/// shrinks.
const ALPHA_SEGMENTS: u64 = 2;
const BETA_SEGMENTS: u64 = 4;
/// γ (§III-C): more than this in the queue, and slow start is over.
const GAMMA_SEGMENTS: u64 = 1;
/// Fewer samples may all come from delayed ACKs; then a round trip tells nothing.
const LEAST_SAMPLES: u32 = 3;

/// One connection's Vegas.
#[derive(Clone, Debug, Default)]
pub struct Vegas {
    conventional: NewReno,
    /// BaseRTT: the least that was ever measured.
    base_rtt: Option<Nanos>,
    /// The least of the running round, which the delays of ACKs and bursts distort least.
    round_rtt: Option<Nanos>,
    samples: u32,
    /// Bytes acknowledged in it, those of slow start aside.
    acked_bytes: u32,
    round: Round,
}

impl Vegas {
    /// §III-B: Diff = Expected − Actual = cwnd/BaseRTT − cwnd/RTT; times RTT it is what waits in
    /// queues, in bytes.
    fn queued_bytes(cwnd_bytes: u32, base_rtt: Nanos, rtt: Nanos) -> u64 {
        let waiting_ns = u128::from(rtt.since(base_rtt).0);
        let queued = u128::from(cwnd_bytes) * waiting_ns / u128::from(base_rtt.0.max(1));
        u64::try_from(queued).unwrap_or(u64::MAX)
    }

    fn begin_round(&mut self) {
        self.round_rtt = None;
        self.samples = 0;
        self.acked_bytes = 0;
    }

    /// A round trip is over.
    fn decide(&mut self, window: &mut Window, acked: &Acked) {
        match (self.base_rtt, self.round_rtt) {
            (Some(base_rtt), Some(rtt)) if self.samples >= LEAST_SAMPLES => {
                self.compare(window, acked, base_rtt, rtt);
            }
            _ => {
                // a round that says nothing of delay is one of NewReno's
                let round = Acked {
                    bytes: self.acked_bytes,
                    ..*acked
                };
                self.conventional.acked(window, &round);
            }
        }
        let least = 2 * window.smss_bytes;
        window.cwnd_bytes = window.cwnd_bytes.max(least);
        window.ssthresh_bytes = window.ssthresh_bytes.max(least);
    }

    /// §III-B and §III-C: the least time of the last round trip beside the least of all.
    fn compare(&mut self, window: &mut Window, acked: &Acked, base_rtt: Nanos, rtt: Nanos) {
        let smss = window.smss_bytes;
        let queued = Self::queued_bytes(window.cwnd_bytes, base_rtt, rtt);
        let segments = |count: u64| count * u64::from(smss);
        if window.in_slow_start() {
            if queued <= segments(GAMMA_SEGMENTS) {
                return self.conventional.acked(window, acked);
            }
            // §III-C: avoidance begins, with no more than the path holds without a queue
            let cwnd = u128::from(window.cwnd_bytes);
            let fits = cwnd * u128::from(base_rtt.0) / u128::from(rtt.0.max(1));
            let most = u32::try_from(fits).unwrap_or(u32::MAX).saturating_add(smss);
            window.cwnd_bytes = window.cwnd_bytes.min(most);
            window.ssthresh_bytes = window.cwnd_bytes;
        } else if queued > segments(BETA_SEGMENTS) {
            window.cwnd_bytes = window.cwnd_bytes.saturating_sub(smss);
            window.ssthresh_bytes = window.ssthresh_bytes.min(window.cwnd_bytes);
        } else if queued < segments(ALPHA_SEGMENTS) {
            window.cwnd_bytes = (window.cwnd_bytes + smss).min(MAX_CWND_BYTES);
        }
    }

    /// Measuring begins anew after a reduction: what is in flight then was sent before it.
    fn reset(&mut self) {
        self.begin_round();
        self.round.reset();
    }
}

impl Control for Vegas {
    fn acked(&mut self, window: &mut Window, acked: &Acked) {
        let turn = self.round.turn();
        if turn == Turn::First {
            self.begin_round();
        }
        if window.in_slow_start() && turn != Turn::Over {
            self.conventional.acked(window, acked);
        } else {
            self.acked_bytes = self.acked_bytes.saturating_add(acked.bytes);
        }
        if turn == Turn::Over {
            self.decide(window, acked);
            self.begin_round();
        }
    }

    fn lost(&mut self, window: &Window, flight_bytes: u32, now: Nanos) -> u32 {
        self.reset();
        self.conventional.lost(window, flight_bytes, now)
    }

    fn timed_out(&mut self, window: &Window, flight_bytes: u32, now: Nanos) -> u32 {
        self.reset();
        self.conventional.timed_out(window, flight_bytes, now)
    }

    fn marked(&mut self, window: &Window, now: Nanos) -> u32 {
        self.reset();
        self.conventional.marked(window, now)
    }

    fn observed(&mut self, observed: &Observed) {
        self.round.acked(observed.una, observed.nxt);
        if let Some(rtt) = observed.rtt {
            self.base_rtt = Some(self.base_rtt.map_or(rtt, |least| least.min(rtt)));
            self.round_rtt = Some(self.round_rtt.map_or(rtt, |least| least.min(rtt)));
            self.samples = self.samples.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests;
