//! F-RTO: detection of spurious timeouts (RFC 5682), and the response to them.

use crate::config::SpuriousTimeout;
use crate::congestion::Control;
use crate::sender::{Phase, Sender};

/// Number of new segments that probe the path (RFC 5682 §2.1 step 2b).
const PROBING_SEGMENTS: u32 = 2;
/// Window in segments of the conventional recovery after the probe (step 3a).
const CONVENTIONAL_SEGMENTS: u32 = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Off,
    /// Step 2: the first segment was retransmitted, and its ACK is awaited.
    First,
    /// Step 3: `left` new segments may still be sent; the next ACK decides.
    Second { left: u32 },
}

/// The state of the detection, and what is needed to take the reduction back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frto {
    step: Step,
    /// pipe_prev of RFC 4015 §3.2: the data in flight or ssthresh before the timeout, whichever was
    /// more.
    prior_ssthresh_bytes: u32,
    /// Bytes SACKed below `recover` when the detection began.
    sacked_before: u64,
    /// Whether ECE has come since the timeout.
    marked: bool,
}

impl Frto {
    pub(crate) fn is_active(&self) -> bool {
        self.step != Step::Off
    }

    /// Returns how many bytes of new data step 2b still allows beyond the data in flight; `None` in other steps.
    pub(crate) fn allowance_bytes(&self, smss_bytes: u32) -> Option<u32> {
        match self.step {
            Step::Second { left } => Some(left * smss_bytes),
            _ => None,
        }
    }

    /// Counts a sent segment against those that step 2b still allows; does nothing in other steps.
    pub(crate) fn sent(&mut self) {
        if let Step::Second { left } = &mut self.step {
            *left = left.saturating_sub(1);
        }
    }
}

impl Sender {
    /// Starts the detection (step 1) before the timeout changes anything, unless the timeout is in
    /// the recovery of another.
    pub(crate) fn begin_frto(&mut self) {
        let again = self.phase == Phase::Loss && self.una <= self.recover;
        let wanted = self.habits.spurious_timeout != SpuriousTimeout::Ignored;
        self.frto.step = if wanted && !again {
            Step::First
        } else {
            Step::Off
        };
        self.frto.marked = false;
        self.frto.prior_ssthresh_bytes = self.flight_bytes().max(self.window.ssthresh_bytes);
    }

    /// Processes an ACK in steps 2 and 3, basic (§2.1) and SACK-enhanced (§3.1). Returns whether
    /// the timeout was spurious.
    pub(crate) fn frto_ack(&mut self, marked: bool, acked: u32, newly_sacked: u64) -> bool {
        self.frto.marked |= marked;
        match self.frto.step {
            Step::Off => {}
            Step::First => self.frto_first(acked, newly_sacked),
            Step::Second { .. } => {
                // 3b; with SACK also data below `recover` that was not retransmitted
                let below = self.scoreboard.sacked_below(self.recover + 1);
                let original = newly_sacked > 0 && below > self.frto.sacked_before;
                if acked > 0 || original {
                    self.timeout_was_spurious(acked);
                    return true;
                } else if !self.sack || newly_sacked > 0 {
                    self.frto_conventional();
                }
            }
        }
        false
    }

    fn frto_first(&mut self, acked: u32, newly_sacked: u64) {
        let new_data = self.write_end > self.max && self.right_edge() > self.max;
        if acked == 0 {
            // 2a: a duplicate; with SACK only an ACK that SACKs new data
            if !self.sack || newly_sacked > 0 {
                self.frto.step = Step::Off;
            }
        } else if self.una > self.recover || !new_data {
            self.frto.step = Step::Off; // 2a, and 2b without data to test with
        } else {
            self.frto.step = Step::Second {
                left: PROBING_SEGMENTS,
            };
            self.frto.sacked_before = self.scoreboard.sacked_below(self.recover + 1);
            self.nxt = self.max;
        }
    }

    /// Continues with conventional recovery (step 3a).
    fn frto_conventional(&mut self) {
        self.frto.step = Step::Off;
        let most = CONVENTIONAL_SEGMENTS * self.window.smss_bytes;
        self.window.cwnd_bytes = self.window.cwnd_bytes.min(most);
        self.nxt = self.una;
    }

    /// Responds to a spurious timeout (step 3b).
    fn timeout_was_spurious(&mut self, acked: u32) {
        self.frto.step = Step::Off;
        self.totals.spurious_timeouts += 1;
        self.phase = Phase::Open;
        self.nxt = self.max;
        self.rto.confirm();
        // RFC 4015 §3.2: not after a mark, which asks for a reduction anyway
        if self.habits.spurious_timeout == SpuriousTimeout::Undo && !self.frto.marked {
            let flight = self.flight_bytes();
            let initial = self.habits.initial_window_segments * self.window.smss_bytes;
            self.window.ssthresh_bytes = self.frto.prior_ssthresh_bytes;
            let cwnd = flight + acked.min(initial); // step (5)
            self.window.cwnd_bytes = cwnd.max(self.window.smss_bytes);
            self.cut_end = self.una; // an undone reduction covers no mark
            self.law.undone();
        } else {
            self.window.cwnd_bytes = self.window.ssthresh_bytes;
        }
    }
}
