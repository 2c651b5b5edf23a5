//! One slot of a flow table, and what a home does with it around the core: the moves of
//! `bpf/port/port.bpf.c` without a packet.

use crate::coupling::{Answer, Report};
use crate::remote::{self, Remote};
use crate::{COMPILED, Core, Edit, Flow, Policy, Reason, Segment};

/// Carries a flow's report to its group and returns the group's answer; without a report, the flow
/// has ended and leaves. Returns `None` where the flow has no group.
pub type Share<'a> = &'a mut dyn FnMut(Option<&Report>) -> Option<Answer>;

/// A place for one flow, with the policy that the flow gets at its handshake.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    core: Core,
    policy: Policy,
    /// The flow's weight in the windows of a group; 0: in none.
    share: u8,
    flow: Option<Flow>,
    /// The peer's SYN that the guest has not answered: it opens no flow before that.
    asked: Option<Segment>,
    /// Remembered evidence about the ECN behaviour of the flow's remote address.
    remote: Remote,
}

impl Slot {
    /// Returns an empty slot.
    pub fn new(policy: Policy) -> Slot {
        Slot::with_core(COMPILED, policy)
    }

    /// Returns an empty slot whose flow another core than the deployed one decides about.
    pub fn with_core(core: Core, policy: Policy) -> Slot {
        Slot {
            core,
            policy,
            share: 0,
            flow: None,
            asked: None,
            remote: Remote::default(),
        }
    }

    /// Gives the flow a weight in the windows of a group; 0: in none.
    #[must_use]
    pub fn sharing(self, share: u8) -> Slot {
        Slot { share, ..self }
    }

    /// Returns the flow; `None` before its handshake and where it was given up.
    pub fn flow(&self) -> Option<&Flow> {
        self.flow.as_ref()
    }

    /// Returns the window of the flow's law in bytes ([`Core::window_bytes`]).
    pub fn window_bytes(&self) -> Option<u32> {
        Some(self.core.window_bytes(self.flow()?))
    }

    /// Returns the flow's estimate of marked bytes ([`Core::alpha_q30`]).
    pub fn alpha_q30(&self) -> Option<u32> {
        self.core.alpha_q30(self.flow()?)
    }

    /// Passes a segment to the core, keeps or forgets the flow by the reason, and returns the reason
    /// with the edit to write. Asks `share` where the segment's window is the group's to give.
    pub fn pass(&mut self, segment: &Segment, now_ns: u64, share: Share<'_>) -> (Reason, Edit) {
        let before = self.flow().and_then(remote::news);
        let passed = if crate::is_syn(segment) {
            self.open(segment, now_ns)
        } else {
            self.translate(segment, now_ns, share)
        };
        if let Some(flow) = &self.flow
            && remote::news(flow) != before
        {
            self.remote.remember(flow, now_ns);
        }
        passed
    }

    /// Removes the flow, after which its remote address is remembered.
    fn forget(&mut self, now_ns: u64) {
        if let Some(flow) = self.flow.take() {
            self.remote.remember(&flow, now_ns);
        }
    }

    /// Returns the policy of a flow that begins now.
    fn policy(&self, now_ns: u64) -> Policy {
        self.remote.policy(&self.policy, now_ns)
    }

    /// A SYN: enters the flow, if there is to be one; the peer's is stored for the guest's answer.
    fn open(&mut self, segment: &Segment, now_ns: u64) -> (Reason, Edit) {
        let policy = self.policy(now_ns);
        let agreed = |flow: &Flow| u32::from(flow.stage) == crate::consts::TRANSLATING;
        self.flow
            .take_if(|flow| agreed(flow) && crate::is_stale(flow, now_ns));
        let is_peers = u32::from(segment.direction) == crate::consts::TO_GUEST;
        let was_there = self.flow.is_some();
        let mut flow = self.flow.take().unwrap_or_default();
        // the guest's own SYN, behind one of the peer that it has not answered
        let asked = self.asked.filter(|_| !is_peers && !was_there);
        let met = asked.is_some_and(|syn| {
            let begun = self.core.open(&mut flow, &policy, &syn, now_ns);
            begun.0 == Reason::TRANSLATED
        });
        // now, since it decides where a SYN is stored
        if met {
            flow.share = self.share;
        }
        let (reason, edit) = self.core.open(&mut flow, &policy, segment, now_ns);
        let earlier = self.asked.take_if(|_| !reason.drops());
        if reason == Reason::TRANSLATED && is_peers && !was_there {
            let mut syn = *segment;
            if let Some(earlier) = earlier {
                crate::add_offers(&mut syn, &earlier);
            }
            self.asked = Some(syn);
        } else if reason == Reason::TRANSLATED || met && reason == Reason::NO_HANDSHAKE {
            flow.share = self.share;
            self.flow = Some(flow);
        } else if was_there && !reason.forgets() {
            self.flow = Some(flow);
        }
        (reason, edit)
    }

    /// A SYN-ACK of the guest, of no known flow: enters the flow that the peer's SYN asked for.
    fn answered(&mut self, answer: &Segment, now_ns: u64) -> (Reason, Edit) {
        let nothing = (Reason::NO_HANDSHAKE, crate::no_edit(answer));
        let is_guests = u32::from(answer.direction) == crate::consts::FROM_GUEST;
        let Some(syn) = self.asked.filter(|_| is_guests && crate::is_answer(answer)) else {
            return nothing;
        };
        let mut flow = Flow::default();
        let (reason, edit) =
            self.core
                .open_asked(&mut flow, &self.policy(now_ns), &syn, answer, now_ns);
        if reason != Reason::NO_HANDSHAKE {
            self.asked = None;
        }
        if reason == Reason::TRANSLATED {
            flow.share = self.share;
            self.flow = Some(flow);
        }
        (reason, edit)
    }

    fn translate(&mut self, segment: &Segment, now_ns: u64, share: Share<'_>) -> (Reason, Edit) {
        let policy = self.policy(now_ns);
        let Some(flow) = &mut self.flow else {
            return match self.answered(segment, now_ns) {
                (Reason::NO_HANDSHAKE, _) => self.adopt(segment, now_ns),
                answered => answered,
            };
        };
        if crate::is_answer(segment) {
            let (reason, edit) = self.core.reopen(flow, &policy, segment, now_ns);
            if reason == Reason::TRANSLATED {
                flow.share = self.share;
            } else if reason.forgets() || reason.drops() {
                if reason.forgets() {
                    self.forget(now_ns);
                }
                return (reason, edit);
            }
        }
        let (reason, mut edit) = self.core.translate(flow, segment, now_ns);
        if let Some(awaits) = self.core.awaits(flow) {
            // Also on a closed flow, as in bpf/port/share.h: reporting moves the flow's state.
            let report = self.core.report(flow, now_ns);
            let answer = share(Some(&report).filter(|_| !crate::leaves_group(flow)));
            self.core
                .tell_share(flow, segment, awaits, answer.as_ref(), &mut edit);
        }
        if reason.forgets() {
            self.forget(now_ns);
        }
        (reason, edit)
    }

    /// A segment of an unknown flow: a strict policy enters it.
    fn adopt(&mut self, segment: &Segment, now_ns: u64) -> (Reason, Edit) {
        let mut flow = Flow::default();
        let (reason, edit) = self
            .core
            .adopt(&mut flow, &self.policy(now_ns), segment, now_ns);
        if reason == Reason::HELD {
            flow.share = self.share;
            self.flow = Some(flow);
        }
        (reason, edit)
    }
}
