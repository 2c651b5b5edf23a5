//! Compares the losses that kernel and shadow see: timeouts and fast recoveries.

use uc_core::consts;

use super::class::Class;
use super::follow::Step;
use super::judge::Judge;
use super::record::{CWR, LOSS, RECOVERY};
use super::windows::threshold_differs;

/// The duplicate ACKs after which a guest without SACK retransmits (RFC 5681 §3.2).
const DUPLICATES: u32 = 3;

impl Judge {
    /// Compares the timeouts of both. A timer's segment may cross an ACK, so a difference counts once
    /// it has lasted for two steps.
    pub(super) fn timeouts(&mut self, step: &Step) {
        let of_kernel = u32::from(step.now.total_rto - step.was.total_rto);
        self.verdict.timeouts += of_kernel;
        self.ahead += i64::from(step.timeouts) - i64::from(of_kernel);
        if step.timeouts > 0 || of_kernel > 0 {
            self.settle_undone(step.event);
            if of_kernel > 0 {
                self.called = None;
            }
            self.retransmitted = step.now.total_retrans;
            self.unjudged = u32::from(step.shadow_was.ca) != consts::CA_OPEN
                || step.was.ca_state != 0
                || step.was.sacked > 0;
        }
        self.unjudged |= step.ece || step.repeats;
        let in_reduction = step.was.ca_state >= CWR || step.shadow_was.ca > 0;
        if of_kernel > 0 && step.timeouts > 0 && in_reduction && threshold_differs(step) {
            let words = format!("{} of {}", step.shadow.reno.ssthresh, step.now.snd_ssthresh);
            self.find(Class::TimeoutInReduction, step.event, words);
            self.cause = Some(Class::TimeoutInReduction);
        }
        let class = match self.ahead {
            0 => None,
            1.. if self.missed => Some(Class::TimeoutInRepair),
            1.. => Some(self.called_timeout(step)),
            _ => Some(missed_timeout(step)),
        };
        self.missed &= step.now.ca_state == LOSS;
        let Some(class) = class else {
            self.steps_ahead = 0;
            return;
        };
        self.missed = class == Class::TimeoutInRepair;
        self.steps_ahead += 1;
        // what the first step shows decides
        if self.steps_ahead == 1 {
            self.cause = Some(class);
            self.called = (self.ahead > 0).then_some(class);
        } else if self.steps_ahead == 2 {
            let words = format!("timeouts of the shadow beyond the kernel's: {}", self.ahead);
            let class = self.cause.unwrap_or(class);
            self.find(class, step.event, words);
            self.ahead = 0;
            self.steps_ahead = 0;
        }
    }

    /// Compares the fast recoveries of both: one of the kernel that ends must have been seen.
    pub(super) fn recoveries(&mut self, step: &Step) {
        let (was, now) = (step.was.ca_state, step.now.ca_state);
        let again = was >= RECOVERY && step.now.snd_ssthresh < step.was.snd_ssthresh;
        let began = now == RECOVERY && (was < RECOVERY || again);
        let repairs = u32::from(step.shadow.ca) >= consts::CA_RECOVERY;
        if began {
            self.verdict.fast += 1;
            self.unseen = !again;
            self.repaired = None;
            self.settle_undone(step.event);
        }
        self.repaired = step.repair.map(|repair| repair.alone).or(self.repaired);
        if step.fast + step.timeouts > 0 || repairs {
            self.unseen = false;
        }
        if again && step.fast + step.timeouts == 0 && threshold_differs(step) {
            let class = match step.repair {
                Some(repair) if !repair.alone && !repairs => Class::FastMissed,
                Some(repair) if repair.alone => Class::LoneSegment,
                _ => Class::SilentRecovery,
            };
            self.find(class, step.event, "in another".into());
            self.cause = Some(class);
        }
        let ended = u32::from(step.shadow_was.ca) >= consts::CA_RECOVERY && !repairs;
        if ended && now >= RECOVERY && step.ece && !step.now.agreed()[1] {
            self.find(Class::EndedEarly, step.event, String::new());
            self.cause = Some(Class::EndedEarly);
        }
        if was < RECOVERY && now >= RECOVERY {
            self.before = Some(step.shadow_was.reno.cwnd);
        }
        if self.unseen && now < RECOVERY {
            self.unseen = false;
            let words = format!("kernel's ca {was} to {now}, shadow's {}", step.shadow.ca);
            let class = match self.repaired {
                Some(alone) if alone => Class::LoneSegment,
                Some(_) => Class::FastMissed,
                None => Class::SilentRecovery,
            };
            self.find(class, step.event, words);
            self.cause = Some(class);
        }
    }

    /// Names a timeout of the shadow's that was none of the kernel's.
    fn called_timeout(&self, step: &Step) -> Class {
        let Some(repair) = step.repair else {
            return Class::RepairCalledTimeout;
        };
        let has_sack = step.now.agreed()[1];
        match step.now.ca_state {
            RECOVERY | LOSS if repair.repeated && has_sack => Class::RepeatedRepair,
            RECOVERY if repair.repetitions < least(step) => Class::Unreported,
            RECOVERY if !has_sack && step.now.sacked < DUPLICATES => Class::Unreported,
            RECOVERY if self.dsacked => Class::HiddenByDsack,
            RECOVERY if !has_sack && u32::from(step.shadow.dup_acks) < DUPLICATES => {
                Class::OtherWindow
            }
            RECOVERY => Class::FastCalledTimeout,
            LOSS if self.probed => Class::ProbedBefore,
            LOSS if step.data && !has_sack => Class::EndedByData,
            LOSS if step.undone => Class::UndoneInRepair,
            LOSS => Class::RepairCalledTimeout,
            _ if repair.alone && repair.repeated => Class::LoneSegment,
            _ if repair.alone && repair.fin => Class::FinCounted,
            _ => Class::ProbeCalledTimeout,
        }
    }
}

/// Returns how many reports of a hole let a guest repair it.
fn least(step: &Step) -> u32 {
    if step.now.agreed()[1] { 1 } else { DUPLICATES }
}

/// Names a timeout of the kernel's that was none of the shadow's.
fn missed_timeout(step: &Step) -> Class {
    if u32::from(step.shadow_was.ca) >= consts::CA_RECOVERY {
        return Class::TimeoutInRepair;
    }
    let least = least(step);
    match step.repair {
        Some(repair) if step.fast > 0 && repair.repetitions >= least => Class::TimeoutCalledFast,
        Some(repair) if repair.alone && step.fast == 0 => Class::LoneSegment,
        _ => Class::TimeoutMissed,
    }
}
