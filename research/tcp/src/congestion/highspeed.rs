//! HighSpeed TCP (RFC 3649): a large window grows faster and is reduced by less. Slow start is
//! NewReno's: the limited slow start (RFC 3742) that RFC 3649 recommends is not implemented.

use uc_net::Nanos;

use super::additive::{Additive, ONE_SEGMENT_Q16, reduced};
use super::control::{Acked, Control, Window};
use super::newreno::NewReno;

/// Windows of RFC 3649 appendix B, w in segments: entry i is the smallest window that grows by i+1
/// segments in a round trip.
const WINDOWS: [u32; 73] = [
    38, 118, 221, 347, 495, 663, 851, 1058, 1284, 1529, 1793, 2076, 2378, 2699, 3039, 3399, 3778,
    4177, 4596, 5036, 5497, 5979, 6483, 7009, 7558, 8130, 8726, 9346, 9991, 10661, 11358, 12082,
    12834, 13614, 14424, 15265, 16137, 17042, 17981, 18955, 19965, 21013, 22101, 23230, 24402,
    25618, 26881, 28193, 29557, 30975, 32450, 33986, 35586, 37253, 38992, 40808, 42707, 44694,
    46776, 48961, 51258, 53677, 56230, 58932, 61799, 64851, 68113, 71617, 75401, 79517, 84035,
    89053, 94717,
];

/// Reduction factor b(w) of RFC 3649 for each entry of `WINDOWS`, × 2^16, from the RFC's equation; its
/// appendix B prints only two decimals.
const CUTS_Q16: [u16; 73] = [
    32768, 28905, 26766, 25227, 24016, 23020, 22169, 21427, 20767, 20171, 19628, 19129, 18666,
    18234, 17829, 17448, 17087, 16745, 16419, 16107, 15809, 15522, 15246, 14980, 14723, 14474,
    14233, 13999, 13772, 13550, 13334, 13124, 12918, 12717, 12520, 12327, 12137, 11951, 11768,
    11588, 11411, 11237, 11065, 10895, 10727, 10561, 10397, 10235, 10074, 9914, 9755, 9598, 9441,
    9285, 9129, 8974, 8819, 8664, 8509, 8353, 8197, 8040, 7881, 7721, 7559, 7395, 7228, 7057, 6881,
    6700, 6511, 6314, 6103,
];

/// The HighSpeed TCP state of a connection.
#[derive(Clone, Debug, Default)]
pub struct HighSpeed {
    slow_start: NewReno,
    additive: Additive,
}

/// Returns the index in `WINDOWS` of the last entry that a window has reached; 0 below Low_Window (§5), where the
/// behaviour is standard.
fn row(bytes: u32, smss_bytes: u32) -> usize {
    let segments = bytes / smss_bytes.max(1);
    let reached = WINDOWS.partition_point(|least| *least <= segments);
    reached.saturating_sub(1)
}

/// Returns a(w) (§5): segments for each round trip, × 2^16.
fn increase_q16(window: &Window) -> u32 {
    (row(window.cwnd_bytes, window.smss_bytes) as u32 + 1) * ONE_SEGMENT_Q16
}

/// Returns w·(1 − b(w)) (§4) for the window w = `bytes`, but at least two segments.
fn cut(bytes: u32, smss_bytes: u32) -> u32 {
    let b_q16 = u32::from(CUTS_Q16[row(bytes, smss_bytes)]);
    reduced(bytes, b_q16, smss_bytes)
}

impl Control for HighSpeed {
    fn acked(&mut self, window: &mut Window, acked: &Acked) {
        if window.in_slow_start() {
            return self.slow_start.acked(window, acked);
        }
        // §4: w ← w + a(w)/w for each ACK
        let a_q16 = increase_q16(window);
        self.additive.grow(window, acked.bytes, a_q16);
    }

    fn lost(&mut self, window: &Window, flight_bytes: u32, _now: Nanos) -> u32 {
        self.additive.reset();
        cut(flight_bytes, window.smss_bytes)
    }

    /// Reduces by RFC 5681 equation (4): §4 covers losses and marks only.
    fn timed_out(&mut self, window: &Window, flight_bytes: u32, now: Nanos) -> u32 {
        self.additive.reset();
        self.slow_start.timed_out(window, flight_bytes, now)
    }

    /// Responds to a mark as to a loss (§4), but reduces the window instead of the flight, as in RFC 3168 §6.1.2.
    fn marked(&mut self, window: &Window, _now: Nanos) -> u32 {
        self.additive.reset();
        cut(window.cwnd_bytes, window.smss_bytes)
    }
}

#[cfg(test)]
mod tests;
