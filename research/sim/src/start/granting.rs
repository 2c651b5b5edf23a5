//! Pacing slots at the sending host (`core/watch/grant.h`): the question to the granter, the host that paces the
//! starts on a shared link, and packets to the guest that wait for the answer.

use std::collections::VecDeque;

use uc_core::consts::FROM_GUEST;
use uc_core::watch::{Grant, Granter, StartPolicy};
use uc_net::Nanos;
use uc_tcp::{Segment, flags};

use super::known::{Ends, Starts};
use crate::packet::Packet;
use crate::port::parse;

/// The grant of a flow's pacing slot, and the packets to the guest that wait for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Asking {
    grant: Grant,
    waiting: VecDeque<Packet>,
    /// Time at which the first waiting packet arrived.
    answered: Nanos,
    /// Whether the guest has got the peer's answer: then no packet waits any more.
    passed: bool,
}

impl Asking {
    /// Processes a segment that the guest sends. Returns the number of bytes for which to ask the granting host; 0: ask
    /// nothing.
    pub(super) fn departs(
        &mut self,
        policy: &StartPolicy,
        segment: &Segment,
        granter: &mut Granter,
    ) -> u32 {
        let parsed = parse(segment, FROM_GUEST);
        if segment.has(flags::SYN) {
            return self.grant.ask(granter, policy, &parsed);
        }
        self.grant.sent(granter, policy, &parsed);
        0
    }

    /// Processes the answer of the granter: the flow waits for
    /// `wait_ns`.
    pub(super) fn granted(
        &mut self,
        now: Nanos,
        policy: &StartPolicy,
        granter: &mut Granter,
        wait_ns: u64,
    ) {
        self.grant.granted(granter, policy, wait_ns, now.0);
    }

    /// Processes a packet to the guest. Returns true if the packet must not pass now: it waits, or it is a copy of a
    /// waiting SYN-ACK and is dropped.
    pub(super) fn arrives(&mut self, now: Nanos, granter: &Granter, packet: &Packet) -> bool {
        if self.passed || !packet.segment.has(flags::ACK) {
            return false;
        }
        if self.waiting.is_empty() {
            self.answered = now;
            self.passed = self.wait_ns(now, granter) == 0;
            if self.passed {
                return false;
            }
        } else if packet.segment.has(flags::SYN) {
            return true;
        }
        self.waiting.push_back(*packet);
        true
    }

    /// Returns when the waiting packets are due; `None` if none waits.
    pub(super) fn due(&self, now: Nanos, granter: &Granter) -> Option<Nanos> {
        let wait = Nanos(self.wait_ns(now, granter));
        (!self.waiting.is_empty()).then_some(now + wait)
    }

    /// Returns the waiting packets if they are due; otherwise none.
    pub(super) fn released(
        &mut self,
        now: Nanos,
        ends: Ends,
        hosts: &mut Starts,
    ) -> VecDeque<Packet> {
        let granter = hosts.granters.entry(ends.0).or_default();
        if self.waiting.is_empty() || self.wait_ns(now, granter) > 0 {
            return VecDeque::new();
        }
        self.grant.unanswered(granter);
        self.passed = true;
        hosts.counts.unanswered += u64::from(self.grant.granted == 0);
        std::mem::take(&mut self.waiting)
    }

    fn wait_ns(&self, now: Nanos, granter: &Granter) -> u64 {
        self.grant.wait_ns(granter, self.answered.0, now.0)
    }
}
