//! The home of one flow in tests: its slot, and the group that a coupled flow is in.

use uc_core::slot::{Share, Slot};
use uc_core::{Edit, Flow, Policy, Reason, Segment};

use super::group::Shared;

#[derive(Clone, Debug, Default)]
pub struct Home {
    slot: Slot,
    /// The flow's weight in the windows of the group; 0: it shares none.
    share: u8,
    group: Option<Shared>,
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
        Home::sharing(policy, 0)
    }

    /// A home whose flow has a weight in the windows of its group.
    pub fn sharing(policy: Policy, share: u8) -> Home {
        Home {
            slot: Slot::new(policy).sharing(share),
            share,
            group: None,
        }
    }

    pub fn flow(&self) -> Option<&Flow> {
        self.slot.flow()
    }

    pub fn flow_mut(&mut self) -> Option<&mut Flow> {
        self.slot.flow_mut()
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

    /// Passes a segment with the group's answer that `share` selects.
    pub fn pass_in(&mut self, segment: &Segment, now_ns: u64, share: Share<'_>) -> Passed {
        let before = self.flow().copied();
        let (reason, edit) = self.slot.pass(segment, now_ns, share);
        Passed {
            reason,
            edit,
            before,
            after: self.flow().copied(),
        }
    }
}
