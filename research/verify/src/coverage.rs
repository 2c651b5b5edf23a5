//! Classes of situations that a case goes through, seen from the native sender alone.

use uc_tcp::flags;

use crate::world::{Cause, State};

/// A situation that the theorems' proof distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// The window grew while it was below ssthresh.
    SlowStart,
    /// The window grew by a segment for a window of data.
    Avoidance,
    /// A fast recovery began.
    RecoveryEntry,
    /// An ACK in recovery did not end it.
    PartialAck,
    /// A loss recovery ended.
    RecoveryExit,
    /// The retransmission timer expired.
    Timeout,
    /// The timer fired again for the same segment.
    Backoff,
    /// A timeout proved spurious, and its reduction was undone.
    Undone,
    /// A timeout proved spurious after ECE, and its reduction stayed.
    NotUndone,
    /// The window was reduced on ECE.
    Cut,
    /// An ACK with ECE arrived during loss recovery.
    EceInRecovery,
    /// ECE arrived, and a loss followed within the same window of data.
    EceBeforeLoss,
    /// A loss occurred, and ECE followed within the same window of data or the next.
    EceAfterLoss,
    /// The sender had room in its window and nothing to send.
    ApplicationLimited,
    /// The receiver's window, not the sender's, held data back.
    ReceiverLimited,
    /// The receiver's window was closed.
    ZeroWindow,
    /// The sender restarted from the restart window after an idle timeout.
    IdleRestart,
    /// A SYN or SYN-ACK was lost.
    SynLost,
    /// Sequence numbers wrapped around 2^32.
    Wrap,
}

impl Class {
    /// All classes, in the order of the table.
    pub const ALL: [Class; 19] = [
        Class::SlowStart,
        Class::Avoidance,
        Class::RecoveryEntry,
        Class::PartialAck,
        Class::RecoveryExit,
        Class::Timeout,
        Class::Backoff,
        Class::Undone,
        Class::NotUndone,
        Class::Cut,
        Class::EceInRecovery,
        Class::EceBeforeLoss,
        Class::EceAfterLoss,
        Class::ApplicationLimited,
        Class::ReceiverLimited,
        Class::ZeroWindow,
        Class::IdleRestart,
        Class::SynLost,
        Class::Wrap,
    ];

    /// Returns a short description of the situation.
    pub fn label(self) -> &'static str {
        match self {
            Class::SlowStart => "slow start",
            Class::Avoidance => "congestion avoidance",
            Class::RecoveryEntry => "fast recovery: entry",
            Class::PartialAck => "fast recovery: partial ACK",
            Class::RecoveryExit => "fast recovery: exit",
            Class::Timeout => "retransmission timeout",
            Class::Backoff => "timeout: backed off",
            Class::Undone => "spurious timeout: undone",
            Class::NotUndone => "spurious timeout: ECE",
            Class::Cut => "cut on ECE",
            Class::EceInRecovery => "ECE in recovery",
            Class::EceBeforeLoss => "ECE just before a loss",
            Class::EceAfterLoss => "ECE just after a loss",
            Class::ApplicationLimited => "application-limited",
            Class::ReceiverLimited => "receiver-limited",
            Class::ZeroWindow => "receiver's window shut",
            Class::IdleRestart => "restart after idle",
            Class::SynLost => "SYN or SYN-ACK lost",
            Class::Wrap => "sequence numbers wrap",
        }
    }
}

/// The situations that occurred in one case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen(u32);

impl Seen {
    /// Returns whether the case had a class.
    pub fn has(self, class: Class) -> bool {
        self.0 & 1 << class as u8 != 0
    }

    fn add(&mut self, class: Class) {
        self.0 |= 1 << class as u8;
    }

    fn add_if(&mut self, condition: bool, class: Class) {
        if condition {
            self.add(class);
        }
    }
}

/// An observer of a native sender.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    seen: Seen,
    /// End of the window of data in which the last mark reduced the window.
    cut_until: u64,
    /// End of the window of data in which the last loss was found.
    loss_until: u64,
    /// Bytes acknowledged when the timer last fired; `None`: it has not fired.
    timeout_at: Option<u64>,
}

impl Coverage {
    /// Returns the situations that have occurred so far.
    pub fn seen(&self) -> Seen {
        self.seen
    }

    /// Records an act of the sender.
    pub fn observe(&mut self, cause: &Cause, before: &State, after: &State) {
        let acked = after.totals.acknowledged_bytes - before.totals.acknowledged_bytes;
        let ece = matches!(cause, Cause::Arrival(segment)
            if segment.flags & (flags::ECE | flags::SYN) == flags::ECE);
        if matches!(cause, Cause::Arrival(_)) {
            self.observe_growth(acked, before, after);
            self.observe_recovery(acked, ece, before, after);
        }
        self.observe_losses(ece, before, after);
        self.observe_limits(after);
        let idle = before.info.flight_bytes == 0 && after.info.flight_bytes > 0;
        let shrunk = after.info.cwnd_bytes < before.info.cwnd_bytes;
        self.seen
            .add_if(*cause == Cause::Write && idle && shrunk, Class::IdleRestart);
        let wrapped = matches!(cause, Cause::Arrival(segment)
            if u64::from(segment.ack) < acked);
        self.seen.add_if(wrapped, Class::Wrap);
    }

    fn observe_growth(&mut self, acked: u64, before: &State, after: &State) {
        let repairing = before.info.in_recovery || after.info.in_recovery;
        if acked == 0 || repairing || after.info.cwnd_bytes <= before.info.cwnd_bytes {
            return;
        }
        let below = before.info.cwnd_bytes < before.info.ssthresh_bytes;
        self.seen.add(if below {
            Class::SlowStart
        } else {
            Class::Avoidance
        });
    }

    fn observe_recovery(&mut self, acked: u64, ece: bool, before: &State, after: &State) {
        let (was, is) = (before.info.in_recovery, after.info.in_recovery);
        self.seen.add_if(!was && is, Class::RecoveryEntry);
        self.seen.add_if(was && is && acked > 0, Class::PartialAck);
        self.seen
            .add_if(was && !is && acked > 0, Class::RecoveryExit);
        self.seen.add_if(was && ece, Class::EceInRecovery);
    }

    fn observe_losses(&mut self, ece: bool, before: &State, after: &State) {
        let una = after.totals.acknowledged_bytes;
        let nxt = una + u64::from(after.info.flight_bytes);
        let cut = after.totals.ecn_cuts > before.totals.ecn_cuts;
        let timeout = after.totals.timeouts > before.totals.timeouts;
        let lost = timeout || after.totals.fast_recoveries > before.totals.fast_recoveries;
        self.seen.add_if(cut, Class::Cut);
        self.seen
            .add_if(lost && una < self.cut_until, Class::EceBeforeLoss);
        self.seen
            .add_if(ece && !lost && una < self.loss_until, Class::EceAfterLoss);
        if after.totals.spurious_timeouts > before.totals.spurious_timeouts {
            let undone = after.info.ssthresh_bytes > before.info.ssthresh_bytes;
            self.seen.add_if(undone, Class::Undone);
            self.seen.add_if(!undone, Class::NotUndone);
        }
        if cut {
            self.cut_until = nxt;
        }
        if lost {
            self.loss_until = nxt + u64::from(after.info.ssthresh_bytes);
        }
        if timeout {
            let established = before.info.smss_bytes > 0 && before.info.send_window_bytes > 0;
            self.seen.add(Class::Timeout);
            self.seen.add_if(!established, Class::SynLost);
            self.seen
                .add_if(established && self.timeout_at == Some(una), Class::Backoff);
            self.timeout_at = Some(una);
        }
    }

    fn observe_limits(&mut self, after: &State) {
        let info = &after.info;
        let una = after.totals.acknowledged_bytes;
        let flight = u64::from(info.flight_bytes);
        let smss = u64::from(info.smss_bytes);
        if una == 0 || smss == 0 {
            return;
        }
        let cwnd = u64::from(info.cwnd_bytes);
        let window = u64::from(info.send_window_bytes);
        let unsent = after.written_bytes.saturating_sub(una + flight);
        let room = flight + smss <= cwnd.min(window);
        self.seen
            .add_if(unsent == 0 && room, Class::ApplicationLimited);
        let held = unsent >= smss && flight + smss > window && flight + smss <= cwnd;
        self.seen.add_if(held, Class::ReceiverLimited);
        self.seen
            .add_if(unsent > 0 && window == 0, Class::ZeroWindow);
    }
}
