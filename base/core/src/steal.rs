//! PVTCP (`core/steal.h`): what a guest does when it finds that its CPU was taken away.
//! `docs/pvtcp.md` says what each home calls when.

use crate::sys;

/// What is done about a stall; all zero does nothing.
pub type Policy = sys::uc_steal_policy;
/// What one CPU knows of its clock.
pub type Clock = sys::uc_steal_clock;
/// What is known of one timer.
pub type Timer = sys::uc_steal_timer;

/// Constants of the interface under their C names without the prefix.
pub mod consts {
    pub use crate::sys::{
        UC_STEAL_FILTER_FLIGHT as FILTER_FLIGHT, UC_STEAL_FILTER_OFF as FILTER_OFF,
        UC_STEAL_FILTER_SKIP as FILTER_SKIP, UC_STEAL_FILTER_SRTT as FILTER_SRTT,
        UC_STEAL_RETRANSMISSION as RETRANSMISSION, UC_STEAL_TAIL_LOSS_PROBE as TAIL_LOSS_PROBE,
    };
}

/// What becomes of a round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// It is taken.
    Measured,
    /// The smoothed one is taken in its place (equation 11); without one, nothing is.
    Smoothed,
    /// Nothing is taken.
    Nothing,
}

impl Policy {
    /// The paper's: retransmission timers are put off, samples replaced by the smoothed time.
    pub fn paper() -> Policy {
        Policy {
            slack_ticks: 0,
            timers: 1 << consts::RETRANSMISSION,
            filter: consts::FILTER_SRTT as u8,
        }
    }
}

impl Clock {
    /// A timer interrupt is handled at `tick` that was expected at `expected_tick`. Answers by how
    /// many ticks the clock jumped.
    pub fn tick(&mut self, policy: &Policy, tick: u64, expected_tick: u64) -> u32 {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_steal_tick(self, policy, tick, expected_tick) }
    }

    /// Whether the clock jumped to this tick.
    pub fn is_spiked(&self, tick: u64) -> bool {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_steal_is_spiked(self, tick) != 0 }
    }

    /// A timer of this kind that was due at `due_tick` fires in `tick`: whether it is to be armed
    /// again for the next tick, and not run.
    pub fn defers(
        &mut self,
        policy: &Policy,
        timer: &mut Timer,
        kind: u32,
        due_tick: u64,
        tick: u64,
    ) -> bool {
        // SAFETY: all pointers are valid for the call and the C side keeps none of them.
        unsafe { sys::uc_shim_steal_defers(self, policy, timer, kind, due_tick, tick) != 0 }
    }

    /// An ACK handled in `tick` times what was sent in `sent_tick`.
    pub fn judge(&mut self, policy: &Policy, sent_tick: u64, tick: u64) -> Sample {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        let verdict = unsafe { sys::uc_shim_steal_rtt(self, policy, sent_tick, tick) };
        match verdict {
            sys::UC_STEAL_RTT_SMOOTHED => Sample::Smoothed,
            sys::UC_STEAL_RTT_NONE => Sample::Nothing,
            _ => Sample::Measured,
        }
    }
}
