//! Epochs: in each epoch each flow of a group has one transfer, over a connection of its own.

use uc_experiment::{Application, Guests, Nanos};
use uc_net::random::Stream;

/// The times of a group's transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epochs {
    /// Number of epochs.
    pub rounds: u32,
    /// Start of the first epoch.
    pub start: Nanos,
    /// Interval between the starts of two epochs.
    pub every: Nanos,
    /// Mean time between two transfers' starts in an epoch.
    pub gap: Nanos,
}

impl Epochs {
    pub(crate) fn of(group: &Guests) -> Option<Self> {
        match group.application {
            Application::Epochs {
                rounds, every, gap, ..
            } => Some(Self {
                rounds,
                start: group.start,
                every,
                gap,
            }),
            _ => None,
        }
    }

    /// Draws the times of the transfers, one list for each flow: in every epoch the flows begin one after the other, in
    /// random order.
    pub(crate) fn draw(&self, random: &mut Stream, flows: usize) -> Vec<Vec<Nanos>> {
        let mut times = vec![Vec::new(); flows];
        for round in 0..self.rounds {
            let mut order: Vec<usize> = (0..flows).collect();
            random.shuffle(&mut order);
            let mut at_ns = self.start.0 + u64::from(round) * self.every.0;
            for flow in order {
                times[flow].push(Nanos(at_ns));
                at_ns += exponential_ns(random, self.gap.0);
            }
        }
        times
    }
}

fn exponential_ns(random: &mut Stream, mean_ns: u64) -> u64 {
    let uniform = (f64::from(random.bits32()) + 1.0) / (f64::from(u32::MAX) + 2.0);
    (-uniform.ln() * mean_ns as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flow_begins_once_in_every_epoch() {
        let epochs = Epochs {
            rounds: 3,
            start: Nanos(1_000),
            every: Nanos(1_000_000),
            gap: Nanos(1_000),
        };
        let draw = |seed| epochs.draw(&mut Stream::new(seed, "test"), 20);
        let times = draw(1);
        for of_flow in &times {
            let rounds: Vec<u64> = of_flow
                .iter()
                .map(|at| (at.0 - 1_000) / 1_000_000)
                .collect();
            assert_eq!(rounds, [0, 1, 2]);
        }
        assert_eq!(times, draw(1), "the seed decides");
        assert_ne!(times, draw(2));
    }
}
