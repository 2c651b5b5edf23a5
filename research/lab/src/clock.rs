//! CLOCK_MONOTONIC in nanoseconds: the time of the emulator and of the run.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use uc_net::Nanos;

/// Returns the current time. The clock exists on every Linux; if the call failed, the time would be
/// zero.
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map(Duration::from)
        .unwrap_or_default();
    // 2^64 ns are 584 years of uptime.
    Nanos(time.as_nanos() as u64)
}
