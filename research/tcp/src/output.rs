//! The choice of the next segment to send.

use uc_net::Nanos;

use crate::config::IGNORED_WINDOW_BYTES;
use crate::sender::{Phase, Sender, Waits};

/// Number of new segments sent beyond the window for the first two duplicate ACKs (RFC 3042).
const LIMITED_TRANSMIT_SEGMENTS: u32 = 2;
/// Inverse of Fs, the fraction of the largest window that justifies a segment; Fs is 1/2 (RFC 9293
/// §3.8.6.2.1).
const WORTHWHILE_PART: u32 = 2;

/// Range and flags of a segment that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) seq: u64,
    pub(crate) bytes: u32,
    pub(crate) fin: bool,
    pub(crate) push: bool,
    /// Whether the data was never sent before and the segment is no window probe.
    pub(crate) fresh: bool,
    /// Whether it is known that no further segment may be sent now.
    pub(crate) last: bool,
}

impl Sender {
    /// Returns whether there is nothing to send, as at an end that only receives: all data are
    /// acknowledged, and no FIN is wanted.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.una == self.max
            && self.nxt >= self.write_end
            && !self.finishing
            && !self.resend_first
            && self.phase == Phase::Open
    }

    /// Returns the next segment that may be sent at `now`; `None`: none may.
    #[inline(always)]
    pub(crate) fn poll(&mut self, now: Nanos) -> Option<Chunk> {
        if self.resend_first {
            self.resend_first = false;
            let above = self.scoreboard.hole_from(self.una).1;
            let chunk = self.send_again(now, self.una, above);
            if self.sack_bytes > 0 {
                // this end's own SACK blocks have left a part of a segment for the next one
                let end = chunk.seq + u64::from(chunk.bytes) + u64::from(chunk.fin);
                self.high_rxt = self.high_rxt.min(end);
            }
            return Some(chunk);
        }
        if self.sack && self.phase == Phase::Fast {
            return self.poll_sack(now);
        }
        if self.nxt < self.max {
            return self.poll_again(now);
        }
        self.poll_new(now)
    }

    /// Returns the next segment after a timeout: all unacknowledged data is retransmitted, in order, as the window
    /// opens. `None`: the windows allow none now.
    fn poll_again(&mut self, now: Nanos) -> Option<Chunk> {
        let mut above = None;
        if !self.scoreboard.is_empty() {
            let (hole, next) = self.scoreboard.hole_from(self.nxt);
            self.nxt = hole.min(self.max);
            above = next;
            if self.nxt == self.max {
                return self.poll_new(now);
            }
        }
        let end = self.max.min(above.unwrap_or(self.max));
        let bytes = (end - self.nxt).min(u64::from(self.payload_most())) as u32;
        if self.in_network() + bytes > self.window.cwnd_bytes {
            self.limited_end = self.max;
            return None;
        }
        if self.nxt + u64::from(bytes) > self.right_edge() {
            return None;
        }
        Some(self.send_again(now, self.nxt, above))
    }

    /// Returns the bytes between SND.UNA and SND.NXT; in the recovery of a timeout, without those that the peer has
    /// SACKed.
    #[inline]
    fn in_network(&self) -> u32 {
        let sacked = if self.scoreboard.is_empty() || self.phase != Phase::Loss {
            0
        } else {
            self.scoreboard.sacked_below(self.nxt)
        };
        (self.nxt - self.una - sacked) as u32
    }

    /// Returns the right edge of the peer's window (RFC 9293 §3.8.6).
    #[inline]
    pub(crate) fn right_edge(&self) -> u64 {
        let window_bytes = if self.habits.ignores_receive_window {
            IGNORED_WINDOW_BYTES
        } else {
            self.snd_wnd
        };
        self.una + u64::from(window_bytes)
    }

    /// Returns a segment of new data if both windows, Nagle's rule and silly window avoidance allow one; otherwise
    /// `None`.
    #[inline(always)]
    pub(crate) fn poll_new(&mut self, now: Nanos) -> Option<Chunk> {
        if self.nxt >= self.write_end {
            return self.poll_fin(now);
        }
        let most = self.payload_most();
        if let Some(allowed) = self.frto.allowance_bytes(self.window.smss_bytes) {
            return self.poll_new_into(now, allowed);
        }
        let cwnd_room = self.cwnd_now().saturating_sub(self.in_network());
        let chunk = self.poll_new_into(now, cwnd_room)?;
        // Mostly the congestion window is full now, and the caller need not ask again.
        let queued = self.write_end.saturating_sub(self.nxt);
        let last = chunk.fresh && u64::from(cwnd_room - chunk.bytes) < queued.min(most.into());
        if last {
            self.limited_end = self.max;
        }
        Some(Chunk { last, ..chunk })
    }

    /// Returns a segment of new data if there is data and one fits into `cwnd_room` bytes; otherwise `None`.
    #[inline(always)]
    pub(crate) fn poll_new_into(&mut self, now: Nanos, cwnd_room: u32) -> Option<Chunk> {
        let most = self.payload_most();
        let queued = self.write_end.saturating_sub(self.nxt);
        let wnd_room = self.right_edge().saturating_sub(self.nxt) as u32;
        let wanted = queued.min(u64::from(most)) as u32;
        let bytes = wanted.min(cwnd_room).min(wnd_room);
        if bytes < most && !self.may_send_runt(bytes, wanted, cwnd_room) {
            if cwnd_room < wanted {
                self.limited_end = self.max;
            }
            return self.poll_probe(now, queued);
        }
        if self.waits == Waits::Mark && self.deadline.is_some() {
            return None;
        }
        // The restart does not hold this segment back: nothing is in flight, and the restart window
        // holds at least one segment.
        if self.una == self.max {
            self.restart_after_idle(now);
        }
        Some(self.send_new(now, bytes))
    }

    /// Returns whether a segment below SMSS may be sent (RFC 9293 §3.8.6.2.1). A segment that is small only because the
    /// congestion window has no more room may not: its data waits for the next ACK.
    #[inline]
    fn may_send_runt(&self, bytes: u32, wanted: u32, cwnd_room: u32) -> bool {
        if bytes == 0 || bytes > cwnd_room {
            return false;
        }
        if bytes == wanted {
            // (2): all queued data; and Nagle's rule, unless nothing can be added to the segment
            return !self.habits.nagle || self.finishing || self.nxt == self.una;
        }
        // (3): a large fraction of the largest window offered; (4): the override timer has fired
        let worthwhile = bytes >= self.max_wnd / WORTHWHILE_PART || self.probe;
        bytes < cwnd_room && self.nxt == self.una && worthwhile
    }

    /// Returns the congestion window, plus a segment for each of the first two duplicate ACKs (RFC 3042, RFC 6675 §5
    /// step (3)): as much as has left the network.
    #[inline(always)]
    fn cwnd_now(&self) -> u32 {
        let cwnd = self.window.cwnd_bytes;
        let limited_transmit = self.habits.limited_transmit && !self.is_reducing();
        if self.dup_acks == 0 || !limited_transmit || self.phase != Phase::Open {
            return cwnd;
        }
        let segments = if self.dup_acks > LIMITED_TRANSMIT_SEGMENTS {
            0
        } else {
            self.dup_acks
        };
        cwnd.saturating_add(segments * self.window.smss_bytes)
    }

    /// Reduces the window to the restart window if nothing was sent for longer than the retransmission timeout (RFC
    /// 5681 §4.1).
    fn restart_after_idle(&mut self, now: Nanos) {
        let idle = now.since(self.sent_at);
        if self.habits.restart_after_idle && idle > self.rto.current() && self.sent_at.0 > 0 {
            let restart = self.habits.initial_window_segments * self.window.smss_bytes;
            self.window.cwnd_bytes = self.window.cwnd_bytes.min(restart);
        }
    }

    /// Returns whether the FIN was sent and is not acknowledged.
    pub(crate) fn is_fin_in_flight(&self) -> bool {
        self.finishing && self.max > self.write_end && self.una < self.max
    }

    /// Returns the FIN alone, for an ACK that repeats it.
    pub(crate) fn repeated_fin(&self) -> Chunk {
        Chunk {
            seq: self.write_end,
            bytes: 0,
            fin: true,
            push: false,
            fresh: false,
            last: false,
        }
    }

    #[inline]
    fn poll_fin(&mut self, now: Nanos) -> Option<Chunk> {
        if !self.finishing || self.nxt > self.write_end {
            return None;
        }
        let chunk = Chunk {
            seq: self.nxt,
            bytes: 0,
            fin: true,
            push: false,
            fresh: true,
            last: false,
        };
        self.nxt += 1;
        self.max = self.nxt;
        self.sent(now);
        Some(chunk)
    }

    /// Returns a window probe of one byte if one is due, for a window that may have opened (RFC 9293 §3.8.6.1);
    /// otherwise `None`.
    fn poll_probe(&mut self, now: Nanos, queued: u64) -> Option<Chunk> {
        if self.una != self.max || queued == 0 {
            return None;
        }
        if self.deadline.is_none() {
            let due = self.probe;
            self.probe = false;
            self.start_timer(now, Waits::Window);
            if due {
                self.probed = true;
                return Some(Chunk {
                    seq: self.nxt,
                    bytes: 1,
                    fin: false,
                    push: false,
                    fresh: false,
                    last: false,
                });
            }
        }
        None
    }

    #[inline(always)]
    fn send_new(&mut self, now: Nanos, bytes: u32) -> Chunk {
        let seq = self.nxt;
        debug_assert_eq!(seq, self.max, "new data follow what was sent");
        let end = seq + u64::from(bytes);
        let last = end == self.write_end;
        let fin = last && self.finishing;
        if self.dup_acks > 0 && end - self.una > u64::from(self.window.cwnd_bytes) {
            self.limited_bytes += bytes;
        }
        self.nxt = end + u64::from(fin);
        self.max = self.nxt;
        self.probe = false;
        if self.timed.is_none() {
            self.timed = Some((end, now));
        }
        if let Some(times) = &mut self.send_times {
            times.sent(end, now);
        }
        self.count_sent(bytes);
        self.totals.sent_bytes += u64::from(bytes);
        self.sent(now);
        Chunk {
            seq,
            bytes,
            fin,
            push: last,
            fresh: true,
            last: false,
        }
    }

    /// Retransmits one segment from `seq` on. It ends at the latest at the end of sent data, and at `above`, the next
    /// SACKed byte (`None`: no byte above is SACKed).
    pub(crate) fn send_again(&mut self, now: Nanos, seq: u64, above: Option<u64>) -> Chunk {
        let end = self.max.min(above.unwrap_or(self.max)).min(self.write_end);
        let bytes = end.saturating_sub(seq).min(u64::from(self.payload_most())) as u32;
        let end = seq + u64::from(bytes);
        let fin = end == self.write_end && self.max > self.write_end;
        self.nxt = self.nxt.max(end + u64::from(fin));
        self.timed = None; // RFC 6298 §3: Karn's rule
        if let Some(times) = &mut self.send_times {
            times.sent_again(end);
        }
        self.count_sent(bytes);
        self.totals.sent_bytes += u64::from(bytes);
        self.totals.retransmitted_bytes += u64::from(bytes);
        self.totals.retransmits += 1;
        self.sent(now);
        Chunk {
            seq,
            bytes,
            fin,
            push: end == self.write_end,
            fresh: false,
            last: false,
        }
    }

    /// Starts the retransmission timer if none runs (RFC 6298 (5.1)).
    #[inline]
    fn sent(&mut self, now: Nanos) {
        self.sent_at = now;
        self.frto.sent();
        if self.deadline.is_none() || self.waits != Waits::Ack {
            self.start_timer(now, Waits::Ack);
        }
    }
}
