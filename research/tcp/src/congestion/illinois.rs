//! TCP-Illinois (Liu, Başar and Srikant, "TCP-Illinois: A Loss and Delay-Based Congestion Control
//! Algorithm for High-Speed Networks", VALUETOOLS 2006): losses determine when the window is
//! reduced, queueing delay determines by how much, and how fast the window grows.
//!
//! Deviates from the paper as Linux does: the minimum and maximum round-trip times are those of
//! single ACKs, where the paper takes averages of round trips.

use uc_net::Nanos;

use super::additive::{Additive, ONE_SEGMENT_Q16, reduced};
use super::control::{Acked, Control, Observed, Window};
use super::newreno::NewReno;
use super::round::{Round, Turn};

/// Parameters of TCP-Illinois (Liu and others, 2006): α between 0.3 and 10 segments for each round trip, β
/// between 1/8 and 1/2.
const ALPHA_LEAST_Q16: u32 = ONE_SEGMENT_Q16 * 3 / 10;
const ALPHA_MOST_Q16: u32 = ONE_SEGMENT_Q16 * 10;
const BETA_LEAST_Q16: u32 = 1 << 13;
const BETA_MOST_Q16: u32 = 1 << 15;
/// W_thresh in segments: below this window α = 1 and β = 1/2, the standard behaviour.
const THRESHOLD_SEGMENTS: u32 = 15;
/// θ: after this many round trips without a queue α jumps to its maximum.
const LOW_ROUNDS: u32 = 5;

/// The TCP-Illinois state of a connection.
#[derive(Clone, Debug)]
pub struct Illinois {
    slow_start: NewReno,
    additive: Additive,
    alpha_q16: u32,
    beta_q16: u32,
    /// T_min of TCP-Illinois: the shortest round-trip time measured; `None` before the first sample.
    least_rtt: Option<Nanos>,
    /// T_max of TCP-Illinois: the longest round-trip time measured.
    most_rtt: Nanos,
    /// Sum of the round-trip samples of the current round.
    sum_ns: u64,
    /// Number of round-trip samples of the current round.
    samples: u64,
    round: Round,
    /// Whether the delay was above d1 since α was at its maximum.
    was_high: bool,
    /// Number of rounds in a row with a delay below d1, after one above it.
    low_rounds: u32,
}

impl Default for Illinois {
    fn default() -> Self {
        Self {
            slow_start: NewReno::default(),
            additive: Additive::default(),
            alpha_q16: ONE_SEGMENT_Q16,
            beta_q16: BETA_MOST_Q16,
            least_rtt: None,
            most_rtt: Nanos::ZERO,
            sum_ns: 0,
            samples: 0,
            round: Round::default(),
            was_high: false,
            low_rounds: 0,
        }
    }
}

/// Returns α = f1(d_a) for a mean queueing delay d_a, of at most d_m: α_max up to d1 = d_m/100, then κ1/(κ2 + d_a),
/// which falls to α_min at d_m. κ1 and κ2 are multiplied by (α_max − α_min)/α_min, so that the only division comes
/// last.
fn f1_q16(d_a_ns: u64, d_m_ns: u64) -> u32 {
    let d1_ns = d_m_ns / 100;
    if d_a_ns <= d1_ns {
        return ALPHA_MOST_Q16;
    }
    let (least, most) = (u128::from(ALPHA_LEAST_Q16), u128::from(ALPHA_MOST_Q16));
    let span = u128::from(d_m_ns - d1_ns);
    let above = u128::from(d_a_ns - d1_ns);
    let alpha = span * least * most / (span * least + above * (most - least));
    alpha as u32
}

/// Returns β = f2(d_a) for a mean queueing delay d_a: β_min up to d2 = d_m/10, β_max from d3 = 8/10·d_m on, κ3 + κ4·d_a
/// between them.
fn f2_q16(d_a_ns: u64, d_m_ns: u64) -> u32 {
    let (d2_ns, d3_ns) = (d_m_ns / 10, d_m_ns / 10 * 8);
    if d_a_ns <= d2_ns {
        BETA_LEAST_Q16
    } else if d_a_ns >= d3_ns {
        BETA_MOST_Q16
    } else {
        let (above, span) = (u128::from(d_a_ns - d2_ns), u128::from(d3_ns - d2_ns));
        BETA_LEAST_Q16 + (u128::from(BETA_MOST_Q16 - BETA_LEAST_Q16) * above / span) as u32
    }
}

impl Illinois {
    fn begin_round(&mut self) {
        (self.sum_ns, self.samples) = (0, 0);
    }

    /// Updates α and β from the mean delay of a round trip, once per round trip.
    fn update(&mut self, window: &Window) {
        if window.cwnd_bytes < THRESHOLD_SEGMENTS * window.smss_bytes {
            self.alpha_q16 = ONE_SEGMENT_Q16;
            self.beta_q16 = BETA_MOST_Q16;
            return;
        }
        let (Some(least_rtt), 1..) = (self.least_rtt, self.samples) else {
            return;
        };
        let d_m_ns = self.most_rtt.since(least_rtt).0;
        let d_a_ns = (self.sum_ns / self.samples).saturating_sub(least_rtt.0);
        self.alpha_q16 = self.next_alpha_q16(d_a_ns, d_m_ns);
        self.beta_q16 = f2_q16(d_a_ns, d_m_ns);
    }

    /// Returns α = f1(d_a), with one exception: once the delay was above d1, α returns to its maximum only after θ
    /// rounds below d1, since a single round may be an outlier.
    fn next_alpha_q16(&mut self, d_a_ns: u64, d_m_ns: u64) -> u32 {
        if d_a_ns > d_m_ns / 100 {
            self.was_high = true;
            self.low_rounds = 0;
        } else if self.was_high {
            self.low_rounds += 1;
            if self.low_rounds < LOW_ROUNDS {
                return self.alpha_q16;
            }
            self.was_high = false;
        }
        f1_q16(d_a_ns, d_m_ns)
    }

    fn cut(&mut self, bytes: u32, smss_bytes: u32) -> u32 {
        self.additive.reset();
        reduced(bytes, self.beta_q16, smss_bytes)
    }
}

impl Control for Illinois {
    fn acked(&mut self, window: &mut Window, acked: &Acked) {
        match self.round.turn() {
            Turn::First => self.begin_round(),
            Turn::Inside => {}
            Turn::Over => {
                self.update(window);
                self.begin_round();
            }
        }
        if window.in_slow_start() {
            self.slow_start.acked(window, acked);
        } else {
            // W ← W + α/W for each ACK
            self.additive.grow(window, acked.bytes, self.alpha_q16);
        }
    }

    /// Returns W ← (1 − β)·W.
    fn lost(&mut self, window: &Window, flight_bytes: u32, _now: Nanos) -> u32 {
        self.cut(flight_bytes, window.smss_bytes)
    }

    /// Reduces by the β that the delay gives; then α = 1 and β = 1/2 until a round is measured.
    fn timed_out(&mut self, window: &Window, flight_bytes: u32, _now: Nanos) -> u32 {
        let ssthresh = self.cut(flight_bytes, window.smss_bytes);
        self.alpha_q16 = ONE_SEGMENT_Q16;
        self.beta_q16 = BETA_MOST_Q16;
        self.was_high = false;
        self.low_rounds = 0;
        self.round.reset();
        ssthresh
    }

    /// Responds to a mark as to a loss.
    fn marked(&mut self, window: &Window, _now: Nanos) -> u32 {
        self.cut(window.cwnd_bytes, window.smss_bytes)
    }

    fn observed(&mut self, observed: &Observed) {
        self.round.acked(observed.una, observed.nxt);
        if let Some(rtt) = observed.rtt {
            self.least_rtt = Some(self.least_rtt.map_or(rtt, |least| least.min(rtt)));
            self.most_rtt = self.most_rtt.max(rtt);
            self.sum_ns = self.sum_ns.saturating_add(rtt.0);
            self.samples += 1;
        }
    }
}

#[cfg(test)]
mod tests;
