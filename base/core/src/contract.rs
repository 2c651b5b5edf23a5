//! The types of the C contract, made by bindgen.

use std::ops::{Deref, DerefMut};

use zerocopy::{FromBytes, IntoBytes};

use crate::sys;

/// A parsed TCP segment: host byte order, window unscaled, payload in bytes.
pub type Segment = sys::uc_segment;
/// Values to write into a translated segment: receive window, TCP flags and ECN codepoint, and which
/// options of a SYN or SYN-ACK to remove.
pub type Edit = sys::uc_edit;
/// The operator's policy for flows of a port.
pub type Policy = sys::uc_policy;
/// Parameters of law `dctcp`, in the core's units.
pub type DctcpParameters = sys::uc_dctcp_parameters;
/// Parameters of law `delay`, in the core's units.
pub type DelayParameters = sys::uc_delay_parameters;
/// All that the host knows of one flow: its state, to which this dereferences, and its annex.
pub type Flow = sys::uc_whole;
/// The host's state of a flow, without the annex.
pub type FlowState = sys::uc_flow;
/// Additional state of a flow whose law has a far room, or that shares its window.
pub type Annex = sys::uc_annex;

impl Flow {
    /// Returns whether the flow has an annex.
    pub fn has_annex(&self) -> bool {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_has_annex(self) != 0 }
    }

    /// Moves all moments to a clock that shows `units` times 128 µs more (`core/rebase.h`).
    pub fn rebase(&mut self, units: i64) {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_rebase(self, units) };
    }

    /// Lets the flow of a port that drains leave translation (`core/leave.h`). Returns false if the platform must
    /// remove the flow.
    pub fn leave(&mut self) -> bool {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_leave(self) != 0 }
    }

    /// Lets a flow that has left translation return to it; any other flow stays as it is.
    pub fn return_to_law(&mut self) {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_return(self) };
    }

    /// Returns whether the core may translate the flow, wherever it is from (`core/sound.h`).
    pub fn is_sound(&self) -> bool {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_is_sound(self) != 0 }
    }

    /// Returns whether the flow shares a window.
    pub fn is_coupled(&self) -> bool {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_is_coupled(self) != 0 }
    }
}

impl Policy {
    /// Returns the parameters of law `dctcp`; without meaning if the policy has another law.
    pub fn dctcp(&self) -> DctcpParameters {
        self.own()
    }

    /// Returns the parameters of law `delay`; without meaning if the policy has another law.
    pub fn delay(&self) -> DelayParameters {
        self.own()
    }

    /// Sets the parameters of law `dctcp`, in place of any other law's.
    #[must_use]
    pub fn with_dctcp(self, parameters: DctcpParameters) -> Policy {
        self.with_own(parameters.as_bytes())
    }

    /// Sets the parameters of law `delay`, in place of any other law's.
    #[must_use]
    pub fn with_delay(self, parameters: DelayParameters) -> Policy {
        self.with_own(parameters.as_bytes())
    }

    fn own<Own: FromBytes + Default>(&self) -> Own {
        Own::read_from_prefix(self.parameters.as_bytes())
            .map(|(own, _)| own)
            .unwrap_or_default()
    }

    fn with_own(mut self, own: &[u8]) -> Policy {
        self.parameters = sys::uc_parameters::default();
        self.parameters.as_mut_bytes()[..own.len()].copy_from_slice(own);
        self
    }
}

impl FlowState {
    /// Returns the scale of the peer's windows, 0 to 14.
    pub fn wscale(&self) -> u8 {
        self.handshake & 15
    }

    /// Returns how many SYNs the guest has sent; 15: 15 or more.
    pub fn syns(&self) -> u8 {
        self.handshake >> 4
    }

    /// Returns whether the flow leaves translation: its port drains.
    pub fn leaves(&self) -> bool {
        self.bits & sys::UC_FLOW_LEAVES != 0
    }

    /// Returns whether both ends have agreed on ECN.
    pub fn has_ecn(&self) -> bool {
        u32::from(self.feedback) & sys::UC_FEEDBACK_WAY != 0
    }
}

impl From<FlowState> for Flow {
    fn from(flow: FlowState) -> Flow {
        Flow {
            flow,
            annex: Annex::default(),
        }
    }
}

impl Deref for Flow {
    type Target = FlowState;

    fn deref(&self) -> &FlowState {
        &self.flow
    }
}

impl DerefMut for Flow {
    fn deref_mut(&mut self) -> &mut FlowState {
        &mut self.flow
    }
}
