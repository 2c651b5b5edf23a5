//! DCTCP (RFC 8257), the sender's half.
//!
//! α has 30 fraction bits. With the ten of the RFC's usual implementation an α below 16/1024 no
//! longer moves by 1/16 of itself and has to be forced to zero; here it decays to 2^−26 by the
//! formula alone.

use uc_net::Nanos;

use super::control::{Acked, Control, Observed, Window};
use super::newreno::NewReno;

const ALPHA_BITS: u32 = 30;
const ONE_Q30: u64 = 1 << ALPHA_BITS;

/// The DCTCP state of a connection.
#[derive(Clone, Debug)]
pub struct Dctcp {
    /// Growth and the response to loss, which are conventional (RFC 8257 §3.3, §3.5).
    conventional: NewReno,
    /// Exponent of the estimation gain g = 2^−gain_shift (RFC 8257 §3.3 step 6, §4.2).
    gain_shift: u8,
    alpha_q30: u64,
    /// End of the observation window, a sequence number; `None` before the first ACK, which ends a window as if the end
    /// were SND.UNA.
    window_end: Option<u32>,
    acked_bytes: u64,
    marked_bytes: u64,
}

impl Dctcp {
    /// Creates the state with the gain 2^−`gain_shift` and an initial α in 1/1024.
    pub fn new(gain_shift: u8, initial_alpha_q10: u16) -> Dctcp {
        Dctcp {
            conventional: NewReno::default(),
            gain_shift: gain_shift.min(ALPHA_BITS as u8),
            alpha_q30: (u64::from(initial_alpha_q10) << (ALPHA_BITS - 10)).min(ONE_Q30),
            window_end: None,
            acked_bytes: 0,
            marked_bytes: 0,
        }
    }

    /// Returns α in 1/1024, rounded to the nearest.
    pub fn alpha_q10(&self) -> u32 {
        let half = 1 << (ALPHA_BITS - 11);
        ((self.alpha_q30 + half) >> (ALPHA_BITS - 10)) as u32
    }
}

impl Control for Dctcp {
    #[inline]
    fn acked(&mut self, window: &mut Window, acked: &Acked) {
        self.conventional.acked(window, acked);
    }

    /// Responds to a loss as conventional TCP does (RFC 8257 §3.5).
    fn lost(&mut self, window: &Window, flight_bytes: u32, now: Nanos) -> u32 {
        self.conventional.lost(window, flight_bytes, now)
    }

    fn timed_out(&mut self, window: &Window, flight_bytes: u32, now: Nanos) -> u32 {
        self.conventional.timed_out(window, flight_bytes, now)
    }

    /// Returns cwnd·(1 − α/2), at least two segments (RFC 8257 §3.3 step 9).
    fn marked(&mut self, window: &Window, now: Nanos) -> u32 {
        // every reduction restarts the count toward the next segment
        self.conventional.marked(window, now);
        let cwnd = u64::from(window.cwnd_bytes);
        let cut = (cwnd * self.alpha_q30) >> (ALPHA_BITS + 1);
        ((cwnd - cut) as u32).max(2 * window.smss_bytes)
    }

    fn undone(&mut self) {
        self.conventional.undone();
    }

    /// Counts the acknowledged and the marked bytes of one ACK, and updates α at the end of each
    /// observation window (RFC 8257 §3.3 steps 1 to 8).
    #[inline]
    fn observed(&mut self, observed: &Observed) {
        self.acked_bytes += u64::from(observed.bytes);
        if observed.ece {
            self.marked_bytes += u64::from(observed.bytes);
        }
        let inside = |end: u32| (observed.una.wrapping_sub(end) as i32) <= 0;
        if self.window_end.is_some_and(inside) || self.acked_bytes == 0 {
            return;
        }
        let fraction_q30 = (self.marked_bytes << ALPHA_BITS) / self.acked_bytes;
        // α ← α·(1 − g) + g·M
        self.alpha_q30 -= self.alpha_q30 >> self.gain_shift;
        self.alpha_q30 = (self.alpha_q30 + (fraction_q30 >> self.gain_shift)).min(ONE_Q30);
        self.window_end = Some(observed.nxt);
        (self.acked_bytes, self.marked_bytes) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMSS: u32 = 1448;

    fn segment(ece: bool, una: u32, nxt: u32) -> Observed {
        Observed {
            bytes: SMSS,
            ece,
            una,
            nxt,
            rtt: None,
        }
    }

    /// Acknowledges `windows` windows of ten segments, `marked` of each with ECE.
    fn observe(dctcp: &mut Dctcp, windows: u32, marked: u32, una: &mut u32) {
        for _ in 0..windows {
            for nth in 0..10 {
                *una = una.wrapping_add(SMSS);
                let nxt = una.wrapping_add(10 * SMSS);
                dctcp.observed(&segment(nth < marked, *una, nxt));
            }
        }
    }

    fn window(segments: u32) -> Window {
        Window {
            cwnd_bytes: segments * SMSS,
            ssthresh_bytes: segments * SMSS,
            smss_bytes: SMSS,
        }
    }

    #[test]
    fn alpha_follows_the_formula_within_a_millionth() {
        let mut dctcp = Dctcp::new(4, 1024);
        let (mut una, mut alpha) = (0_u32, 1.0_f64);
        // the first ACK closes a window of its own; the next ends when more than was in flight then
        // is acknowledged, so windows are eleven ACKs long here
        let mut counted = (0.0, 0.0, None::<u32>);
        for ack in 0..20_000_u32 {
            una = una.wrapping_add(SMSS);
            let ece = ack % 7 == 0 && ack < 10_000;
            dctcp.observed(&segment(ece, una, una.wrapping_add(10 * SMSS)));
            counted.0 += 1.0;
            counted.1 += f64::from(u8::from(ece));
            if counted.2.is_none_or(|end| una > end) {
                alpha = alpha * (1.0 - 1.0 / 16.0) + counted.1 / counted.0 / 16.0;
                counted = (0.0, 0.0, Some(una + 10 * SMSS));
            }
            let ours = dctcp.alpha_q30 as f64 / ONE_Q30 as f64;
            assert!(
                (ours - alpha).abs() < 1e-6,
                "ACK {ack}: {ours} against {alpha}"
            );
        }
    }

    #[test]
    fn alpha_decays_far_below_a_thousandth() {
        let mut dctcp = Dctcp::new(4, 1024);
        observe(&mut dctcp, 400, 0, &mut 0);
        assert_eq!(dctcp.alpha_q10(), 0);
        assert!(dctcp.alpha_q30 < 16, "stalled at {}", dctcp.alpha_q30);
    }

    #[test]
    fn marks_on_every_segment_make_alpha_one_and_the_reduction_a_half() {
        let mut dctcp = Dctcp::new(4, 0);
        observe(&mut dctcp, 1000, 10, &mut (u32::MAX - 50_000));
        assert_eq!(dctcp.alpha_q10(), 1024);
        let cut = dctcp.marked(&window(100), Nanos::ZERO);
        assert!(cut.abs_diff(50 * SMSS) <= 1, "{cut}");
    }

    #[test]
    fn reduction_is_half_of_alpha_and_leaves_two_segments() {
        let mut dctcp = Dctcp::new(4, 512);
        assert_eq!(dctcp.marked(&window(100), Nanos::ZERO), 75 * SMSS);
        assert_eq!(dctcp.marked(&window(2), Nanos::ZERO), 2 * SMSS);
    }

    #[test]
    fn a_loss_halves_whatever_alpha_is() {
        let mut dctcp = Dctcp::new(4, 0);
        assert_eq!(dctcp.lost(&window(100), 80 * SMSS, Nanos::ZERO), 40 * SMSS);
        assert_eq!(
            dctcp.timed_out(&window(100), 80 * SMSS, Nanos::ZERO),
            40 * SMSS
        );
        assert_eq!(dctcp.alpha_q10(), 0);
    }

    #[test]
    fn one_window_updates_alpha_once() {
        let mut dctcp = Dctcp::new(4, 0);
        dctcp.observed(&segment(true, SMSS, 100 * SMSS));
        let after_first = dctcp.alpha_q30;
        for nth in 2..=100 {
            dctcp.observed(&segment(true, nth * SMSS, 200 * SMSS));
        }
        assert_eq!(dctcp.alpha_q30, after_first);
        dctcp.observed(&segment(true, 101 * SMSS, 200 * SMSS));
        assert!(dctcp.alpha_q30 > after_first);
    }
}
