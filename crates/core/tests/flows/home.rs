//! What a home does around the core with one flow's slot, without a packet: the same moves as
//! `bpf/port.bpf.c`.

use uc_core::{Edit, Flow, Policy, Reason, Segment};

/// One slot of the flow table.
#[derive(Clone, Debug, Default)]
pub struct Home {
    pub policy: Policy,
    pub flow: Option<Flow>,
}

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
        Home { policy, flow: None }
    }

    pub fn pass(&mut self, segment: &Segment, now_ns: u64) -> Passed {
        let before = self.flow;
        let (reason, edit) = if uc_core::is_syn(segment) {
            self.open(segment, now_ns)
        } else {
            self.translate(segment, now_ns)
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
            self.flow = Some(flow);
        } else if reason.forgets() {
            self.flow = None;
        }
        (reason, edit)
    }

    fn translate(&mut self, segment: &Segment, now_ns: u64) -> (Reason, Edit) {
        let Some(flow) = &mut self.flow else {
            return (Reason::NO_HANDSHAKE, uc_core::no_edit(segment));
        };
        let (reason, edit) = uc_core::translate(flow, segment, now_ns);
        if reason.forgets() {
            self.flow = None;
        }
        (reason, edit)
    }
}
