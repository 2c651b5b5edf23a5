//! Coupled congestion control (ctrlTCP, Islam and others, §III): the connection's own law goes on
//! computing, and its results are reported to a controller whose answer decides before anything is
//! sent. The controller belongs to the caller; this module does not know it.

use uc_net::Nanos;

use crate::connection::{Connection, State};
use crate::segment::Segment;
use crate::sender::{Phase, Sender};

/// The phase of a connection's congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The window is below ssthresh (RFC 5681 §3.1).
    SlowStart,
    /// The window is at or above ssthresh.
    Avoidance,
    /// Fast recovery, or the round trip after a mark: the connection's own law moves the window to
    /// ssthresh.
    Recovery,
    /// The time after a timeout, until the data that was in flight at the timeout is acknowledged.
    Loss,
}

/// A report of the connection's own law, and of how much of its window is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Computed {
    /// Congestion window (cwnd), in bytes.
    pub cwnd_bytes: u32,
    /// Slow-start threshold (ssthresh), in bytes.
    pub ssthresh_bytes: u32,
    /// Number of bytes that were sent and are not acknowledged.
    pub flight_bytes: u32,
    /// Maximum of `flight_bytes` in this round trip and the one before.
    pub used_bytes: u32,
    /// Bytes acknowledged since the last report.
    pub acked_bytes: u32,
    /// Payload of a full segment, in bytes.
    pub smss_bytes: u32,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Nanos>,
    /// Age of the first unacknowledged segment, in recovery and after a timeout; `None` if it was
    /// retransmitted since.
    pub lost_age: Option<Nanos>,
    /// Phase of the connection.
    pub stage: Stage,
    /// Whether the retransmission timer has fired since the last report.
    pub timed_out: bool,
    /// Whether the application, not the congestion window, limits the connection: no unsent data is
    /// held back by the window.
    pub limited: bool,
}

impl Connection {
    /// Hands the window over to a controller. The connection then sends nothing by itself but
    /// handshakes and ACKs that can't wait: after each call that may have changed something, the
    /// caller calls [`Connection::computed`], [`Connection::obey`] and [`Connection::send`].
    pub fn overrule(&mut self) {
        self.overruled.get_or_insert_default();
        // The controller redistributes what an idle connection leaves; restarting by itself would
        // shrink the window of all (RFC 5681 §4.1 assumes a window that nobody else uses).
        self.sender.habits.restart_after_idle = false;
        self.sender.send_times.get_or_insert_default();
    }

    /// Returns the report of the connection's own law. `None` before the handshake is complete,
    /// after the last byte is acknowledged, and for a connection that is not overruled.
    pub fn computed(&mut self, now: Nanos) -> Option<Computed> {
        let sender = &self.sender;
        if self.state != State::Established || sender.is_finished() {
            return None;
        }
        let overruled = self.overruled.as_mut()?;
        let (una_before, flight_bytes) = (overruled.una, sender.flight_bytes());
        let acked_bytes = overruled.hear(sender);
        let used_bytes = overruled.used_bytes.max(overruled.used_before_bytes);
        let timeouts = std::mem::replace(&mut overruled.timeouts, sender.totals.timeouts);
        let stage = sender.stage();
        let repairs = matches!(stage, Stage::Recovery | Stage::Loss);
        Some(Computed {
            cwnd_bytes: sender.window.cwnd_bytes,
            ssthresh_bytes: sender.window.ssthresh_bytes,
            flight_bytes,
            used_bytes: used_bytes.max(flight_bytes),
            acked_bytes,
            smss_bytes: sender.window.smss_bytes,
            srtt: sender.rto.srtt(),
            lost_age: sender.oldest_age(now).filter(|_| repairs),
            stage,
            timed_out: sender.totals.timeouts > timeouts,
            limited: una_before >= sender.limited_end && !sender.is_held_back(),
        })
    }

    /// Applies the controller's answer. In recovery the connection keeps its own window, which moves to the new
    /// ssthresh.
    pub fn obey(&mut self, cwnd_bytes: u32, ssthresh_bytes: u32) {
        let stage = self.sender.stage();
        let window = &mut self.sender.window;
        window.ssthresh_bytes = ssthresh_bytes;
        if stage != Stage::Recovery {
            window.cwnd_bytes = cwnd_bytes;
        }
    }

    /// Sends the segments that the windows allow now.
    pub fn send(&mut self, now: Nanos, out: &mut impl FnMut(Segment)) {
        self.send_all(now, out);
        let (flight_bytes, max) = (self.sender.flight_bytes(), self.sender.max);
        if let Some(overruled) = &mut self.overruled {
            overruled.round_end.get_or_insert(max);
            overruled.used_bytes = overruled.used_bytes.max(flight_bytes);
        }
    }
}

impl Sender {
    fn stage(&self) -> Stage {
        match self.phase {
            Phase::Loss => Stage::Loss,
            Phase::Fast => Stage::Recovery,
            Phase::Open if self.una < self.cut_end => Stage::Recovery, // RFC 3168 §6.1.2's window
            Phase::Open if self.window.in_slow_start() => Stage::SlowStart,
            Phase::Open => Stage::Avoidance,
        }
    }

    /// Returns whether more data is unsent than the congestion window has room for.
    fn is_held_back(&self) -> bool {
        let unsent = self.write_end.saturating_sub(self.max);
        let room = self.window.cwnd_bytes.saturating_sub(self.flight_bytes());
        unsent > u64::from(room)
    }

    fn oldest_age(&self, now: Nanos) -> Option<Nanos> {
        let times = self.send_times.as_ref()?;
        let sent_at = times.oldest(self.una)?;
        Some(now.since(sent_at))
    }
}
