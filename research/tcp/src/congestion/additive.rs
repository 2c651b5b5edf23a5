//! Additive increase by any number of segments for a window of bytes acknowledged.

use super::{MAX_CWND_BYTES, Window};

/// One segment for a window of bytes, as NewReno has it.
pub(super) const ONE_SEGMENT_Q16: u32 = 1 << 16;

/// What was acknowledged towards the next segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Additive {
    /// Bytes times segments; a window of bytes is worth one segment.
    credit_q16: u64,
}

impl Additive {
    /// `bytes` acknowledged, where a window of them is worth `increase_q16` segments: the a(w)/w
    /// for each ACK of RFC 5681 equation (3), counted by bytes and in whole segments as NewReno's.
    pub(super) fn grow(&mut self, window: &mut Window, bytes: u32, increase_q16: u32) {
        self.credit_q16 += u64::from(bytes) * u64::from(increase_q16);
        let worth_q16 = u64::from(window.cwnd_bytes.max(1)) << 16;
        let segments = self.credit_q16 / worth_q16;
        self.credit_q16 %= worth_q16;
        let room = u64::from(MAX_CWND_BYTES.saturating_sub(window.cwnd_bytes));
        let grown = (segments * u64::from(window.smss_bytes)).min(room);
        window.cwnd_bytes += grown as u32;
    }

    /// A reduction begins the count anew.
    pub(super) fn reset(&mut self) {
        self.credit_q16 = 0;
    }
}

/// `bytes` without the part `cut_q16` of them, and two segments at least (RFC 5681 equation (4)).
pub(super) fn reduced(bytes: u32, cut_q16: u32, smss_bytes: u32) -> u32 {
    let left_q16 = u64::from((1_u32 << 16).saturating_sub(cut_q16));
    let left = ((u64::from(bytes) * left_q16) >> 16) as u32;
    left.max(2 * smss_bytes)
}
