//! In which unit a figure tells times and rates.

use crate::scene::Scene;

/// A unit of a figure's axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit {
    pub name: &'static str,
    /// How many SI units it is.
    pub size: f64,
}

/// Seconds, or what gives such a time whole numbers.
pub(crate) fn of_time(longest_s: f64) -> Unit {
    let (name, size) = match longest_s {
        long if long >= 2.0 => ("seconds", 1.0),
        short if short >= 2e-3 => ("milliseconds", 1e-3),
        _ => ("microseconds", 1e-6),
    };
    Unit { name, size }
}

/// Mbit/s, or what gives a bottleneck of such a rate whole numbers.
pub(crate) fn of_rate(scenes: &[Scene<'_>]) -> Unit {
    let rates = scenes.iter().map(|scene| scene.experiment.network.rate.0);
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
