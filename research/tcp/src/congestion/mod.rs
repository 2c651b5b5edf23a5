//! Growth and reduction of the congestion window, in bytes. Loss recovery (what is retransmitted,
//! and when) belongs to the sender and is the same for every algorithm.

mod additive;
mod cubic;
mod dctcp;
mod highspeed;
mod illinois;
mod newreno;
mod round;
mod vegas;

pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use highspeed::HighSpeed;
pub use illinois::Illinois;
pub use newreno::NewReno;
pub use vegas::Vegas;

use uc_net::Nanos;

use crate::config::CongestionControl;

/// Maximum congestion window: the largest receive window that can be advertised (RFC 7323 §2.3), 1
/// GiB.
pub const MAX_CWND_BYTES: u32 = 1 << 30;

/// The variables of RFC 5681 §2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window (cwnd).
    pub cwnd_bytes: u32,
    /// Slow-start threshold (ssthresh).
    pub ssthresh_bytes: u32,
    /// Sender maximum segment size (SMSS).
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
    /// Time of arrival.
    pub now: Nanos,
    /// Newly acknowledged bytes.
    pub bytes: u32,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Nanos>,
}

/// An ACK of new data, in or outside of recovery.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Newly acknowledged bytes.
    pub bytes: u32,
    /// Whether the ACK carries ECE.
    pub ece: bool,
    /// SND.UNA after the ACK.
    pub una: u32,
    /// SND.NXT when the ACK arrived.
    pub nxt: u32,
    /// Round-trip time of the last segment that the ACK covers, for a law that [measures
    /// it](Law::measures_delay); `None` if Karn's rule forbids the sample.
    pub rtt: Option<Nanos>,
}

/// A congestion control. Every reduction returns the new ssthresh; the sender sets cwnd according
/// to the cause (RFC 5681 §3.2, RFC 3168 §6.1.2).
pub trait Control {
    /// Grows the window for new data acknowledged outside of recovery, at a sender that its window
    /// limited.
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

/// A congestion control of any kind, without a pointer to follow.
#[derive(Clone, Debug)]
pub enum Law {
    /// NewReno (RFC 5681).
    NewReno(NewReno),
    /// CUBIC (RFC 9438).
    Cubic(Cubic),
    /// DCTCP (RFC 8257).
    Dctcp(Dctcp),
    /// HighSpeed TCP (RFC 3649).
    HighSpeed(HighSpeed),
    /// TCP Vegas (Brakmo and Peterson 1995).
    Vegas(Vegas),
    /// TCP-Illinois (Liu, Başar and Srikant 2006).
    Illinois(Illinois),
}

/// Calls the same method on whichever algorithm the law holds.
macro_rules! each {
    ($law:expr, $inner:ident => $call:expr) => {
        match $law {
            Law::NewReno($inner) => $call,
            Law::Cubic($inner) => $call,
            Law::Dctcp($inner) => $call,
            Law::HighSpeed($inner) => $call,
            Law::Vegas($inner) => $call,
            Law::Illinois($inner) => $call,
        }
    };
}

impl Law {
    /// Creates the congestion control of a new connection.
    pub fn new(config: CongestionControl) -> Law {
        match config {
            CongestionControl::NewReno => Law::NewReno(NewReno::default()),
            CongestionControl::NewRenoByAcks => Law::NewReno(NewReno::by_acks()),
            CongestionControl::Cubic => Law::Cubic(Cubic::default()),
            CongestionControl::Dctcp {
                gain_shift,
                initial_alpha_q10,
            } => Law::Dctcp(Dctcp::new(gain_shift, initial_alpha_q10)),
            CongestionControl::HighSpeed => Law::HighSpeed(HighSpeed::default()),
            CongestionControl::Vegas => Law::Vegas(Vegas::default()),
            CongestionControl::Illinois => Law::Illinois(Illinois::default()),
        }
    }

    /// Returns whether the law uses the round-trip time of every ACK.
    pub fn measures_delay(&self) -> bool {
        matches!(self, Law::Vegas(_) | Law::Illinois(_))
    }

    /// Returns DCTCP's α in 1/1024; 0 for other laws.
    pub fn alpha_q10(&self) -> u32 {
        match self {
            Law::Dctcp(law) => law.alpha_q10(),
            _ => 0,
        }
    }
}

impl Control for Law {
    fn acked(&mut self, window: &mut Window, acked: &Acked) {
        each!(self, law => law.acked(window, acked));
    }

    fn lost(&mut self, window: &Window, flight_bytes: u32, now: Nanos) -> u32 {
        each!(self, law => law.lost(window, flight_bytes, now))
    }

    fn timed_out(&mut self, window: &Window, flight_bytes: u32, now: Nanos) -> u32 {
        each!(self, law => law.timed_out(window, flight_bytes, now))
    }

    fn marked(&mut self, window: &Window, now: Nanos) -> u32 {
        each!(self, law => law.marked(window, now))
    }

    fn undone(&mut self) {
        each!(self, law => law.undone());
    }

    fn observed(&mut self, observed: &Observed) {
        each!(self, law => law.observed(observed));
    }
}
