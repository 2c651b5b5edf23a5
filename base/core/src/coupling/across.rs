//! A group in a guest that the host couples with those of other guests (`core/coupling/across.h`):
//! what it stores for its reports, and how it applies the answers.

use super::{Group, Report};
use crate::sys;

/// The state by which a group reports to the host: what it has reported, and the answer that it applied
/// last.
pub type Link = sys::uc_ccc_link;
/// The host's answer, with times by the guest's clock.
pub type Told = sys::uc_ccc_told;

/// Lifetime of an answer in addition to a smoothed round trip; together they are an RTO.
pub const RTO_MIN_NS: u64 = sys::UC_CCC_RTO_MIN_NS as u64;

impl Link {
    /// Sets the group's window to the host's answer, unless it was set to this answer before, or the answer is older
    /// than an RTO, or the host did not know of the group's last reduction. To be called before an update.
    pub fn follow(&mut self, group: &mut Group, told: &Told, now_ns: u64) {
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_ccc_follow(group, self, told, now_ns) };
    }

    /// Records an update with this report for the next report to the host. `was`: the group before
    /// it.
    pub fn note(&mut self, group: &Group, was: &Group, report: &Report, now_ns: u64) {
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe {
            sys::uc_shim_ccc_note(group, self, report, was.window_q16, was.cuts, now_ns);
        }
    }
}
