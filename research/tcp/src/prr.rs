//! Proportional rate reduction (RFC 9937): the window walks down to ssthresh while a round trip is
//! acknowledged, where RFC 5681 and RFC 3168 let it jump there and the sender fall silent. As in
//! Linux it also answers marks, and a running reduction is not restarted by another cause.

use crate::sender::{Phase, Sender};

/// The state of the current reduction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prr {
    active: bool,
    /// RecoverFS: bytes in flight at the start.
    recover_fs_bytes: u64,
    /// Variable prr_delivered of RFC 9937.
    delivered_bytes: u64,
    /// Variable prr_out of RFC 9937.
    out_bytes: u64,
    /// SND.UNA plus the bytes SACKed above it, at the last ACK.
    known: u64,
    /// Without SACK, the bytes whose arrival duplicate ACKs indicate.
    by_duplicates_bytes: u64,
}

impl Prr {
    /// Returns SndCnt after an ACK that reports `delivered` further bytes, with `pipe` in flight.
    /// `safe` is SafeACK: the ACK acknowledges new data.
    fn allowance(&self, delivered: u64, pipe: u64, ssthresh: u64, smss: u64, safe: bool) -> u64 {
        if pipe > ssthresh {
            // PRR: bytes sent are to bytes delivered as ssthresh is to RecoverFS
            let share = (self.delivered_bytes * ssthresh).div_ceil(self.recover_fs_bytes.max(1));
            return share.saturating_sub(self.out_bytes);
        }
        // PRR-SSRB: losses have taken more than the reduction requires
        let arrived = self.delivered_bytes.saturating_sub(self.out_bytes);
        let bound = arrived.max(delivered) + if safe { smss } else { 0 };
        bound.min(ssthresh - pipe)
    }
}

impl Sender {
    /// Returns whether a reduction is under way.
    #[inline]
    pub(crate) fn is_reducing(&self) -> bool {
        self.prr.as_ref().is_some_and(|prr| prr.active)
    }

    /// Counts the bytes of a segment that was sent.
    #[inline]
    pub(crate) fn count_sent(&mut self, bytes: u32) {
        if let Some(prr) = &mut self.prr {
            prr.out_bytes += u64::from(bytes);
        }
    }

    /// Starts a reduction to ssthresh at an ACK that reports `delivered` bytes, which SND.UNA and the scoreboard
    /// include already. Returns false, without a reduction, at a host without PRR, where the window jumps.
    pub(crate) fn begin_reduction(&mut self, delivered: u64) -> bool {
        let flight = u64::from(self.flight_bytes());
        let by_duplicates = u64::from(self.dup_acks) * u64::from(self.window.smss_bytes);
        let sacked = self.scoreboard.sacked_below(self.max);
        let above = if self.sack { sacked } else { by_duplicates };
        let Some(prr) = &mut self.prr else {
            return false;
        };
        **prr = Prr {
            active: true,
            recover_fs_bytes: flight.saturating_sub(above) + delivered,
            delivered_bytes: delivered,
            out_bytes: 0,
            known: self.una + sacked,
            by_duplicates_bytes: by_duplicates,
        };
        true
    }

    /// Stops new data when fast recovery begins during a reduction: the retransmission is sent in any case, more data
    /// only with the following ACKs.
    pub(crate) fn hold_reduction(&mut self) {
        if self.is_reducing() {
            let pipe = self.scoreboard.pipe(self.una, self.max, self.high_rxt) as u32;
            self.window.cwnd_bytes = if self.sack { pipe } else { self.flight_bytes() };
        }
    }

    /// Ends the reduction because a timeout has set the window.
    pub(crate) fn abandon_reduction(&mut self) {
        if let Some(prr) = &mut self.prr {
            prr.active = false;
        }
    }

    /// Ends the reduction when everything sent before it is acknowledged: the window is ssthresh.
    pub(crate) fn end_reduction(&mut self) {
        self.abandon_reduction();
        self.window.cwnd_bytes = self.window.ssthresh_bytes;
    }

    /// Sets the window to the bytes in flight plus SndCnt, for an ACK that covers `acked` new
    /// bytes.
    pub(crate) fn reduce(&mut self, acked: u32, duplicate: bool) {
        let (smss, flight) = (
            u64::from(self.window.smss_bytes),
            u64::from(self.flight_bytes()),
        );
        let known = self.una + self.scoreboard.sacked_below(self.max);
        let repairing = self.sack && self.phase == Phase::Fast;
        let pipe = self.scoreboard.pipe(self.una, self.max, self.high_rxt);
        let ssthresh = u64::from(self.window.ssthresh_bytes);
        let Some(prr) = &mut self.prr else {
            return;
        };
        let delivered = if self.sack {
            known.saturating_sub(prr.known)
        } else if duplicate {
            prr.by_duplicates_bytes += smss;
            smss
        } else {
            let told = prr.by_duplicates_bytes.min(u64::from(acked));
            prr.by_duplicates_bytes -= told;
            u64::from(acked) - told
        };
        prr.known = known;
        prr.delivered_bytes += delivered;
        let (in_network, base) = if repairing {
            (pipe, pipe) // the value against which `poll_sack` checks the window
        } else if self.sack {
            (flight - known.saturating_sub(self.una).min(flight), flight)
        } else {
            (flight.saturating_sub(prr.by_duplicates_bytes), flight)
        };
        let allowed = prr.allowance(delivered, in_network, ssthresh, smss, acked > 0);
        self.window.cwnd_bytes = u32::try_from(base + allowed).unwrap_or(u32::MAX);
    }

    /// Processes an ACK in fast recovery.
    pub(crate) fn reduce_in_recovery(&mut self, acked: u32, duplicate: bool) {
        if self.una > self.recover {
            self.phase = Phase::Open;
            return self.end_reduction();
        }
        if acked > 0 && !self.sack {
            self.resend_first = true; // RFC 6582 §3.2 step 5: a partial ACK shows the next hole
        }
        self.reduce(acked, duplicate);
    }
}

#[cfg(test)]
mod tests {
    use super::Prr;

    const SMSS: u64 = 1_000;

    fn reduction(delivered: u64, out: u64) -> Prr {
        Prr {
            active: true,
            recover_fs_bytes: 10 * SMSS,
            delivered_bytes: delivered * SMSS,
            out_bytes: out * SMSS,
            ..Prr::default()
        }
    }

    #[test]
    fn above_ssthresh_bytes_sent_are_proportional_to_bytes_delivered() {
        for (ssthresh, delivered, out, expected) in [
            (5, 4, 0, 2_000),
            (5, 4, 1, 1_000),
            (7, 1, 0, 700),
            (5, 2, 3, 0),
        ] {
            let prr = reduction(delivered, out);
            let allowed = prr.allowance(SMSS, 9 * SMSS, ssthresh * SMSS, SMSS, true);
            assert_eq!(allowed, expected, "{ssthresh} {delivered} {out}");
        }
    }

    #[test]
    fn below_ssthresh_as_much_is_sent_as_delivered_plus_a_segment_if_safe() {
        let prr = reduction(6, 5);
        let allowed = |pipe: u64, safe| prr.allowance(SMSS, pipe * SMSS, 5 * SMSS, SMSS, safe);
        assert_eq!(allowed(1, false), SMSS);
        assert_eq!(allowed(1, true), 2 * SMSS);
        // and never beyond ssthresh
        assert_eq!(allowed(4, true), SMSS);
        assert_eq!(allowed(5, true), 0);
    }
}
