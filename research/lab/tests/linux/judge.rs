//! Compares the shadow of a flow with its kernel's TCP, and names what differs.

use uc_core::Core;

use super::case::Case;
use super::class::{Class, Finding};
use super::follow::{Step, follow};
use super::record::{CWR, RECOVERY, Record};
use super::undone::Undone;

/// What came of a flow.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub findings: Vec<Finding>,
    /// Steps at which both windows were compared.
    pub compared: u64,
    /// The kernel's timeouts and fast recoveries, and how many of both it undid.
    pub timeouts: u32,
    pub fast: u32,
    pub undone: u32,
}

/// The state of a judgement.
#[derive(Debug, Default)]
pub(super) struct Judge {
    pub(super) verdict: Verdict,
    /// Whether both ends use time stamps.
    pub(super) is_stamped: bool,
    /// What explains the windows until they agree again.
    pub(super) cause: Option<Class>,
    /// Timeouts that only the shadow has seen (above 0), or only the kernel; and in how many steps
    /// they differ.
    pub(super) ahead: i64,
    pub(super) steps_ahead: u32,
    /// Whether the shadow has missed a timeout of the repair that goes on; it may see it later.
    pub(super) missed: bool,
    pub(super) undone: Option<Undone>,
    /// Windows that differ, and for how many steps.
    pub(super) apart: Option<(Finding, u32)>,
    /// The windows before the reduction that goes on.
    pub(super) before: Option<u32>,
    /// A fast recovery of the kernel that the shadow has not seen yet, and whether the last
    /// retransmission in it was of all that was in flight.
    pub(super) unseen: bool,
    pub(super) repaired: Option<bool>,
    /// Whether the shadow does not judge the last timeout, or has given up to.
    pub(super) unjudged: bool,
    /// Whether a sub-MSS segment was sent since all was acknowledged.
    pub(super) small: bool,
    /// Whether the peer has sent a D-SACK, and the guest a tail loss probe, since all was acknowledged.
    pub(super) dsacked: bool,
    pub(super) probed: bool,
    /// The class of the shadow's last timeout, if the kernel has seen none.
    pub(super) called: Option<Class>,
    /// The kernel's retransmissions up to the last timeout, that of the timer included.
    pub(super) retransmitted: u32,
    /// Most packets that were ever in flight.
    pub(super) peak: u32,
    /// Whether the cause has changed a threshold, too: windows differed at a reduction.
    pub(super) deep: bool,
}

/// Judges a recorded flow with this core.
pub fn judge(case: &Case, record: &Record, core: Core) -> Verdict {
    let mut judge = Judge::default();
    if case.is_coarse() {
        judge.find(Class::NotTranslated, 0, String::new());
        return judge.verdict;
    }
    let lost = follow(case, record, core, |step| judge.step(step));
    if let Some(event) = lost {
        judge.find(Class::FlowLost, event, String::new());
    }
    judge.settle_undone(record.events.len().saturating_sub(1));
    judge.settle_apart();
    judge.verdict
}

impl Judge {
    /// Adds a difference.
    pub(super) fn find(&mut self, class: Class, event: usize, words: String) {
        self.verdict.findings.push(Finding {
            class,
            event,
            words,
        });
    }

    /// Takes in a step: first what explains differences, then the differences.
    fn step(&mut self, step: &Step) {
        self.learn(step);
        self.timeouts(step);
        self.recoveries(step);
        self.undone(step);
        if step.false_sample {
            let words = format!("srtt {} us", step.shadow.srtt_us >> 3);
            self.find(Class::RetransmissionTimed, step.event, words);
        }
        if self.cause.is_none() && step.paused {
            self.cause = Some(Class::Pause);
        } else if self.cause.is_none() && step.was.sacked + step.now.sacked > 0 {
            self.cause = Some(Class::CountedBySack);
        }
        self.windows(step);
        if step.now.unacked == 0 {
            self.settle_undone(step.event);
            self.small = false;
            self.probed = false;
            self.dsacked = false;
            self.called = None;
        }
    }

    /// Notes what may explain later differences.
    fn learn(&mut self, step: &Step) {
        self.is_stamped = step.now.agreed()[0];
        self.small |= step.small;
        self.peak = self.peak.max(step.now.unacked);
        self.dsacked |= step.now.dsack_dups > step.was.dsack_dups;
        self.probed |= step.now.total_retrans > step.was.total_retrans
            && step.was.ca_state < RECOVERY
            && step.now.ca_state < RECOVERY;
        let lowered = step.now.snd_ssthresh < step.was.snd_ssthresh;
        if lowered && step.was.ca_state < CWR && step.now.ca_state < CWR && !step.ece {
            self.find(Class::ProbeRepaired, step.event, String::new());
            self.cause = Some(Class::ProbeRepaired);
        }
        let reduces = step.was.snd_ssthresh != step.now.snd_ssthresh
            || step.shadow_was.reno.ssthresh != step.shadow.reno.ssthresh;
        let differed = step.was.snd_cwnd != step.shadow_was.reno.cwnd;
        if reduces && let Some((finding, _)) = &self.apart {
            self.cause = Some(finding.class);
            self.settle_apart();
        }
        self.deep = self.cause.is_some() && (self.deep || reduces && differed);
    }
}
