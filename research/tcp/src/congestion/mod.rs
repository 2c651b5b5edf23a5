//! Growth and reduction of the congestion window, in bytes. Loss recovery (what is retransmitted,
//! and when) belongs to the sender and is the same for every algorithm.

mod additive;
mod control;
mod cubic;
mod dctcp;
mod highspeed;
mod illinois;
mod newreno;
mod round;
mod vegas;

pub use control::{Acked, Control, MAX_CWND_BYTES, Observed, Window};
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use highspeed::HighSpeed;
pub use illinois::Illinois;
pub use newreno::NewReno;
pub use vegas::Vegas;

use uc_net::Nanos;

use crate::config::CongestionControl;

/// A congestion control of any kind, without a pointer to follow.
#[derive(Clone, Debug)]
pub enum Law {
    /// NewReno of RFC 5681.
    NewReno(NewReno),
    /// CUBIC of RFC 9438.
    Cubic(Cubic),
    /// DCTCP of RFC 8257.
    Dctcp(Dctcp),
    /// HighSpeed TCP of RFC 3649.
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
    #[inline]
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

    #[inline]
    fn observed(&mut self, observed: &Observed) {
        each!(self, law => law.observed(observed));
    }
}
