//! The clocks that the programs and the hosts share.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Returns the time of a clock of this machine, in nanoseconds.
pub(crate) fn clock_ns(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |time| Duration::from(time).as_nanos() as u64)
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds, as `bpf_ktime_get_ns()`.
pub(crate) fn now_ns() -> u64 {
    clock_ns(ClockId::CLOCK_MONOTONIC)
}
