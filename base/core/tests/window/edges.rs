//! The furthest edge that the guest was given, as the test reads it.

use uc_core::consts;

use super::World;
use crate::flows::Passed;

impl World<'_> {
    pub(super) fn give(&mut self, edge: u32) {
        let further = |known: u32| edge.wrapping_sub(known) as i32 > 0;
        if self.furthest.is_none_or(further) {
            self.furthest = Some(edge);
        }
    }

    /// Returns to an ACK in front of the place where the flow has gone on without ACKs, with two
    /// segments.
    pub(super) fn go_back(&mut self, passed: &Passed, ack: u32) {
        let Some(before) = &passed.before else { return };
        let less = (ack.wrapping_sub(before.snd_una) as i32) < 0;
        let returned = passed.after.is_some_and(|flow| flow.snd_una == ack);
        if before.bits & consts::FLOW_BLIND != 0 && less && returned {
            let segments = 2 * u32::from(before.mss_bytes);
            self.furthest = Some(ack.wrapping_add(segments));
        }
    }
}
