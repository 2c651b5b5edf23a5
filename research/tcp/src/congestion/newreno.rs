//! NewReno's window (RFC 5681 §3.1) in bytes, counted by bytes acknowledged or by ACKs.

use uc_net::Nanos;

use super::control::{Acked, Control, MAX_CWND_BYTES, Window};

/// The NewReno state of a connection (RFC 5681).
#[derive(Clone, Debug, Default)]
pub struct NewReno {
    /// Bytes acknowledged toward the next segment of congestion avoidance.
    acked_bytes: u32,
    /// Whether growth is counted by ACKs; see [`NewReno::by_acks`].
    by_acks: bool,
}

impl NewReno {
    /// Creates a NewReno that grows by a fraction of a segment for each ACK (RFC 5681 equation
    /// (3)). A loss halves the window with its fraction. Deviates there from §3.2, which halves the
    /// flight of whole segments; ns-2 and htsim count this way.
    pub fn by_acks() -> NewReno {
        NewReno {
            by_acks: true,
            ..NewReno::default()
        }
    }

    /// Returns the bytes that a loss halves.
    fn halved(&self, window: &Window, flight_bytes: u32) -> u32 {
        if self.by_acks {
            window.cwnd_bytes
        } else {
            flight_bytes
        }
    }
}

/// Returns half of `bytes`, at least two segments (RFC 5681 equation (4)).
fn half(bytes: u32, smss_bytes: u32) -> u32 {
    (bytes / 2).max(2 * smss_bytes)
}

impl Control for NewReno {
    #[inline]
    fn acked(&mut self, window: &mut Window, acked: &Acked) {
        if window.in_slow_start() {
            window.cwnd_bytes += acked.bytes.min(window.smss_bytes); // RFC 5681 equation (2)
        } else if self.by_acks {
            let (smss, cwnd) = (u64::from(window.smss_bytes), u64::from(window.cwnd_bytes));
            window.cwnd_bytes += (smss * smss / cwnd).max(1) as u32; // RFC 5681 equation (3)
        } else {
            // RFC 5681 §3.1, the recommended way: a window of bytes acknowledged adds one segment
            self.acked_bytes += acked.bytes;
            if self.acked_bytes >= window.cwnd_bytes {
                self.acked_bytes -= window.cwnd_bytes;
                window.cwnd_bytes += window.smss_bytes;
            }
        }
        window.cwnd_bytes = window.cwnd_bytes.min(MAX_CWND_BYTES);
    }

    fn lost(&mut self, window: &Window, flight_bytes: u32, _now: Nanos) -> u32 {
        self.acked_bytes = 0;
        half(self.halved(window, flight_bytes), window.smss_bytes)
    }

    fn timed_out(&mut self, window: &Window, flight_bytes: u32, _now: Nanos) -> u32 {
        self.acked_bytes = 0;
        half(flight_bytes, window.smss_bytes)
    }

    /// Halves the congestion window (RFC 3168 §6.1.2), where RFC 5681 halves the flight on a loss.
    fn marked(&mut self, window: &Window, _now: Nanos) -> u32 {
        self.acked_bytes = 0;
        half(window.cwnd_bytes, window.smss_bytes)
    }
}
