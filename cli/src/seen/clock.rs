//! Converts times of the programs' clock to calendar time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use nix::time::{ClockId, clock_gettime};

/// The monotonic clock and the wall clock, read together.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// `CLOCK_MONOTONIC`, by which the programs record times.
    pub now_ns: u64,
    /// Wall-clock time in nanoseconds since 1970-01-01 UTC.
    unix_ns: u128,
}

impl Clock {
    /// Reads the monotonic and the wall clock now.
    ///
    /// # Errors
    /// A clock can't be read.
    pub fn read() -> Result<Clock> {
        let monotonic = clock_gettime(ClockId::CLOCK_MONOTONIC)
            .context("could not read the monotonic clock")?;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Clock {
            now_ns: Duration::from(monotonic).as_nanos() as u64,
            unix_ns: unix.map_or(0, |since| since.as_nanos()),
        })
    }

    /// Returns the time since `at_ns` (CLOCK_MONOTONIC, ns); zero if `at_ns` is in the future.
    pub fn ago(&self, at_ns: u64) -> Duration {
        Duration::from_nanos(self.now_ns.saturating_sub(at_ns))
    }

    /// Converts a time of CLOCK_MONOTONIC, in nanoseconds, to seconds of Unix time.
    pub fn unix_s(&self, at_ns: u64) -> f64 {
        let unix_ns = self.unix_ns.saturating_sub(self.ago(at_ns).as_nanos());
        Duration::from_nanos(unix_ns as u64).as_secs_f64()
    }
}

/// Formats a duration for people: three digits and a unit.
pub fn in_words(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 1e-3 => format!("{:.0} us", s * 1e6),
        s if s < 0.1 => format!("{:.1} ms", s * 1e3),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s if s < 360_000.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} d", s / 86_400.0),
    }
}

/// Formats a Unix time as the time of day in UTC: hours, minutes, seconds and milliseconds.
pub fn time_of_day(unix_s: f64) -> String {
    let milliseconds = (unix_s * 1e3) as u64 % 86_400_000;
    let (seconds, milliseconds) = (milliseconds / 1000, milliseconds % 1000);
    format!(
        "{:02}:{:02}:{:02}.{milliseconds:03}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_has_milliseconds() {
        assert_eq!(time_of_day(1_700_000_000.25), "22:13:20.250");
        assert_eq!(time_of_day(0.0), "00:00:00.000");
    }

    #[test]
    fn a_duration_gets_a_fitting_unit() {
        let said = [40, 1_500, 250_000, 1_500_000, 600_000_000, 90_000_000_000]
            .map(|us| in_words(Duration::from_micros(us)));
        assert_eq!(
            said,
            ["40 us", "1.5 ms", "250 ms", "1.5 s", "10 min", "25.0 h"]
        );
    }

    #[test]
    fn an_event_of_a_second_ago_has_the_unix_time_of_a_second_ago() {
        let clock = Clock::read().unwrap();
        let at = clock.unix_s(clock.now_ns - 1_000_000_000);
        assert!((clock.unix_s(clock.now_ns) - at - 1.0).abs() < 1e-3, "{at}");
    }
}
