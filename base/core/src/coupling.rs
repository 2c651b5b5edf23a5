//! The coupled congestion controller (`core/coupling.h`): flows that share a bottleneck share one
//! window. `docs/ctrltcp.md` says what each home calls when.

pub mod across;

use crate::sys;

/// What a connection tells: its own law's output. Windows in bytes.
pub type Report = sys::uc_ccc_report;
/// What it is told.
pub type Answer = sys::uc_ccc_answer;
/// How a group behaves; all zero is one TCP with shares of the window.
pub type GroupPolicy = sys::uc_ccc_policy;
/// The flows that share a bottleneck.
pub type Group = sys::uc_ccc;
/// Those of them that are one tenant's. `weight` is its home's to set.
pub type Guest = sys::uc_ccc_guest;
/// One connection.
pub type Member = sys::uc_ccc_flow;
/// A flow's window in whole segments, whose mean is what it was given; all zero is a new flow's.
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

    /// A bandwidth–delay product that no group exceeds.
    pub const WINDOW_MAX_BYTES: u32 = 1 << 30;
}

impl Segments {
    /// An answer's window in bytes of whole segments: what it is more or less than the answer is to
    /// be taken off the window that the flow reports next. `acked_bytes` as in the report before.
    pub fn whole(&mut self, cwnd_bytes: u32, acked_bytes: u32, mss_bytes: u16) -> u32 {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_ccc_whole(self, cwnd_bytes, acked_bytes, mss_bytes) }
    }
}

impl Group {
    /// An empty group. Guests and flows of an older one under the same name must be forgotten.
    pub fn open(policy: &GroupPolicy, now_ns: u64) -> Group {
        let mut group = Group::default();
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_ccc_open(&mut group, policy, now_ns) };
        group
    }

    /// A connection begins: register(c, p, cwnd, ssthresh).
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

    /// Its law has computed: update(c, cwnd, ssthresh, state).
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

    /// The answer once more, between two reports.
    pub fn ask(&mut self, guest: &mut Guest, flow: &mut Member, now_ns: u64) -> Answer {
        let mut answer = Answer::default();
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_ccc_ask(self, guest, flow, now_ns, &mut answer) };
        answer
    }

    /// It ends: leave(c).
    pub fn leave(&mut self, guest: &mut Guest, flow: &mut Member, now_ns: u64) {
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_ccc_leave(self, guest, flow, now_ns) };
    }

    /// The sum of all shares.
    pub fn window_bytes(&self) -> u32 {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_ccc_window_bytes(self) }
    }

    /// How long an epoch lasts: who is silent for one is not counted any more.
    pub fn epoch_ns(&self) -> u64 {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_ccc_epoch_ns(self) }
    }

    /// A guest's part of the window; 0 while none of its flows is counted.
    pub fn guest_share_bytes(&self, guest: &Guest) -> u64 {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_ccc_guest_share_bytes(self, guest) }
    }

    /// A flow's part of the window, before what an answer makes of it; 0 while it isn't counted.
    pub fn share_bytes(&self, guest: &Guest, flow: &Member) -> u64 {
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_ccc_share_bytes(self, guest, flow) }
    }
}
