//! What a home does around the core with one flow's slot, without a packet: the same moves as
//! `bpf/port/port.bpf.c`.

use uc_core::coupling::{Answer, Report};
use uc_core::{Edit, Flow, Policy, Reason, Segment};

use super::group::Shared;

/// One slot of the flow table.
#[derive(Clone, Debug, Default)]
pub struct Home {
    pub policy: Policy,
    /// Its flow's weight in the windows of a group; 0: in none.
    pub share: u8,
    pub flow: Option<Flow>,
    group: Option<Shared>,
}

/// What a flow's group says to its report, or to its end.
pub type Share<'a> = &'a mut dyn FnMut(Option<&Report>) -> Option<Answer>;

/// What became of a segment.
#[derive(Clone, Debug)]
pub struct Passed {
    pub reason: Reason,
    pub edit: Edit,
    pub before: Option<Flow>,
    pub after: Option<Flow>,
}

impl Home {
    pub fn new(policy: Policy) -> Home {
        Home {
            policy,
            ..Home::default()
        }
    }

    /// The flow of one that has a weight, too.
    pub fn sharing(policy: Policy, share: u8) -> Home {
        Home {
            policy,
            share,
            ..Home::default()
        }
    }

    /// A coupled flow shares a window with another guest's.
    pub fn pass(&mut self, segment: &Segment, now_ns: u64) -> Passed {
        let (mut group, share) = (self.group.take(), self.share);
        let passed = self.pass_in(segment, now_ns, &mut |report| {
            group
                .get_or_insert_with(|| Shared::new(share, now_ns))
                .share(report, now_ns)
        });
        self.group = group;
        passed
    }

    /// It is whatever `share` says.
    pub fn pass_in(&mut self, segment: &Segment, now_ns: u64, share: Share) -> Passed {
        let before = self.flow;
        let (reason, edit) = if uc_core::is_syn(segment) {
            self.open(segment, now_ns)
        } else {
            self.translate(segment, now_ns, share)
        };
        Passed {
            reason,
            edit,
            before,
            after: self.flow,
        }
    }

    fn open(&mut self, segment: &Segment, now_ns: u64) -> (Reason, Edit) {
        let mut flow = self.flow.unwrap_or_default();
        let (reason, edit) = uc_core::open(&mut flow, &self.policy, segment, now_ns);
        if reason == Reason::TRANSLATED {
            flow.share = self.share;
            self.flow = Some(flow);
        } else if reason.forgets() {
            self.flow = None;
        } else if self.flow.is_some() {
            self.flow = Some(flow);
        }
        (reason, edit)
    }

    fn translate(&mut self, segment: &Segment, now_ns: u64, share: Share) -> (Reason, Edit) {
        let Some(flow) = &mut self.flow else {
            return (Reason::NO_HANDSHAKE, uc_core::no_edit(segment));
        };
        if uc_core::is_answer(segment) {
            let (reason, edit) = uc_core::reopen(flow, &self.policy, segment, now_ns);
            if reason == Reason::TRANSLATED {
                flow.share = self.share;
            } else if reason.forgets() {
                self.flow = None;
                return (reason, edit);
            }
        }
        let (reason, mut edit) = uc_core::translate(flow, segment, now_ns);
        if let Some(awaits) = uc_core::awaits(flow) {
            let report = uc_core::report(flow, now_ns);
            let answer = share(Some(&report).filter(|_| !uc_core::is_closed(flow)));
            uc_core::tell_share(flow, segment, awaits, answer.as_ref(), &mut edit);
        }
        if reason.forgets() {
            self.flow = None;
        }
        (reason, edit)
    }
}
