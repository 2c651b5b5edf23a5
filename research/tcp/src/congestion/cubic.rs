//! CUBIC (RFC 9438) in integers: time in 2^−20 s, windows in bytes.
//!
//! Slow start is NewReno's: HyStart++ (RFC 9406) is not implemented. An ECE counts as a loss, with
//! the same β; the milder factor of RFC 8511 is not used.

use uc_net::Nanos;

use super::control::{Acked, Control, MAX_CWND_BYTES, Window};
use super::newreno::NewReno;

/// β_cubic = 7/10 (RFC 9438 §4.6).
const BETA: (u64, u64) = (7, 10);
/// α_cubic = 3·(1 − β)/(1 + β) = 9/17 (RFC 9438 §4.3).
const ALPHA: (u64, u64) = (9, 17);
/// Maximum time span, 2^12 s (over an hour), so that its cube in 2^−60 s³ leaves room for C·SMSS.
const SPAN_MOST_Q20: i64 = 1 << 32;

/// The CUBIC state of a connection.
#[derive(Clone, Debug, Default)]
pub struct Cubic {
    slow_start: NewReno,
    curve: Curve,
    /// The curve before the last timeout, restored if the timeout proves spurious (RFC 9438
    /// §4.9.1).
    before_timeout: Option<Curve>,
}

/// The variables of RFC 9438 §4.1.2, in bytes instead of segments.
#[derive(Clone, Debug, Default)]
struct Curve {
    /// W_max, the window at the last reduction, in bytes. 0: the next stage of congestion avoidance takes its own
    /// window as plateau, as after a timeout and after a slow start without loss.
    w_max_bytes: u32,
    /// cwnd_prior of RFC 9438 §4.1: the window before the last reduction, in bytes.
    cwnd_prior_bytes: u32,
    /// The current stage of congestion avoidance; `None` between a reduction and its first ACK.
    epoch: Option<Epoch>,
}

/// One stage of CUBIC's congestion avoidance, between two reductions.
#[derive(Clone, Debug)]
struct Epoch {
    start: Nanos,
    /// Time of the last growth, to exclude times in which the window was not the limit.
    last: Nanos,
    k_q20: i64,
    /// W_est, the window of a Reno with the same average, in 2^−24 bytes.
    w_est_q24: u64,
    /// Remainder of the last growth, as a numerator over cwnd.
    carry: u64,
}

impl Curve {
    /// Starts a stage with K = ∛((W_max − cwnd_epoch)/C), where C = 2/5 segments per second³ (RFC
    /// 9438 §4.2).
    fn begin(&mut self, window: &Window, now: Nanos) -> Epoch {
        // a first stage without any loss (§4.10)
        if self.cwnd_prior_bytes == 0 {
            self.cwnd_prior_bytes = window.cwnd_bytes;
        }
        let below = self.w_max_bytes.saturating_sub(window.cwnd_bytes);
        if below == 0 {
            // §4.8, §4.10; and a window that slow start has carried past W_max
            self.w_max_bytes = window.cwnd_bytes;
        }
        let cube_q60 = ((u128::from(below) * 5) << 60) / (2 * u128::from(window.smss_bytes));
        Epoch {
            start: now,
            last: now,
            k_q20: cube_root(cube_q60) as i64,
            w_est_q24: u64::from(window.cwnd_bytes) << 24,
            carry: 0,
        }
    }

    /// Updates W_max at a reduction (§4.6) with fast convergence (§4.7): a flow below its last
    /// W_max releases bandwidth.
    fn reduce(&mut self, window: &Window) {
        let cwnd = window.cwnd_bytes;
        self.w_max_bytes = if cwnd < self.w_max_bytes {
            scale(cwnd, BETA.0 + BETA.1, 2 * BETA.1)
        } else {
            cwnd
        };
        self.cwnd_prior_bytes = cwnd;
        self.epoch = None;
    }
}

impl Epoch {
    /// Returns t, without the time in which the sender was not limited by its window (§4.2): a
    /// window that limits is acknowledged at least once in a round trip, so a pause counts for one
    /// round trip at most.
    fn elapsed(&mut self, now: Nanos, srtt: Nanos) -> Nanos {
        let pause = now.since(self.last).since(srtt);
        self.start += pause;
        self.last = now;
        now.since(self.start)
    }

    /// Returns W_cubic(t) = C·(t − K)³ + W_max (equation 1) in bytes, at most 2 bytes too low.
    fn w_cubic_bytes(&self, t: Nanos, w_max_bytes: u32, smss_bytes: u32) -> i64 {
        let span = (seconds_q20(t) - self.k_q20).clamp(-SPAN_MOST_Q20, SPAN_MOST_Q20);
        let cube_q60 = i128::from(span).pow(3);
        let twice = (cube_q60 * 2 * i128::from(smss_bytes)) >> 60;
        i64::from(w_max_bytes) + (twice as i64).div_euclid(5)
    }

    /// Grows W_est by α·(segments acknowledged)/cwnd (§4.3); α is 1 once W_est has reached
    /// cwnd_prior. Returns the estimate in bytes.
    fn grow_estimate(&mut self, window: &Window, prior_bytes: u32, acked_bytes: u32) -> u32 {
        let full = (u128::from(acked_bytes) * u128::from(window.smss_bytes)) << 24;
        let step = (full / u128::from(window.cwnd_bytes.max(1))) as u64;
        let regained = self.w_est_q24 >> 24 >= u64::from(prior_bytes);
        let step = if regained {
            step
        } else {
            step * ALPHA.0 / ALPHA.1
        };
        self.w_est_q24 = self.w_est_q24.saturating_add(step);
        u32::try_from(self.w_est_q24 >> 24).unwrap_or(u32::MAX)
    }

    /// Returns the growth toward the target (§4.4 and §4.5): (target − cwnd)/cwnd for each byte
    /// acknowledged, and carries the remainder.
    fn approach(&mut self, cwnd_bytes: u32, target_bytes: u32, acked_bytes: u32) -> u32 {
        let cwnd = u64::from(cwnd_bytes.max(1));
        let gap = target_bytes.saturating_sub(cwnd_bytes);
        let sum = self.carry + u64::from(gap) * u64::from(acked_bytes);
        self.carry = sum % cwnd;
        cwnd_bytes + (sum / cwnd).min(u64::from(gap)) as u32
    }
}

impl Control for Cubic {
    fn acked(&mut self, window: &mut Window, acked: &Acked) {
        if window.in_slow_start() {
            return self.slow_start.acked(window, acked);
        }
        let mut epoch = match self.curve.epoch.take() {
            Some(epoch) => epoch,
            None => self.curve.begin(window, acked.now),
        };
        let (w_max, smss) = (self.curve.w_max_bytes, window.smss_bytes);
        let srtt = acked.srtt.unwrap_or(Nanos::ZERO);
        let t = epoch.elapsed(acked.now, srtt);
        let estimate = epoch.grow_estimate(window, self.curve.cwnd_prior_bytes, acked.bytes);
        let cwnd = window.cwnd_bytes;
        window.cwnd_bytes = if epoch.w_cubic_bytes(t, w_max, smss) < i64::from(estimate) {
            // §4.3, the Reno-friendly region. An ACK never shrinks the window
            cwnd.max(estimate)
        } else {
            // §4.2: between cwnd and 1.5·cwnd
            let (least, most) = (i64::from(cwnd), i64::from(cwnd) + i64::from(cwnd / 2));
            let target = epoch
                .w_cubic_bytes(t + srtt, w_max, smss)
                .clamp(least, most);
            let target = u32::try_from(target).unwrap_or(u32::MAX);
            epoch.approach(cwnd, target, acked.bytes)
        };
        window.cwnd_bytes = window.cwnd_bytes.min(MAX_CWND_BYTES);
        self.curve.epoch = Some(epoch);
    }

    fn lost(&mut self, window: &Window, flight_bytes: u32, _now: Nanos) -> u32 {
        self.curve.reduce(window);
        self.before_timeout = None;
        threshold(flight_bytes, window)
    }

    fn timed_out(&mut self, window: &Window, flight_bytes: u32, _now: Nanos) -> u32 {
        self.before_timeout = Some(self.curve.clone());
        // §4.8: avoidance will start with K = 0 and W_max = cwnd
        self.curve = Curve {
            w_max_bytes: 0,
            cwnd_prior_bytes: window.cwnd_bytes,
            epoch: None,
        };
        threshold(flight_bytes, window)
    }

    /// Returns β times the window, not the flight as after a loss: a sender limited by its window has filled the
    /// window.
    fn marked(&mut self, window: &Window, _now: Nanos) -> u32 {
        self.curve.reduce(window);
        self.before_timeout = None;
        threshold(window.cwnd_bytes, window)
    }

    fn undone(&mut self) {
        if let Some(before) = self.before_timeout.take() {
            self.curve = before;
        }
    }
}

/// Returns ssthresh = β·flight, at least two segments (§4.6).
fn threshold(flight_bytes: u32, window: &Window) -> u32 {
    scale(flight_bytes, BETA.0, BETA.1).max(2 * window.smss_bytes)
}

fn scale(bytes: u32, times: u64, over: u64) -> u32 {
    (u64::from(bytes) * times / over) as u32
}

fn seconds_q20(span: Nanos) -> i64 {
    ((u128::from(span.0) << 20) / 1_000_000_000).min(SPAN_MOST_Q20 as u128) as i64
}

/// Returns the largest integer whose cube is at most `cube`, which lies below 2^99: exact, so K is
/// at most 2^−20 s too short. One bit per step, once for each stage of congestion avoidance.
fn cube_root(cube: u128) -> u64 {
    let mut root: u128 = 0;
    for bit in (0..33).rev() {
        let larger = root | 1 << bit;
        if larger * larger * larger <= cube {
            root = larger;
        }
    }
    root as u64
}

#[cfg(test)]
mod tests;
