//! The units of times and rates in figures.

use crate::run_set::RunSet;

/// A unit of a figure's axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit {
    pub name: &'static str,
    /// Size of the unit, in seconds or bit/s: 1e-3 for milliseconds.
    pub size: f64,
}

/// Returns the unit for times up to this one: the largest of seconds and milliseconds of which it has at least two,
/// otherwise microseconds.
pub(crate) fn of_time(longest_s: f64) -> Unit {
    let (name, size) = match longest_s {
        long if long >= 2.0 => ("seconds", 1.0),
        short if short >= 2e-3 => ("milliseconds", 1e-3),
        _ => ("microseconds", 1e-6),
    };
    Unit { name, size }
}

/// Returns the unit for the bottlenecks' rates: Gbit/s if the fastest has at least 2 Gbit/s, otherwise Mbit/s.
pub(crate) fn of_rate(sets: &[RunSet<'_>]) -> Unit {
    let rates = sets.iter().map(|set| set.experiment.network.rate.0);
    match rates.max() {
        Some(fast) if fast >= 2_000_000_000 => Unit {
            name: "Gbit/s",
            size: 1e9,
        },
        _ => Unit {
            name: "Mbit/s",
            size: 1e6,
        },
    }
}
