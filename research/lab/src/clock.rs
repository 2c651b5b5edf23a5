//! CLOCK_MONOTONIC in nanoseconds: the time of the emulator and of the run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use uc_net::Nanos;

/// Interval at which a waiting thread checks its stop flag.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Waits until `at`; returns false if `stop` is set before, at most 20 ms after it was.
pub(crate) fn wait_until(at: Nanos, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = at.since(now());
        if left == Nanos::ZERO {
            return true;
        }
        thread::sleep(Duration::from_nanos(left.0).min(LOOK));
    }
}

/// Returns the current time. The clock exists on every Linux; if the call failed, the time would be
/// zero.
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map(Duration::from)
        .unwrap_or_default();
    // 2^64 ns are 584 years of uptime.
    Nanos(time.as_nanos() as u64)
}
