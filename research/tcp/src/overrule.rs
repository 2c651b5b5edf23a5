//! A congestion control that another overrules (ctrlTCP, Islam and others, §III): the connection's own
//! law goes on computing, and what it has computed is told and answered before anything is sent by
//! it. Who answers is the caller's; nothing here knows how.

use uc_net::Nanos;

use crate::connection::{Connection, State};
use crate::segment::Segment;
use crate::sender::{Phase, Sender};

/// Which variable of the window counts now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Below ssthresh (RFC 5681 §3.1).
    SlowStart,
    /// Above it.
    Avoidance,
    /// Fast recovery, or the round trip after a mark: the way to ssthresh is the connection's own.
    Recovery,
    /// After a timeout, until what was in flight then is acknowledged.
    Loss,
}

/// What the connection's own law has computed, and what tells how much of it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Computed {
    /// Congestion window.
    pub cwnd_bytes: u32,
    /// Slow-start threshold.
    pub ssthresh_bytes: u32,
    /// Sent and not acknowledged.
    pub flight_bytes: u32,
    /// The most of it in this round trip and the one before.
    pub used_bytes: u32,
    /// Acknowledged since this was told last.
    pub acked_bytes: u32,
    /// Payload of a full segment.
    pub smss_bytes: u32,
    /// Smoothed round-trip time; none before the first sample.
    pub srtt: Option<Nanos>,
    /// In recovery and after a timeout: how long ago the first segment left that is not
    /// acknowledged; none if it was sent again since.
    pub lost_age: Option<Nanos>,
    /// Where it is.
    pub stage: Stage,
    /// Its retransmission timer has fired since this was told last.
    pub timed_out: bool,
    /// The application had nothing to send that the congestion window held back.
    pub limited: bool,
}

/// What an overruled connection remembers between two reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overruled {
    /// SND.UNA when it reported last; 0: never.
    una: u64,
    /// The round trip is over when this is acknowledged; none until its first segments have left.
    round_end: Option<u64>,
    used_bytes: u32,
    used_before_bytes: u32,
    timeouts: u64,
}

impl Overruled {
    /// What was acknowledged since the last report, at this one.
    fn hear(&mut self, sender: &Sender) -> u32 {
        let before = if self.una == 0 { sender.una } else { self.una };
        self.una = sender.una;
        if self.round_end.is_some_and(|end| sender.una >= end) {
            self.round_end = None;
            self.used_before_bytes = std::mem::take(&mut self.used_bytes);
        }
        (sender.una - before) as u32
    }
}

impl Connection {
    /// From now on it sends nothing by itself but handshakes and ACKs that can't wait: after each
    /// call that may have changed something comes [`Connection::computed`], then
    /// [`Connection::obey`], then [`Connection::send`].
    pub fn overrule(&mut self) {
        self.overruled.get_or_insert_default();
        // Whoever answers shares out what an idle connection leaves; by itself it would shrink the
        // window of all (RFC 5681 §4.1 is about a window that nobody else uses).
        self.sender.habits.restart_after_idle = false;
        self.sender.send_times.get_or_insert_default();
    }

    /// What its law has computed; none before the handshake is done, after the last byte was
    /// acknowledged, and of a connection that nobody overrules.
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

    /// The answer. In recovery the window stays its own, on the way to that threshold.
    pub fn obey(&mut self, cwnd_bytes: u32, ssthresh_bytes: u32) {
        let stage = self.sender.stage();
        let window = &mut self.sender.window;
        window.ssthresh_bytes = ssthresh_bytes;
        if stage != Stage::Recovery {
            window.cwnd_bytes = cwnd_bytes;
        }
    }

    /// Sends what may go now.
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

    /// There is more to send than the congestion window has room for.
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
