//! A group that a host couples with those of other guests (`core/coupling/across.h`): what it keeps
//! for its reports, and how it follows the answers.

use super::{Group, Report};
use crate::sys;

/// What a group keeps for its reports, and which answer it follows.
pub type Link = sys::uc_ccc_link;
/// The host's answer, in the guest's time.
pub type Told = sys::uc_ccc_told;

/// An answer is followed for a smoothed round trip and this, which makes an RTO.
pub const RTO_MIN_NS: u64 = sys::UC_CCC_RTO_MIN_NS as u64;

impl Link {
    /// Before an update: what the host has told becomes the group's window, while it is fresh.
    pub fn follow(&mut self, group: &mut Group, told: &Told, now_ns: u64) {
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_ccc_follow(group, self, told, now_ns) };
    }

    /// After an update with this report, before which the group was `was`.
    pub fn note(&mut self, group: &Group, was: &Group, report: &Report, now_ns: u64) {
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe {
            sys::uc_shim_ccc_note(group, self, report, was.window_q16, was.cuts, now_ns);
        }
    }
}
