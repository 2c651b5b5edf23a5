//! The two hooks of a port (`core/hooks.h`): which of them is blind, and whether new flows may ask for
//! ECN.

use crate::{Flow, Segment, sys};

/// Record of which of a port's two hooks have seen segments.
pub type Hooks = sys::uc_hooks;

/// Constants of the interface under their C names without the prefix.
pub mod consts {
    pub use crate::sys::{
        UC_HOOKS_GRAIN_NS as GRAIN_NS, UC_HOOKS_RUN_NS as RUN_NS, UC_HOOKS_TRIAL_NS as TRIAL_NS,
    };
}

impl Hooks {
    /// Returns the state of a port of which both hooks are taken to see all packets at `now_ns`.
    pub fn trusted(now_ns: u64) -> Hooks {
        Hooks {
            seen_ns: [now_ns; 2],
            ..Hooks::default()
        }
    }

    /// Records a segment at the hook of its direction.
    pub fn saw(&mut self, segment: &Segment, now_ns: u64) {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_hook_saw(self, segment, now_ns) };
    }

    /// Records a packet to the guest that the port can't read.
    pub fn unread(&mut self, now_ns: u64) {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_hook_unread(self, now_ns) };
    }

    /// Records an answer that the hook to the guest has missed.
    pub fn missed(&mut self, now_ns: u64) {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_hook_missed(self, now_ns) };
    }

    /// Returns whether the hook of this direction (`consts::FROM_GUEST`, `TO_GUEST`) sees no packets while
    /// the opposite hook sees traffic.
    pub fn is_blind(&self, direction: u32) -> bool {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_is_blind(self, direction) != 0 }
    }

    /// Returns whether new flows of the guest may ask for ECN.
    pub fn ask(&self, now_ns: u64) -> bool {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_hooks_ask(self, now_ns) != 0 }
    }
}

/// Returns whether the segment shows that a SYN-ACK has reached the guest, but not the port.
pub fn is_missed(flow: &Flow, segment: &Segment) -> bool {
    // SAFETY: both pointers are valid for the call and the C side keeps neither.
    unsafe { sys::uc_shim_is_missed(flow, segment) != 0 }
}
