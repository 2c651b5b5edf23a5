//! The coupled congestion controller (`core/coupling.h`): flows that share a bottleneck share one
//! window. `docs/ctrltcp.md` says which function a platform calls when.

pub mod across;

use crate::sys;

/// A connection's report: its own law's output. Windows are in bytes.
pub type Report = sys::uc_ccc_report;
/// The answer of a group's controller to a report.
pub type Answer = sys::uc_ccc_answer;
/// How a group behaves; all zero: it acts as one TCP, and shares are windows.
pub type GroupPolicy = sys::uc_ccc_policy;
/// The state of a group: flows of several guests that share a bottleneck's window.
pub type Group = sys::uc_ccc;
/// One tenant's flows in a group. The caller sets `weight`, 1 to 255; 0 counts as 1.
pub type Guest = sys::uc_ccc_guest;
/// One connection as a member of a group.
pub type Member = sys::uc_ccc_flow;
/// Rounds a flow's answers to whole segments so that their mean is right; all zero: a new flow.
pub type Segments = sys::uc_ccc_segments;

/// Constants of the interface under their C names without the prefix.
pub mod consts {
    pub use crate::sys::{
        UC_CCC_AVOIDANCE as AVOIDANCE, UC_CCC_BACKOFF as BACKOFF,
        UC_CCC_BURST_SEGMENTS as BURST_SEGMENTS, UC_CCC_BY_RATE as BY_RATE,
        UC_CCC_BY_WINDOW as BY_WINDOW, UC_CCC_INFINITE_SSTHRESH as INFINITE_SSTHRESH,
        UC_CCC_LOSS as LOSS, UC_CCC_RECOVERY as RECOVERY, UC_CCC_SILENCE_US as SILENCE_US,
        UC_CCC_SIZE_FLOWS as SIZE_FLOWS, UC_CCC_SIZE_GUESTS as SIZE_GUESTS,
        UC_CCC_SIZE_LAWS as SIZE_LAWS, UC_CCC_SLOW_START as SLOW_START,
    };

    /// The largest window of a group.
    pub const WINDOW_MAX_BYTES: u32 = 1 << 30;
}

impl Segments {
    /// Rounds an answer's window to whole segments (bytes). The caller subtracts the difference to
    /// the answer from the window that the flow reports next. `acked_bytes` is that of the last
    /// report.
    pub fn whole(&mut self, cwnd_bytes: u32, acked_bytes: u32, mss_bytes: u16) -> u32 {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_ccc_whole(self, cwnd_bytes, acked_bytes, mss_bytes) }
    }
}

impl Group {
    /// Returns an empty group. The caller must drop the guests and flows of a group that it replaces.
    pub fn open(policy: &GroupPolicy, now_ns: u64) -> Group {
        let mut group = Group::default();
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_ccc_open(&mut group, policy, now_ns) };
        group
    }

    /// Enters a connection that begins: register(c, p, cwnd, ssthresh). `priority`: 1 to 255; 0 counts as 1.
    pub fn register(
        &mut self,
        guest: &mut Guest,
        flow: &mut Member,
        priority: u8,
        report: &Report,
        now_ns: u64,
    ) -> Answer {
        let mut answer = Answer::default();
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe {
            sys::uc_shim_ccc_register(self, guest, flow, priority, report, now_ns, &mut answer);
        }
        answer
    }

    /// Takes a connection's report: update(c, cwnd, ssthresh, state). A connection that is not registered gets its own
    /// numbers back.
    pub fn update(
        &mut self,
        guest: &mut Guest,
        flow: &mut Member,
        report: &Report,
        now_ns: u64,
    ) -> Answer {
        let mut answer = Answer::default();
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_ccc_update(self, guest, flow, report, now_ns, &mut answer) };
        answer
    }

    /// Returns a flow's answer again, between two reports. Valid only while the connection's window is the one that it
    /// got last.
    pub fn ask(&mut self, guest: &mut Guest, flow: &mut Member, now_ns: u64) -> Answer {
        let mut answer = Answer::default();
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_ccc_ask(self, guest, flow, now_ns, &mut answer) };
        answer
    }

    /// Removes a connection that has ended: leave(c).
    pub fn leave(&mut self, guest: &mut Guest, flow: &mut Member, now_ns: u64) {
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_ccc_leave(self, guest, flow, now_ns) };
    }

    /// Returns the group's window in bytes: the sum of all shares.
    pub fn window_bytes(&self) -> u32 {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_ccc_window_bytes(self) }
    }

    /// Returns the length of an epoch in ns; a flow that is silent for one isn't counted any more.
    pub fn epoch_ns(&self) -> u64 {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_ccc_epoch_ns(self) }
    }

    /// Returns a guest's part of the window in bytes; 0 while none of its flows is counted.
    pub fn guest_share_bytes(&self, guest: &Guest) -> u64 {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_ccc_guest_share_bytes(self, guest) }
    }

    /// Returns a flow's part of the window in bytes, before an answer limits it; 0 while the flow
    /// isn't counted.
    pub fn share_bytes(&self, guest: &Guest, flow: &Member) -> u64 {
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_ccc_share_bytes(self, guest, flow) }
    }
}
