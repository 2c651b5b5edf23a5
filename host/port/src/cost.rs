//! What a packet costs in programs of a port, side by side in one run: each packet many times over,
//! the median of several rounds, and how that compares with the first case.

use std::fmt;
use std::os::fd::BorrowedFd;

use crate::direction::Direction;
use crate::error::PortError;
use crate::test_run::{PacketContext, run_packet};

/// How often all cases are measured; odd, so that there is a middle.
const ROUNDS: usize = 7;

/// A packet, and the way it goes.
#[derive(Clone, Debug)]
pub struct Case {
    /// The case's name in tables.
    pub name: &'static str,
    /// Which of the two programs sees it.
    pub direction: Direction,
    /// The packet's frame.
    pub packet: Vec<u8>,
}

impl Case {
    /// Makes a case.
    pub fn new(name: &'static str, direction: Direction, packet: Vec<u8>) -> Self {
        Self {
            name,
            direction,
            packet,
        }
    }
}

/// What was measured: a name and nanoseconds each. The first is what others are compared with.
#[derive(Clone, Debug, Default)]
pub struct Costs(Vec<(&'static str, u128)>);

impl Costs {
    /// Measures the cases on that interface; a time is the mean of `repeat` runs.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn measure<'a>(
        program: impl Fn(Direction) -> BorrowedFd<'a>,
        (ifindex, repeat): (u32, u32),
        cases: &[Case],
    ) -> Result<Self, PortError> {
        let context = PacketContext {
            ifindex,
            gso_segs: 0,
            gso_size: 0,
            repeat,
        };
        let mut times = vec![Vec::new(); cases.len()];
        for _ in 0..ROUNDS {
            for (case, times) in cases.iter().zip(&mut times) {
                let run = run_packet(program(case.direction), &case.packet, context, 0)?;
                times.push(run.duration.as_nanos());
            }
        }
        let names = cases.iter().map(|case| case.name);
        let medians = times.iter_mut().map(|times| median(times));
        Ok(Self(names.zip(medians).collect()))
    }

    /// Adds what was measured by other means.
    pub fn push(&mut self, name: &'static str, ns: u128) {
        self.0.push((name, ns));
    }
}

/// The middle of them, in whatever order they are; 0 of none.
pub fn median(times: &mut [u128]) -> u128 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<34}{:>12}{:>12}", "", "median ns", "of first")?;
        let base = self.0.first().map_or(1, |(_, ns)| *ns).max(1);
        for (name, ns) in &self.0 {
            writeln!(f, "{name:<34}{ns:>12}{:>11.1}×", *ns as f64 / base as f64)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_odd_number_of_times_is_the_median_and_costs_are_told_by_the_first() {
        assert_eq!(median(&mut [9, 1, 5]), 5);
        assert_eq!(median(&mut []), 0);
        let mut costs = Costs::default();
        costs.push("parsed", 20);
        costs.push("translated", 50);
        let text = costs.to_string();
        let last: Vec<_> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last, ["translated", "50", "2.5×"]);
    }
}
