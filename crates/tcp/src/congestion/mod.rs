//! What grows and cuts the congestion window, in bytes. Recovery (what is sent again, and when)
//! is the sender's and the same for all.

mod cubic;
mod dctcp;
mod newreno;

pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use newreno::NewReno;

use uc_net::Nanos;

use crate::config::CongestionControl;

/// No window grows beyond this: what the largest receive window can be (RFC 7323 §2.3), 1 GiB.
pub const MAX_CWND_BYTES: u32 = 1 << 30;

/// The variables of RFC 5681 §2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window.
    pub cwnd_bytes: u32,
    /// Slow-start threshold.
    pub ssthresh_bytes: u32,
    /// Sender maximum segment size.
    pub smss_bytes: u32,
}

impl Window {
    /// RFC 5681 §3.1: slow start below the threshold.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd_bytes < self.ssthresh_bytes
    }
}

/// An ACK of new data outside of recovery.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// When it came.
    pub now: Nanos,
    /// Bytes that it acknowledges for the first time.
    pub bytes: u32,
    /// Smoothed round-trip time; none before the first sample.
    pub srtt: Option<Nanos>,
}

/// A congestion control. Every reduction answers with the new ssthresh; the sender sets cwnd by
/// what caused it (RFC 5681 §3.2, RFC 3168 §6.1.2).
pub trait Control {
    /// New data acknowledged outside of recovery, by a sender that its window held back.
    fn acked(&mut self, window: &mut Window, acked: &Acked);

    /// ssthresh after a loss found by duplicate ACKs or SACK, with `flight_bytes` in flight.
    fn lost(&mut self, window: &Window, flight_bytes: u32, now: Nanos) -> u32;

    /// ssthresh after a first retransmission timeout.
    fn timed_out(&mut self, window: &Window, flight_bytes: u32, now: Nanos) -> u32;

    /// ssthresh after an ECE, at most once for a window of data (RFC 3168 §6.1.2).
    fn marked(&mut self, window: &Window, now: Nanos) -> u32;

    /// A spurious timeout's reduction was taken back.
    fn undone(&mut self) {}

    /// Every ACK of new data, in recovery too, before anything else: its bytes and whether it
    /// carries ECE; `una` is snd_una after it and `nxt` snd_nxt (DCTCP's observation window).
    fn observed(&mut self, _bytes: u32, _ece: bool, _una: u32, _nxt: u32) {}
}

/// Any of them, without a pointer to follow.
#[derive(Clone, Debug)]
pub enum Law {
    /// RFC 5681.
    NewReno(NewReno),
    /// RFC 9438.
    Cubic(Cubic),
    /// RFC 8257.
    Dctcp(Dctcp),
}

impl Law {
    /// The law of a new connection.
    pub fn new(config: CongestionControl) -> Law {
        match config {
            CongestionControl::NewReno => Law::NewReno(NewReno::default()),
            CongestionControl::NewRenoByAcks => Law::NewReno(NewReno::by_acks()),
            CongestionControl::Cubic => Law::Cubic(Cubic::default()),
            CongestionControl::Dctcp {
                gain_shift,
                initial_alpha_q10,
            } => Law::Dctcp(Dctcp::new(gain_shift, initial_alpha_q10)),
        }
    }
}

impl Control for Law {
    fn acked(&mut self, window: &mut Window, acked: &Acked) {
        match self {
            Law::NewReno(law) => law.acked(window, acked),
            Law::Cubic(law) => law.acked(window, acked),
            Law::Dctcp(law) => law.acked(window, acked),
        }
    }

    fn lost(&mut self, window: &Window, flight_bytes: u32, now: Nanos) -> u32 {
        match self {
            Law::NewReno(law) => law.lost(window, flight_bytes, now),
            Law::Cubic(law) => law.lost(window, flight_bytes, now),
            Law::Dctcp(law) => law.lost(window, flight_bytes, now),
        }
    }

    fn timed_out(&mut self, window: &Window, flight_bytes: u32, now: Nanos) -> u32 {
        match self {
            Law::NewReno(law) => law.timed_out(window, flight_bytes, now),
            Law::Cubic(law) => law.timed_out(window, flight_bytes, now),
            Law::Dctcp(law) => law.timed_out(window, flight_bytes, now),
        }
    }

    fn marked(&mut self, window: &Window, now: Nanos) -> u32 {
        match self {
            Law::NewReno(law) => law.marked(window, now),
            Law::Cubic(law) => law.marked(window, now),
            Law::Dctcp(law) => law.marked(window, now),
        }
    }

    fn undone(&mut self) {
        match self {
            Law::NewReno(law) => law.undone(),
            Law::Cubic(law) => law.undone(),
            Law::Dctcp(law) => law.undone(),
        }
    }

    fn observed(&mut self, bytes: u32, ece: bool, una: u32, nxt: u32) {
        match self {
            Law::NewReno(_) | Law::Cubic(_) => {}
            Law::Dctcp(law) => law.observed(bytes, ece, una, nxt),
        }
    }
}
