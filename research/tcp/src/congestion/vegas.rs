//! TCP Vegas (Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global
//! Internet", JSAC 13(8), 1995), with congestion avoidance counted in segments queued on the path
//! and decided once per round trip, as in Linux.
//!
//! Deviates from the paper as Linux does: slow start doubles in every round trip, not in every
//! other; and a loss halves the window, where the paper's own retransmission (§III-A) reduces it by
//! a quarter.

use uc_net::Nanos;

use super::control::{Acked, Control, MAX_CWND_BYTES, Observed, Window};
use super::newreno::NewReno;
use super::round::{Round, Turn};

/// α and β (§III-B): with fewer than α segments queued the window grows, with more than β it
/// shrinks.
const ALPHA_SEGMENTS: u64 = 2;
const BETA_SEGMENTS: u64 = 4;
/// γ (§III-C): with more than this queued, slow start ends.
const GAMMA_SEGMENTS: u64 = 1;
/// Minimum number of samples in a round: fewer may all come from delayed ACKs, and then the round's
/// delay is not used.
const LEAST_SAMPLES: u32 = 3;

/// The Vegas state of a connection.
#[derive(Clone, Debug, Default)]
pub struct Vegas {
    conventional: NewReno,
    /// BaseRTT of Vegas: the shortest round-trip time ever measured; `None` before the first sample.
    base_rtt: Option<Nanos>,
    /// The shortest round-trip time of the current round; `None`: no sample yet. Of all statistics, delayed ACKs and
    /// bursts distort the minimum least.
    round_rtt: Option<Nanos>,
    samples: u32,
    /// Bytes acknowledged in the current round outside of slow start.
    acked_bytes: u32,
    round: Round,
}

impl Vegas {
    /// Returns the bytes queued on the path (§III-B): Diff = Expected − Actual = cwnd/BaseRTT −
    /// cwnd/RTT, multiplied by RTT.
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

    /// Adjusts the window at the end of a round trip.
    fn decide(&mut self, window: &mut Window, acked: &Acked) {
        match (self.base_rtt, self.round_rtt) {
            (Some(base_rtt), Some(rtt)) if self.samples >= LEAST_SAMPLES => {
                self.compare(window, acked, base_rtt, rtt);
            }
            _ => {
                // a round without a usable delay counts as one of NewReno's
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

    /// Compares the minimum of the last round trip with BaseRTT (§III-B and §III-C).
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

    /// Restarts measurement after a reduction: the data then in flight was sent before it.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SMSS: u32 = 1448;

    proptest! {
        #[test]
        fn queued_bytes_are_expected_less_actual_times_the_round_trip(
            cwnd_bytes in 2 * SMSS..1_000_000_000,
            base_ns in 10_000_u64..1_000_000_000,
            more_ns in 0_u64..1_000_000_000,
        ) {
            let (base, rtt) = (base_ns as f64, (base_ns + more_ns) as f64);
            let cwnd = f64::from(cwnd_bytes);
            // in bytes: (Expected − Actual)·RTT
            let expected = (cwnd / base - cwnd / rtt) * rtt;
            let ours = Vegas::queued_bytes(cwnd_bytes, Nanos(base_ns), Nanos(base_ns + more_ns));
            prop_assert!((ours as f64 - expected).abs() <= 1.0 + expected * 1e-9, "{ours}, {expected}");
        }
    }

    #[test]
    fn losses_and_marks_restart_measurement_but_keep_base_rtt() {
        let base = Some(Nanos::from_millis(100));
        let window = Window {
            cwnd_bytes: 20 * SMSS,
            ssthresh_bytes: 2 * SMSS,
            smss_bytes: SMSS,
        };
        let events: [fn(&mut Vegas, &Window) -> u32; 3] = [
            |law, window| law.lost(window, 15 * SMSS, Nanos::ZERO),
            |law, window| law.timed_out(window, 15 * SMSS, Nanos::ZERO),
            |law, window| law.marked(window, Nanos::ZERO),
        ];
        for event in events {
            let mut law = Vegas {
                base_rtt: base,
                round_rtt: base,
                samples: 5,
                ..Vegas::default()
            };
            event(&mut law, &window);
            assert_eq!((law.samples, law.round_rtt, law.base_rtt), (0, None, base));
        }
    }
}
