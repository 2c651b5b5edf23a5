//! Compares the reductions that kernel and shadow undo.

use uc_core::consts;

use super::class::Class;
use super::follow::Step;
use super::judge::Judge;
use super::record::{LOSS, RECOVERY};

/// A reduction that one side has undone, and the other may still undo.
#[derive(Clone, Copy, Debug)]
pub(super) enum Undone {
    ByKernel { event: usize, class: Class },
    ByShadow { event: usize, class: Class },
}

impl Judge {
    /// Compares what both undo.
    pub(super) fn undone(&mut self, step: &Step) {
        // an idle restart raises the threshold, too, but not on an ACK
        let by_kernel = step.now.snd_ssthresh > step.was.snd_ssthresh
            && step.acked
            && step.now.snd_cwnd >= step.was.snd_cwnd;
        // one that ends in a reduction on ECE, or began in one, leaves no higher threshold
        let shadow_repairs = u32::from(step.shadow.ca) >= consts::CA_RECOVERY;
        let ended_early = step.was.ca_state >= RECOVERY
            && step.now.ca_state < RECOVERY
            && step.now.unacked > 0
            && shadow_repairs
            && !by_kernel;
        if ended_early && let Some(class) = self.undone_why(step) {
            self.find(class, step.event, "ended early".into());
            self.cause = Some(class);
        }
        // the threshold before was as low
        let by_kernel =
            by_kernel || step.undone && step.was.ca_state == LOSS && step.now.ca_state < RECOVERY;
        if by_kernel {
            self.verdict.undone += 1;
            self.before = None;
        }
        let by_shadow = step.undone;
        match (self.undone, by_kernel, by_shadow) {
            (_, false, false) => {}
            (None, true, true) => {}
            (Some(_), true, true)
            | (Some(Undone::ByKernel { .. }), false, true)
            | (Some(Undone::ByShadow { .. }), true, false) => {
                // one window has grown meanwhile
                self.undone = None;
                self.cause = Some(Class::FewSegments);
            }
            (_, true, false) => {
                let class = self.undone_why(step).unwrap_or(Class::SpuriousTimeoutKept);
                let event = step.event;
                self.undone = Some(Undone::ByKernel { event, class });
            }
            (_, false, true) => {
                let class = match (self.called, self.dsacked, self.probed) {
                    (Some(class), ..) => class,
                    (.., true) => Class::ProbedBefore,
                    (_, true, _) => Class::HiddenByDsack,
                    _ if step.was.total_retrans > self.retransmitted => Class::UndoneInRepair,
                    _ => Class::RealLossUndone,
                };
                let event = step.event;
                self.undone = Some(Undone::ByShadow { event, class });
            }
        }
    }

    /// Returns why the kernel may undo what the shadow does not.
    fn undone_why(&self, step: &Step) -> Option<Class> {
        match (self.is_stamped, step.now.dsack_dups > 0) {
            (true, _) => Some(Class::UndoneByStamps),
            (_, true) => Some(Class::UndoneByDsack),
            _ if self.unjudged => Some(Class::UndoneUnjudged),
            _ if step.now.sacked > step.was.sacked => Some(Class::UndoneBySack),
            _ => None,
        }
    }

    /// Ends the time in which the other side may undo, too.
    pub(super) fn settle_undone(&mut self, event: usize) {
        match self.undone.take() {
            None => {}
            Some(Undone::ByKernel { class, event: at } | Undone::ByShadow { class, event: at }) => {
                self.find(class, at, format!("until event {event}"));
                self.cause = Some(class);
            }
        }
    }
}
