//! Two other algorithms on ctrlTCP's interface, as its paper sketches them: LISA
//! (`core/coupling/lisa.h`) and the Congestion Manager (`core/coupling/manager.h`).

use super::{Answer, Report};
use crate::sys;

/// LISA: newcomers take their first window from a flow in slow start.
pub type Lisa = sys::uc_lisa;
/// A flow of [`Lisa`].
pub type LisaMember = sys::uc_lisa_flow;
/// The Congestion Manager: one congestion control for a macroflow.
pub type Manager = sys::uc_manager;
/// A flow of [`Manager`].
pub type ManagerMember = sys::uc_manager_flow;

impl Lisa {
    /// A connection begins; `id` is not 0.
    pub fn register(&mut self, flow: &mut LisaMember, id: u64, report: &Report) -> Answer {
        let mut answer = Answer::default();
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_lisa_register(self, flow, id, report, &mut answer) };
        answer
    }

    /// Its law has computed.
    pub fn update(&mut self, flow: &LisaMember, report: &Report) -> Answer {
        let mut answer = Answer::default();
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_lisa_update(self, flow, report, &mut answer) };
        answer
    }

    /// It ends.
    pub fn leave(&mut self, flow: &mut LisaMember) {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_lisa_leave(self, flow) };
    }
}

impl Manager {
    /// A connection begins.
    pub fn register(&mut self, flow: &mut ManagerMember, report: &Report) -> Answer {
        let mut answer = Answer::default();
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_manager_register(self, flow, report, &mut answer) };
        answer
    }

    /// It has something to tell.
    pub fn update(&mut self, flow: &mut ManagerMember, report: &Report, now_ns: u64) -> Answer {
        let mut answer = Answer::default();
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_manager_update(self, flow, report, now_ns, &mut answer) };
        answer
    }

    /// It ends.
    pub fn leave(&mut self, flow: &mut ManagerMember) {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_manager_leave(self, flow) };
    }
}
