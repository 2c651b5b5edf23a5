//! The clock that the BPF programs read.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Returns `CLOCK_MONOTONIC` in nanoseconds, as `bpf_ktime_get_ns()`.
pub(crate) fn now_ns() -> u64 {
    // The call fails for unknown clocks only.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| Duration::from(time).as_nanos() as u64)
}
