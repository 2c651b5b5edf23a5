//! Additive increase by a given number of segments for each window of bytes acknowledged.

use super::control::{MAX_CWND_BYTES, Window};

/// An increase of one segment for each window of bytes, as in NewReno.
pub(super) const ONE_SEGMENT_Q16: u32 = 1 << 16;

/// The progress toward the next segment of additive increase.
#[derive(Clone, Debug, Default)]
pub(super) struct Additive {
    /// Acknowledged bytes × segments of increase for each window, × 2^16. Each window of bytes in it, × 2^16, adds one
    /// segment to the window.
    credit_q16: u64,
}

impl Additive {
    /// Grows the window for `bytes` acknowledged, where a window of bytes adds `increase_q16`
    /// segments: the a(w)/w for each ACK of RFC 5681 equation (3), counted by bytes and in whole
    /// segments like NewReno's.
    pub(super) fn grow(&mut self, window: &mut Window, bytes: u32, increase_q16: u32) {
        self.credit_q16 += u64::from(bytes) * u64::from(increase_q16);
        let worth_q16 = u64::from(window.cwnd_bytes.max(1)) << 16;
        let segments = self.credit_q16 / worth_q16;
        self.credit_q16 %= worth_q16;
        let room = u64::from(MAX_CWND_BYTES.saturating_sub(window.cwnd_bytes));
        let grown = (segments * u64::from(window.smss_bytes)).min(room);
        window.cwnd_bytes += grown as u32;
    }

    /// Discards the progress, as at a reduction.
    pub(super) fn reset(&mut self) {
        self.credit_q16 = 0;
    }
}

/// Returns `bytes` reduced by the fraction `cut_q16`, but at least two segments (RFC 5681 equation
/// (4)).
pub(super) fn reduced(bytes: u32, cut_q16: u32, smss_bytes: u32) -> u32 {
    let left_q16 = u64::from((1_u32 << 16).saturating_sub(cut_q16));
    let left = ((u64::from(bytes) * left_q16) >> 16) as u32;
    left.max(2 * smss_bytes)
}
