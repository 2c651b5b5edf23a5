//! Fast recovery with SACK: RFC 6675 §5.

use uc_net::Nanos;

use crate::output::Chunk;
use crate::sender::{Phase, Sender};

impl Sender {
    /// Starts the recovery (step (4)): the first segment is retransmitted whatever the window is
    /// (4.3).
    pub(crate) fn begin_sack_recovery(&mut self) {
        let (_, above) = self.scoreboard.hole_from(self.una);
        let smss = u64::from(self.window.smss_bytes);
        let end = (self.una + smss)
            .min(above.unwrap_or(self.max))
            .min(self.max);
        self.high_rxt = end;
        self.rescue_rxt = end;
        self.resend_first = true;
    }

    /// Processes an ACK (step (A)): the recovery ends when all data outstanding at its start is
    /// acknowledged. The scoreboard has done (B); (C) follows when the sender is polled.
    pub(crate) fn sack_recovery_ack(&mut self) {
        if self.una > self.recover {
            self.phase = Phase::Open;
        }
    }

    /// Returns the segment that NextSeg() chooses, if the pipe has room for a segment (step (C)); otherwise `None`.
    pub(crate) fn poll_sack(&mut self, now: Nanos) -> Option<Chunk> {
        let smss = self.window.smss_bytes;
        let pipe = self.scoreboard.pipe(self.una, self.max, self.high_rxt);
        let cwnd = u64::from(self.window.cwnd_bytes);
        if cwnd < pipe + u64::from(smss) {
            return None;
        }
        self.next_seg(now, (cwnd - pipe) as u32)
    }

    /// Chooses the next segment (NextSeg() of RFC 6675 §4); `None`: there is none to send.
    fn next_seg(&mut self, now: Nanos, room: u32) -> Option<Chunk> {
        let highest = self.scoreboard.highest_sacked().unwrap_or(self.una);
        let (hole, above) = self.scoreboard.hole_from(self.high_rxt);
        let below_sacked = hole < highest;
        if below_sacked && hole < self.scoreboard.lost_below() {
            return Some(self.send_hole(now, hole, above)); // rule (1)
        }
        let chunk = if self.nxt < self.write_end {
            self.poll_new_into(now, room) // rule (2)
        } else {
            self.poll_new(now) // a FIN
        };
        if chunk.is_some() {
            return chunk;
        }
        if below_sacked {
            return Some(self.send_hole(now, hole, above)); // rule (3)
        }
        self.rescue(now) // rule (4)
    }

    fn send_hole(&mut self, now: Nanos, hole: u64, above: Option<u64>) -> Chunk {
        let chunk = self.send_again(now, hole, above);
        self.high_rxt = hole + u64::from(chunk.bytes) + u64::from(chunk.fin);
        chunk
    }

    /// Retransmits the highest segment that is not SACKed, once in a recovery (rule (4) of NextSeg()); otherwise
    /// `None`.
    fn rescue(&mut self, now: Nanos) -> Option<Chunk> {
        if self.una <= self.rescue_rxt {
            return None;
        }
        let smss = u64::from(self.window.smss_bytes);
        let (from, to) = self.scoreboard.last_hole(self.una, self.max, smss)?;
        self.rescue_rxt = self.recover + 1;
        Some(self.send_again(now, from, Some(to)))
    }
}
