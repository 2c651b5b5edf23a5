//! Measures the cost of a packet in a port's programs: each packet many times, the median of
//! several rounds, compared with the first case.

use std::fmt;
use std::os::fd::BorrowedFd;

use crate::direction::Direction;
use crate::error::PortError;
use crate::test_run::{PacketContext, run_packet};

/// Number of rounds; odd, so that there is a median.
const ROUNDS: usize = 7;

/// A packet and its direction.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name of the case in the output.
    pub name: &'static str,
    /// Direction, which selects the program.
    pub direction: Direction,
    /// The Ethernet frame.
    pub packet: Vec<u8>,
}

impl Case {
    /// Creates a case.
    pub fn new(name: &'static str, direction: Direction, packet: Vec<u8>) -> Self {
        Self {
            name,
            direction,
            packet,
        }
    }
}

/// Measured costs: a name and nanoseconds each. The first is the base of the ratios.
#[derive(Clone, Debug, Default)]
pub struct Costs(Vec<(&'static str, u128)>);

impl Costs {
    /// Measures the cases on interface `ifindex`; a time is the mean of `repeat` runs.
    ///
    /// # Errors
    /// The kernel's refusal.
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

    /// Adds a cost, in nanoseconds, that was measured by other means.
    pub fn push(&mut self, name: &'static str, ns: u128) {
        self.0.push((name, ns));
    }
}

/// Returns the median; 0 if there are no values.
pub fn median(times: &mut [u128]) -> u128 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<34}{:>12}{:>12}", "", "median ns", "÷ first")?;
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
    fn median_is_the_middle_value_and_costs_are_relative_to_the_first() {
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
