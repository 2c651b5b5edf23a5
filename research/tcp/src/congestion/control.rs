//! What a congestion control is: its window, the events that it learns of, and its answers.

use uc_net::Nanos;

/// Maximum congestion window: the largest receive window that can be advertised (RFC 7323 §2.3), 1
/// GiB.
pub const MAX_CWND_BYTES: u32 = 1 << 30;

/// The variables of RFC 5681 §2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window (cwnd), in bytes.
    pub cwnd_bytes: u32,
    /// Slow-start threshold (ssthresh), in bytes.
    pub ssthresh_bytes: u32,
    /// Sender maximum segment size (SMSS), in bytes.
    pub smss_bytes: u32,
}

impl Window {
    /// Returns whether the window is below the threshold (RFC 5681 §3.1).
    pub fn in_slow_start(&self) -> bool {
        self.cwnd_bytes < self.ssthresh_bytes
    }
}

/// An ACK of new data outside of recovery.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// Time at which the ACK arrived.
    pub now: Nanos,
    /// Number of bytes that the ACK newly acknowledges.
    pub bytes: u32,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Nanos>,
}

/// An ACK of new data, in or outside of recovery.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Number of bytes that the ACK newly acknowledges.
    pub bytes: u32,
    /// Whether the ACK has the flag ECE.
    pub ece: bool,
    /// SND.UNA after the ACK.
    pub una: u32,
    /// SND.NXT when the ACK arrived.
    pub nxt: u32,
    /// Round-trip time of the last segment that the ACK covers, for a law that [measures
    /// it](super::Law::measures_delay); `None` if Karn's rule forbids the sample.
    pub rtt: Option<Nanos>,
}

/// A congestion control. Every reduction returns the new ssthresh; the sender sets cwnd according
/// to the cause (RFC 5681 §3.2, RFC 3168 §6.1.2).
pub trait Control {
    /// Grows the window for new data acknowledged outside of recovery. With `cwnd_validation` called only if the
    /// window limited the sender.
    fn acked(&mut self, window: &mut Window, acked: &Acked);

    /// Returns ssthresh after a loss found by duplicate ACKs or SACK, with `flight_bytes` in
    /// flight.
    fn lost(&mut self, window: &Window, flight_bytes: u32, now: Nanos) -> u32;

    /// Returns ssthresh after a first retransmission timeout.
    fn timed_out(&mut self, window: &Window, flight_bytes: u32, now: Nanos) -> u32;

    /// Returns ssthresh after an ECE, called at most once for a window of data (RFC 3168 §6.1.2).
    fn marked(&mut self, window: &Window, now: Nanos) -> u32;

    /// Takes back the reduction of a spurious timeout.
    fn undone(&mut self) {}

    /// Observes every ACK of new data, in recovery too, before any other call for that ACK.
    fn observed(&mut self, _observed: &Observed) {}
}
