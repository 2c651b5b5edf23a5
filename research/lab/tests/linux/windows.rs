//! Compares the windows and thresholds of kernel and shadow, and names what explains a difference.

use uc_core::consts;

use super::class::{Class, Finding};
use super::follow::Step;
use super::judge::Judge;
use super::record::{CWR, RECOVERY};

/// Windows and thresholds that differ by more are a difference, in either direction.
const TOLERANCE: f64 = 0.1;
/// A difference of the windows that lasts for fewer steps is a passing one.
pub const LASTING_STEPS: u32 = 3;
/// A threshold before the first reduction.
const INFINITE: u32 = 0x7fff_ffff;
/// Largest part of a window that may be left after a real loss, where it was not small.
const AFTER_LOSS: f64 = 0.75;
const AFTER_LOSS_SEGMENTS_MIN: u32 = 8;

fn differ(ours: u32, theirs: u32) -> bool {
    let ratio = f64::from(ours) / f64::from(theirs);
    !(1.0 - TOLERANCE..=1.0 + TOLERANCE).contains(&ratio)
}

/// Returns whether the thresholds differ.
pub(super) fn threshold_differs(step: &Step) -> bool {
    differ(step.shadow.reno.ssthresh, step.now.snd_ssthresh)
}

impl Judge {
    /// Compares the windows while neither side repairs.
    pub(super) fn windows(&mut self, step: &Step) {
        let (kernel, shadow) = (&step.now, &step.shadow);
        let shadow_repairs = u32::from(shadow.ca) >= consts::CA_RECOVERY;
        if kernel.unacked == 0 && shadow_repairs && kernel.ca_state < RECOVERY {
            let words = format!("shadow's ca {}", shadow.ca);
            self.find(Class::RepairWithoutEnd, step.event, words);
        }
        if kernel.ca_state >= RECOVERY || shadow_repairs || self.undone.is_some() {
            return;
        }
        self.verdict.compared += 1;
        let words = format!(
            "window {} of kernel's {}, threshold {} of {}",
            shadow.reno.cwnd,
            kernel.snd_cwnd,
            shadow.reno.ssthresh as i32,
            kernel.snd_ssthresh as i32
        );
        if let Some(before) = self.before.take() {
            let most = f64::from(before) * AFTER_LOSS;
            let kept = f64::from(shadow.reno.cwnd) > most && shadow.reno.cwnd > kernel.snd_cwnd + 1;
            if self.cause.is_none() && before >= AFTER_LOSS_SEGMENTS_MIN && kept {
                let words = format!("before {before}; {words}");
                let class = match self.probed {
                    true => Class::ProbedBefore,
                    false => Class::WindowKeptAfterLoss,
                };
                self.find(class, step.event, words);
                self.cause = Some(class);
            }
        }
        let window = differ(shadow.reno.cwnd, kernel.snd_cwnd);
        let threshold = threshold_differs(step);
        if !window && !threshold {
            self.settle_apart();
            let equal = shadow.reno.cwnd == kernel.snd_cwnd
                && shadow.reno.ssthresh == kernel.snd_ssthresh
                && u32::from(shadow.ca) == consts::CA_OPEN
                && kernel.ca_state < CWR;
            if equal && self.steps_ahead == 0 {
                self.cause = None;
            }
            return;
        }
        let few = shadow.reno.ssthresh.abs_diff(kernel.snd_ssthresh) <= 1;
        if let Some(cause) = self.cause
            && (few || cause.explains_thresholds() || self.deep)
        {
            let findings = &self.verdict.findings;
            if findings.last().is_none_or(|last| last.class != cause) {
                self.find(cause, step.event, words);
            }
            return;
        }
        let (class, event) = (self.explain(step), step.event);
        let first = || {
            (
                Finding {
                    class,
                    event,
                    words,
                },
                0,
            )
        };
        let (finding, steps) = self.apart.get_or_insert_with(first);
        *steps += 1;
        if *steps == LASTING_STEPS {
            self.cause = Some(finding.class);
            self.settle_apart();
        }
    }

    /// Ends a difference of the windows.
    pub(super) fn settle_apart(&mut self) {
        if let Some((mut finding, steps)) = self.apart.take() {
            if steps < LASTING_STEPS && self.cause != Some(finding.class) {
                finding.class = Class::Passing;
            }
            self.verdict.findings.push(finding);
        }
    }

    /// Names windows that differ although nothing before them did.
    fn explain(&self, step: &Step) -> Class {
        let apart = step.shadow.reno.cwnd.abs_diff(step.now.snd_cwnd);
        let thresholds = step.shadow.reno.ssthresh.abs_diff(step.now.snd_ssthresh);
        if step.shadow.syns() > 2 {
            return Class::LostSyns;
        }
        let reduced = step.shadow.reno.ssthresh < INFINITE && step.now.snd_ssthresh < INFINITE;
        if thresholds <= 1 && apart <= 2 && reduced {
            return Class::FewSegments;
        }
        if self.small {
            return Class::SmallPackets;
        }
        let most = step.shadow.reno.cwnd.max(step.now.snd_cwnd);
        if !threshold_differs(step) && step.was.unacked < step.was.snd_cwnd && most <= 3 * self.peak
        {
            return Class::Unfilled;
        }
        if u32::from(step.shadow.policy.modes) & !consts::MODE_OBSERVE != 0 {
            return Class::Distrusted;
        }
        if self.dsacked {
            return Class::UndoneByDsack;
        }
        match threshold_differs(step) {
            true => Class::ThresholdUnexplained,
            false => Class::WindowUnexplained,
        }
    }
}
