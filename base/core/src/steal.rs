//! PVTCP (`core/steal.h`): what a guest does when it finds that its CPU was taken away.
//! `docs/pvtcp.md` says which function a platform calls when.

use crate::sys;

/// Policy of the handling of stalls; all zero: nothing is done.
pub type Policy = sys::uc_steal_policy;
/// The state of one CPU's clock, by which a guest detects that the CPU was taken away.
pub type Clock = sys::uc_steal_clock;
/// State of one timer of a connection.
pub type Timer = sys::uc_steal_timer;

/// Constants of the interface under their C names without the prefix.
pub mod consts {
    pub use crate::sys::{
        UC_STEAL_FILTER_FLIGHT as FILTER_FLIGHT, UC_STEAL_FILTER_OFF as FILTER_OFF,
        UC_STEAL_FILTER_SKIP as FILTER_SKIP, UC_STEAL_FILTER_SRTT as FILTER_SRTT,
        UC_STEAL_RETRANSMISSION as RETRANSMISSION, UC_STEAL_TAIL_LOSS_PROBE as TAIL_LOSS_PROBE,
    };
}

/// What becomes of a measured round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// The round-trip time is used as it was measured.
    Measured,
    /// The smoothed round-trip time replaces the sample (PVTCP, equation 11); if there is none yet, the
    /// sample is dropped.
    Smoothed,
    /// The round-trip time is not used.
    Nothing,
}

impl Policy {
    /// Returns the policy of the PVTCP paper: retransmission timers are deferred, and the smoothed round-trip
    /// time replaces samples.
    pub fn paper() -> Policy {
        Policy {
            slack_ticks: 0,
            timers: 1 << consts::RETRANSMISSION,
            filter: consts::FILTER_SRTT as u8,
        }
    }
}

impl Clock {
    /// Handles a timer interrupt at `tick` that was expected at `expected_tick`. Returns by how
    /// many ticks the clock jumped.
    pub fn tick(&mut self, policy: &Policy, tick: u64, expected_tick: u64) -> u32 {
        // SAFETY: both pointers are valid for the call and the C side keeps neither.
        unsafe { sys::uc_shim_steal_tick(self, policy, tick, expected_tick) }
    }

    /// Returns whether the clock jumped to this tick.
    pub fn is_spiked(&self, tick: u64) -> bool {
        // SAFETY: the pointer is valid for the call and the C side doesn't keep it.
        unsafe { sys::uc_shim_steal_is_spiked(self, tick) != 0 }
    }

    /// Returns whether a timer of this kind, due at `due_tick`, that fires in `tick` must not run
    /// but be armed again for the next tick.
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

    /// Returns how to use the round-trip time of data that was sent in `sent_tick` and whose ACK is handled
    /// in `tick`.
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
