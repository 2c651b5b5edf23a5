//! Loss without SACK: fast retransmit and fast recovery (RFC 5681 §3.2, RFC 6582 §3.2), and the
//! retransmission timeout (RFC 5681 §3.1, RFC 6298 §5).

use uc_net::Nanos;

use crate::congestion::Control;
use crate::scoreboard::DUP_THRESH;
use crate::sender::{Phase, Sender};

impl Sender {
    /// Returns whether fast recovery may begin. RFC 6582 §3.2 step 2: only if the ACK covers more
    /// than `recover`. RFC 6675 §5: on the third duplicate or when the first unacknowledged byte is
    /// known to be lost, but not during the recovery of a timeout (§5.1).
    pub(crate) fn may_enter_recovery(&self) -> bool {
        if self.sack {
            let lost = self.dup_acks >= DUP_THRESH || self.scoreboard.is_lost(self.una);
            return lost && self.phase == Phase::Open;
        }
        self.una - 1 > self.recover
    }

    /// Enters fast recovery (RFC 6582 §3.2 steps 2 and 3; RFC 6675 §5 step (4)).
    pub(crate) fn enter_recovery(&mut self, now: Nanos, newly_sacked: u64) {
        if self.is_reducing() {
            self.reduce(0, true); // a mark's reduction goes on, for the loss too
        } else {
            self.reduce_by_loss(now, newly_sacked);
        }
        self.recover = self.max - 1;
        self.nxt = self.max; // the holes now belong to the recovery
        self.phase = Phase::Fast;
        self.timer_restarted = false;
        self.remember_reduction();
        self.totals.fast_recoveries += 1;
        if self.sack {
            self.begin_sack_recovery();
        } else {
            self.resend_first = true;
        }
        self.hold_reduction();
    }

    /// Reduces the window by a loss (RFC 6582 §3.2 step 2, RFC 6675 §5 step (4.2)).
    fn reduce_by_loss(&mut self, now: Nanos, newly_sacked: u64) {
        let smss = self.window.smss_bytes;
        // RFC 5681 §3.2 step 2: without the segments that limited transmit added
        let flight = self.flight_bytes().saturating_sub(self.limited_bytes);
        let ssthresh = self.law.lost(&self.window, flight, now);
        self.window.ssthresh_bytes = ssthresh;
        let delivered = if self.sack { newly_sacked } else { smss.into() };
        if self.begin_reduction(delivered) {
            return;
        }
        self.window.cwnd_bytes = ssthresh;
        if !self.sack {
            // the three segments that have left the network
            self.window.cwnd_bytes += DUP_THRESH * smss;
        }
    }

    /// Processes an ACK in fast recovery (RFC 6582 §3.2 steps 3, from the fourth duplicate on, 4
    /// and 5).
    pub(crate) fn recovery_ack(&mut self, acked: u32, duplicate: bool) {
        let smss = self.window.smss_bytes;
        let cwnd = &mut self.window.cwnd_bytes;
        if duplicate {
            *cwnd = cwnd.saturating_add(smss);
        } else if acked > 0 && self.una > self.recover {
            // a full acknowledgment, option (1)
            let flight = (self.max - self.una) as u32;
            *cwnd = self.window.ssthresh_bytes.min(flight.max(smss) + smss);
            self.phase = Phase::Open;
        } else if acked > 0 {
            // a partial one: deflate by the bytes acknowledged, add one segment back if at least
            // one was acknowledged, and retransmit the next hole
            *cwnd = cwnd.saturating_sub(acked);
            if acked >= smss {
                *cwnd += smss;
            }
            *cwnd = (*cwnd).max(smss);
            self.resend_first = true;
        }
    }

    /// Handles a retransmission timeout (RFC 6298 (5.4) to (5.6)).
    pub(crate) fn retransmission_timeout(&mut self, now: Nanos) {
        if self.una == self.max {
            self.deadline = None;
            return;
        }
        self.totals.timeouts += 1;
        self.count_timeout(now);
        self.totals.backoffs += u64::from(self.rto.backoff() > 1);
        self.begin_frto();
        // RFC 5681 §3.1: a segment that times out again doesn't lower ssthresh again
        if !self.timer_resent {
            let most = match self.phase {
                Phase::Fast if self.habits.timeout_keeps_ssthresh => self.window.ssthresh_bytes,
                _ => u32::MAX,
            };
            let flight = self.flight_bytes();
            let ssthresh = self.law.timed_out(&self.window, flight, now);
            self.window.ssthresh_bytes = ssthresh.min(most);
        }
        self.timer_resent = true;
        self.window.cwnd_bytes = self.window.smss_bytes; // the loss window
        self.abandon_reduction();
        self.recover = self.max - 1; // RFC 6582 §3.2 step 6
        self.remember_reduction();
        self.phase = Phase::Loss;
        self.timed = None;
        self.forget_reneged();
        // all unacknowledged data is retransmitted, the first segment now
        self.nxt = self.una;
        self.resend_first = true;
    }

    /// Clears the scoreboard if the receiver reneged: it has the first byte and doesn't acknowledge
    /// it, so its other reports are void (RFC 2018 §8). Otherwise RFC 6675 §5.1 keeps the
    /// scoreboard.
    fn forget_reneged(&mut self) {
        if self.scoreboard.hole_from(self.una).0 != self.una {
            self.scoreboard.clear();
        }
        self.high_rxt = self.una;
    }
}
