//! What grows and cuts the congestion window, in bytes. Recovery (what is sent again, and when)
//! is the sender's and the same for all.

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

/// An ACK of new data, in recovery too.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Bytes that it acknowledges for the first time.
    pub bytes: u32,
    /// It carries ECE.
    pub ece: bool,
    /// SND.UNA after it.
    pub una: u32,
    /// SND.NXT.
    pub nxt: u32,
    /// The round-trip time of the last segment that it covers, for a law that
    /// [measures it](Law::measures_delay); none if Karn's rule forbids it.
    pub rtt: Option<Nanos>,
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

    /// Every ACK of new data, in recovery too, before anything else.
    fn observed(&mut self, _observed: &Observed) {}
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
    /// RFC 3649.
    HighSpeed(HighSpeed),
    /// Brakmo and Peterson 1995.
    Vegas(Vegas),
    /// Liu, Başar and Srikant 2006.
    Illinois(Illinois),
}

/// One call to whichever it is.
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
            CongestionControl::HighSpeed => Law::HighSpeed(HighSpeed::default()),
            CongestionControl::Vegas => Law::Vegas(Vegas::default()),
            CongestionControl::Illinois => Law::Illinois(Illinois::default()),
        }
    }

    /// It wants the round-trip time of every ACK.
    pub fn measures_delay(&self) -> bool {
        matches!(self, Law::Vegas(_) | Law::Illinois(_))
    }

    /// DCTCP's α in 1/1024; 0 for others.
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
