//! Merging of segments that arrive close together, before TCP sees them: generic receive offload (GRO),
//! by the rules of `tcp_gro_receive()` in Linux 6.18.
//!
//! Consecutive data of the same acknowledgment number, flags, options and ECN codepoint become one
//! segment, which TCP answers by at most one ACK: a stretch ACK of data in order, one duplicate ACK
//! where several segments follow a gap.

use uc_net::Nanos;

use crate::config::Coalescing;
use crate::segment::{Segment, flags};

/// Flags of segments that are not merged.
const ALONE: u8 = flags::SYN | flags::FIN | flags::RST | flags::CWR;

/// The segments of a connection that wait to be merged with later ones.
#[derive(Clone, Debug)]
pub(crate) struct Coalescer {
    policy: Coalescing,
    waiting: Option<Merged>,
}

/// Segments that receive offload has merged into one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merged {
    pub(crate) segment: Segment,
    count: u8,
    /// Payload of the first segment, in bytes; no later segment's is larger.
    pub(crate) wire_bytes: u16,
    /// Time at which TCP gets the merged segments at the latest.
    deadline: Nanos,
}

impl Merged {
    /// Returns whether a segment may be merged behind these: it continues them and has the same header.
    fn continues(&self, next: &Segment) -> bool {
        let whole = &self.segment;
        let total = u32::from(whole.payload_bytes) + u32::from(next.payload_bytes);
        next.seq == whole.seq.wrapping_add(u32::from(whole.payload_bytes))
            && next.ack == whole.ack
            && next.flags | flags::PSH == whole.flags | flags::PSH
            && next.options == whole.options
            && next.ecn == whole.ecn
            && next.payload_bytes <= self.wire_bytes
            && total <= u32::from(u16::MAX)
    }
}

impl Coalescer {
    pub(crate) fn new(policy: Coalescing) -> Coalescer {
        Coalescer {
            policy,
            waiting: None,
        }
    }

    /// Returns the time at which TCP gets the segments that wait; `None`: none waits.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.waiting.as_ref().map(|merged| merged.deadline)
    }

    /// Returns whether a segment may be merged with others.
    pub(crate) fn may_merge(segment: &Segment) -> bool {
        segment.payload_bytes > 0 && !segment.has(ALONE)
    }

    /// Lets a segment wait for others. No segment may be waiting.
    pub(crate) fn hold(&mut self, now: Nanos, segment: &Segment) {
        self.waiting = Some(Merged {
            segment: *segment,
            count: 1,
            wire_bytes: segment.payload_bytes,
            deadline: now + self.policy.within,
        });
    }

    /// Takes the segments that wait, merged into one; `None`: none waits.
    pub(crate) fn take(&mut self) -> Option<Merged> {
        self.waiting.take()
    }

    /// Merges a segment with those that wait. Returns false, without merging, if it does not continue them or none
    /// waits.
    pub(crate) fn merge(&mut self, segment: &Segment) -> bool {
        let Some(merged) = self
            .waiting
            .as_mut()
            .filter(|merged| merged.continues(segment))
        else {
            return false;
        };
        merged.segment.payload_bytes += segment.payload_bytes;
        merged.segment.flags |= segment.flags;
        merged.count += 1;
        true
    }

    /// Returns whether no segment may be merged after `last`, the segment that came last; also true if none waits.
    pub(crate) fn is_complete(&self, last: &Segment) -> bool {
        self.waiting.as_ref().is_none_or(|merged| {
            merged.count >= self.policy.segments
                || last.has(flags::PSH)
                || last.payload_bytes < merged.wire_bytes
        })
    }
}
