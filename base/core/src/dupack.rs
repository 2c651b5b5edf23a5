//! Duplicate ACKs that the host sends a guest whose flow has gone silent (`core/dupack.h`).

use std::time::Duration;

use crate::{Flow, Segment, sys};

/// When and how many duplicate ACKs a port's flows get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy(sys::uc_dupack_policy);

impl Policy {
    /// The usual shortest silence of a flow before a round of duplicate ACKs.
    pub const LEAST: Duration = Duration::from_micros(sys::UC_DUPACK_LEAST_US as u64);

    /// Creates a policy from the shortest silence before a round of duplicate ACKs. `short_tails`: three duplicate ACKs
    /// also for fewer than four segments in flight, and this wait is added if only one is; `None`: fewer segments get
    /// only as many duplicate ACKs as they could cause. Times above an hour count as an hour.
    pub fn new(least: Duration, short_tails: Option<Duration>) -> Policy {
        let us = |time: Duration| time.min(Duration::from_secs(3600)).as_micros() as u32;
        Policy(sys::uc_dupack_policy {
            least_us: us(least),
            short_tail_us: short_tails.map_or(sys::UC_DUPACK_NEVER_US, us),
        })
    }
}

/// The duplicate ACKs that the host has sent for a flow. The platform keeps one for each flow, and creates
/// it with the flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds(sys::uc_dupack);

impl Rounds {
    /// Returns when the next round is due if nothing of the flow passes until then, in ns of the
    /// flow's clock; `None`: no round.
    pub fn due_ns(&self, policy: &Policy, flow: &Flow) -> Option<u64> {
        // SAFETY: the pointers are valid for the call and the C side keeps none.
        let due_ns = unsafe { sys::uc_shim_dupack_due_ns(&self.0, &policy.0, flow) };
        (due_ns > 0).then_some(due_ns)
    }

    /// Returns how many duplicate ACKs the guest is to get now, and records the round; 0: it is not
    /// due.
    pub fn take(&mut self, policy: &Policy, flow: &Flow, now_ns: u64) -> u32 {
        // SAFETY: the pointers are valid for the call and the C side keeps none.
        unsafe { sys::uc_shim_dupack_take(&mut self.0, &policy.0, flow, now_ns) }
    }
}

/// Returns the duplicate ACK, as if it came from the network: it is to pass the port.
pub fn segment(flow: &Flow) -> Segment {
    let mut segment = Segment::default();
    // SAFETY: the pointers are valid for the call and the C side keeps none.
    unsafe { sys::uc_shim_dupack_segment(flow, &mut segment) };
    segment
}
