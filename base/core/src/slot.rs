//! One slot of a flow table, and what a platform does with it around the core.

use crate::coupling::{Answer, Report};
use crate::remote::{self, Remote};
use crate::unanswered::{self, Marked};
use crate::{Asked, COMPILED, Core, Edit, Flow, Policy, Reason, Segment, consts};

/// Gives a flow's report to its group, and returns the group's answer; `None`: the flow has no group. `None` in place
/// of a report: the connection has ended, and the flow leaves its group.
pub type Share<'a> = &'a mut dyn FnMut(Option<&Report>) -> Option<Answer>;

/// The bound on a platform's flows: where a new flow gets its place.
pub trait Room {
    /// Takes an entry of the flow table for a flow that begins with this segment.
    ///
    /// # Errors
    /// Why there is none: [`Reason::TABLE_FULL`] or [`Reason::QUOTA_FULL`].
    fn take(&mut self, flow: &Flow, segment: &Segment, now_ns: u64) -> Result<(), Reason>;

    /// Frees the entry of a flow that the core has removed.
    fn give_back(&mut self);
}

/// Room without a limit on the number of flows.
impl Room for () {
    fn take(&mut self, _: &Flow, _: &Segment, _: u64) -> Result<(), Reason> {
        Ok(())
    }

    fn give_back(&mut self) {}
}

/// A place for one flow, with the policy that the flow gets at its handshake.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    core: Core,
    policy: Policy,
    /// The flow's weight, 1 to 255, if several flows divide the sum of their laws' windows; 0: the
    /// flow's own law alone decides.
    share: u8,
    flow: Option<Flow>,
    /// The peer's SYN that the guest has not answered: it opens no flow before that.
    asked: Asked,
    /// Remembered evidence about the ECN behaviour of the flow's remote address.
    remote: Remote,
    /// Record of data that came marked while the flow was unknown; `None`: no such data.
    marked: Option<Marked>,
}

impl Slot {
    /// Returns an entry of the flow table that has no flow yet.
    pub fn new(policy: Policy) -> Slot {
        Slot::with_core(COMPILED, policy)
    }

    /// Returns an empty entry whose flow is decided by the given core instead of the deployed one.
    pub fn with_core(core: Core, policy: Policy) -> Slot {
        Slot {
            core,
            policy,
            share: 0,
            flow: None,
            asked: Asked::default(),
            remote: Remote::default(),
            marked: None,
        }
    }

    /// Lets the flow divide the sum of its group's windows with this weight, 1 to 255; 0: its own law
    /// alone decides.
    #[must_use]
    pub fn sharing(self, share: u8) -> Slot {
        Slot { share, ..self }
    }

    /// Returns the flow; `None`: the entry is empty, since no flow has begun or the last one was removed.
    pub fn flow(&self) -> Option<&Flow> {
        self.flow.as_ref()
    }

    /// Returns the flow, for a platform that moves it to another entry or another clock; `None`: the entry
    /// is empty.
    pub fn flow_mut(&mut self) -> Option<&mut Flow> {
        self.flow.as_mut()
    }

    /// Returns the window of the flow's law in bytes ([`Core::window_bytes`]); `None`: the entry is empty.
    pub fn window_bytes(&self) -> Option<u32> {
        Some(self.core.window_bytes(self.flow()?))
    }

    /// Returns the flow's estimate of marked bytes ([`Core::alpha_q30`]); `None`: the entry is empty, or the law keeps
    /// no such estimate.
    pub fn alpha_q30(&self) -> Option<u32> {
        self.core.alpha_q30(self.flow()?)
    }

    /// Puts a flow from another entry into this entry, which must be empty.
    pub fn take_over(&mut self, flow: Flow) {
        self.flow = Some(flow);
    }

    /// Forgets the flow, whose table entry was given to another flow.
    pub fn forget(&mut self) {
        self.flow = None;
    }

    /// Passes a segment to the core, keeps or removes the flow as the core decides, and returns the reason with the
    /// edit to write. Calls `share` if the flow's group decides the segment's window.
    pub fn pass(&mut self, segment: &Segment, now_ns: u64, share: Share<'_>) -> (Reason, Edit) {
        self.pass_in(segment, now_ns, share, &mut ())
    }

    /// Passes a segment as [`Slot::pass`] does, where flows need a place in `room`.
    pub fn pass_in(
        &mut self,
        segment: &Segment,
        now_ns: u64,
        share: Share<'_>,
        room: &mut dyn Room,
    ) -> (Reason, Edit) {
        let before = self.flow().and_then(remote::news);
        let syn = u32::from(segment.flags) & (consts::SYN | consts::RST) == consts::SYN;
        if syn && u32::from(segment.direction) == consts::FROM_GUEST {
            self.marked = None;
        }
        let passed = match self.known(segment, now_ns, share, room) {
            Some(passed) => passed,
            None => self.unknown(segment, now_ns, room),
        };
        if let Some(flow) = &self.flow
            && remote::news(flow) != before
        {
            self.remote.remember(flow, now_ns);
        }
        passed
    }

    /// Handles a segment of the flow. Returns `None` if the entry is empty, or if the segment has removed the flow and
    /// is now one of no known flow.
    fn known(
        &mut self,
        segment: &Segment,
        now_ns: u64,
        share: Share<'_>,
        room: &mut dyn Room,
    ) -> Option<(Reason, Edit)> {
        let flow = self.flow.as_mut()?;
        if u32::from(segment.flags) & (consts::SYN | consts::RST) != consts::SYN {
            return Some(translate(self.core, flow, segment, now_ns, share));
        }
        let policy = self.remote.policy(&self.policy, segment, now_ns);
        let given = (&policy, self.share);
        let (step, edit) = self.core.known(flow, given, segment, now_ns);
        if step.removes() {
            let flow = self.flow.take()?;
            room.give_back();
            if !crate::is_syn(segment) {
                self.remote.remember(&flow, now_ns);
            }
        }
        (!step.is_anew()).then(|| (step.reason(), edit))
    }

    /// Handles a segment that belongs to no known flow, and enters a flow for it if the policy wants one.
    fn unknown(&mut self, segment: &Segment, now_ns: u64, room: &mut dyn Room) -> (Reason, Edit) {
        if unanswered::drops(&mut self.marked, &self.policy, segment, now_ns) {
            return (Reason::UNANSWERED, crate::no_edit(segment));
        }
        let policy = self.remote.policy(&self.policy, segment, now_ns);
        let mut flow = Flow::default();
        let given = (&policy, self.share);
        let (step, edit) = self
            .core
            .unknown(&mut flow, given, &mut self.asked, segment, now_ns);
        if step.enters() {
            if let Err(reason) = room.take(&flow, segment, now_ns) {
                return crate::without_room(&policy, segment, reason);
            }
            self.flow = Some(flow);
        }
        (step.reason(), edit)
    }
}

/// Translates a segment of a known flow that is no SYN or SYN-ACK.
fn translate(
    core: Core,
    flow: &mut Flow,
    segment: &Segment,
    now_ns: u64,
    share: Share<'_>,
) -> (Reason, Edit) {
    let (reason, mut edit) = core.translate(flow, segment, now_ns);
    if let Some(awaits) = core.awaits(flow) {
        // Also on a closed flow, as in bpf/port/share.h: reporting moves the flow's state.
        let report = core.report(flow, now_ns);
        let answer = share(Some(&report).filter(|_| !crate::leaves_group(flow)));
        core.tell_share(flow, segment, awaits, answer.as_ref(), &mut edit);
    }
    (reason, edit)
}
