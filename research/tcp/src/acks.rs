//! ACK processing at the sender: RFC 9293 §3.10.7.4, RFC 5681 §2, RFC 3168 §6.1.2.

use uc_net::Nanos;

use crate::congestion::{Acked, Control, Observed};
use crate::scoreboard::DUP_THRESH;
use crate::segment::{SackBlocks, timestamp_ms};
use crate::sender::{Phase, Sender, Waits};

/// An acknowledgment with absolute sequence numbers and a scaled window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack<'a> {
    pub(crate) now: Nanos,
    /// Sequence number of the segment that carries the ACK, in the peer's stream.
    pub(crate) seq: u64,
    /// Whether a later segment overtook this one, so that RFC 9293 §3.10.7.4 does not accept it.
    /// Its acknowledgment number still holds; its window does not.
    pub(crate) overtaken: bool,
    pub(crate) ack: u64,
    pub(crate) window_bytes: u32,
    /// Whether the segment carries payload or a FIN, so that it can't be a duplicate ACK.
    pub(crate) carries: bool,
    pub(crate) ece: bool,
    pub(crate) sack: &'a SackBlocks,
    /// The timestamp that the segment echoes, in ms; `None`: it has no timestamps.
    pub(crate) echoed_ms: Option<u32>,
}

impl Sender {
    /// Processes an ACK; returns false if it acknowledges data that was never sent.
    #[inline(always)]
    pub(crate) fn on_ack(&mut self, ack: &Ack<'_>) -> bool {
        if ack.ack > self.max {
            // the peer may have accepted a window probe's byte
            if !self.probed || ack.ack != self.max + 1 || ack.ack > self.write_end {
                return false;
            }
            self.max = ack.ack;
            self.totals.sent_bytes += 1;
        }
        if ack.ack < self.una {
            return true;
        }
        self.heard();
        let same_window = self.take_window(ack);
        if self.una == self.max && self.phase == Phase::Open && !ack.ece && self.prr.is_none() {
            return true; // nothing was in flight, so the ACK says nothing more
        }
        self.on_ack_in_flight(ack, same_window);
        true
    }

    /// Processes an ACK of what is in flight.
    #[inline]
    fn on_ack_in_flight(&mut self, ack: &Ack<'_>, same_window: bool) {
        let acked = (ack.ack - self.una) as u32;
        let newly_sacked = if self.sack && !ack.sack.as_slice().is_empty() {
            let (una, max, smss) = (self.una, self.max, self.window.smss_bytes);
            self.scoreboard.update(ack.sack, una, max, smss)
        } else {
            0
        };
        let duplicate = acked == 0 && self.is_duplicate(ack, same_window, newly_sacked);
        if duplicate {
            self.dup_acks += 1;
            self.totals.duplicate_acks += 1;
        }
        let was_limited = self.una < self.limited_end || !self.habits.cwnd_validation;
        if acked > 0 {
            self.advance(ack, acked);
        }
        self.respond(ack, acked, duplicate, newly_sacked, was_limited);
    }

    /// Updates SND.WND from a segment no older than the last one that set it (RFC 9293 §3.10.7.4). Returns false if the
    /// window has changed.
    #[inline(always)]
    fn take_window(&mut self, ack: &Ack<'_>) -> bool {
        let is_new = self.habits.new_acks_set_window && ack.ack > self.una;
        if (ack.overtaken || ack.seq < self.wl1) && !is_new {
            return true;
        }
        self.wl1 = self.wl1.max(ack.seq);
        let same = ack.window_bytes == self.snd_wnd;
        if !same {
            self.snd_wnd = ack.window_bytes;
            self.max_wnd = self.max_wnd.max(ack.window_bytes);
            if self.waits == Waits::Window && self.deadline.is_some() && ack.window_bytes > 0 {
                self.deadline = None;
                self.rto.confirm();
            }
        }
        same
    }

    /// Returns whether the ACK is a duplicate by RFC 5681 §2; with SACK, by RFC 6675 §2: it SACKs
    /// something new.
    fn is_duplicate(&self, ack: &Ack<'_>, same_window: bool, newly_sacked: u64) -> bool {
        if self.una == self.max {
            return false;
        }
        if self.sack {
            return newly_sacked > 0;
        }
        !ack.carries && (same_window || self.habits.any_window_duplicates)
    }

    /// Advances SND.UNA to the ACK's number, by `acked` bytes.
    #[inline]
    fn advance(&mut self, ack: &Ack<'_>, acked: u32) {
        let times = self.send_times.as_mut();
        let rtt = times.and_then(|times| times.take(self.una, ack.ack, ack.now));
        self.una = ack.ack;
        self.nxt = self.nxt.max(self.una);
        self.dup_acks = 0;
        self.limited_bytes = 0;
        self.timer_resent = false;
        self.probed = false;
        self.scoreboard.advance(self.una);
        self.high_rxt = self.high_rxt.max(self.una);
        self.totals.acknowledged_bytes += u64::from(acked);
        if self.is_finished() {
            self.totals.acknowledged_bytes -= 1; // the FIN
        }
        self.measure_rtt(ack.now, ack.ack, ack.echoed_ms);
        if self.una == self.max {
            self.deadline = None; // RFC 6298 (5.2)
        } else if self.may_restart_timer() {
            self.start_timer(ack.now, Waits::Ack); // (5.3)
        }
        self.law.observed(&Observed {
            bytes: acked,
            ece: ack.ece && self.ecn,
            una: self.una as u32,
            nxt: self.max as u32,
            rtt,
        });
    }

    /// Returns whether this ACK may restart the timer. Of the partial ACKs of a recovery without SACK only the first
    /// does (RFC 6582 §3.2 step 5).
    fn may_restart_timer(&mut self) -> bool {
        if self.phase != Phase::Fast || self.sack || self.una > self.recover {
            return true;
        }
        !std::mem::replace(&mut self.timer_restarted, true)
    }

    /// Samples the round-trip time: one segment at a time is timed (RFC 6298 §3). While none is timed, such as after a
    /// retransmission, the echoed timestamp is the sample (RFC 7323 §4), to the millisecond.
    #[inline]
    fn measure_rtt(&mut self, now: Nanos, ack: u64, echoed_ms: Option<u32>) {
        if let Some((end, sent_at)) = self.timed {
            if ack >= end {
                self.timed = None;
                self.rto.sample(now.since(sent_at));
            }
        } else if let Some(echoed_ms) = echoed_ms {
            match timestamp_ms(now).wrapping_sub(echoed_ms) {
                0 => self.rto.confirm(),
                rtt_ms => self.rto.sample(Nanos::from_millis(u64::from(rtt_ms))),
            }
        }
    }

    #[inline]
    fn respond(
        &mut self,
        ack: &Ack<'_>,
        acked: u32,
        duplicate: bool,
        newly_sacked: u64,
        was_limited: bool,
    ) {
        if self.phase == Phase::Fast {
            if self.is_reducing() {
                self.reduce_in_recovery(acked, duplicate);
            } else if self.sack {
                self.sack_recovery_ack();
            } else {
                self.recovery_ack(acked, duplicate);
            }
            return;
        }
        let resending = self.phase == Phase::Loss;
        if resending {
            let marked = ack.ece && self.ecn;
            if self.frto.is_active() && self.frto_ack(marked, acked, newly_sacked) {
                return; // the window set by the coupled answer already includes this ACK
            }
            if self.una > self.recover {
                self.phase = Phase::Open;
            }
        }
        if self.is_reducing() && self.una > self.cut_end {
            self.end_reduction();
        }
        let third = duplicate && (self.dup_acks == DUP_THRESH || self.sack);
        if third && self.may_enter_recovery() {
            self.enter_recovery(ack.now, newly_sacked);
        } else if self.is_reducing() {
            self.reduce(acked, duplicate);
        } else if ack.ece && self.ecn && self.una > self.cut_end {
            self.cut_by_mark(ack.now, acked);
        } else if acked > 0 && was_limited && (resending || !(ack.ece && self.ecn)) {
            // RFC 3168 §6.1.2: an ACK with ECE does not open the window. During loss recovery after
            // a timeout it echoes marks to which the timeout has already responded.
            let acked = Acked {
                now: ack.now,
                bytes: acked,
                srtt: self.rto.srtt(),
            };
            self.law.acked(&mut self.window, &acked);
        }
    }
}
