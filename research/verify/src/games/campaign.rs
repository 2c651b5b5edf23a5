//! Many games: a random search for plans with a larger reward.

use uc_core::Law;
use uc_net::random::Stream;

use crate::games::judge::{Arena, Standing};
use crate::games::network::Network;
use crate::games::plan::Plan;
use crate::games::port::Guard;

/// Plans that one chain tries. Each chain has a network of its own and knows nothing of the others.
pub const CHAIN_PLANS: u64 = 50;

/// A search for plans in one network: it draws a plan, and goes on from the best one so far.
#[derive(Clone, Debug)]
pub struct Chain {
    arena: Arena,
    random: Stream,
    best: Option<(Plan, Standing)>,
}

/// The plans of one law, in chains.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The law of all ports.
    pub law: Law,
    /// The guard at the adversary's port.
    pub guard: Guard,
    /// The seed of all chains.
    pub seed: u64,
}

impl Campaign {
    /// Begins the chain with this number.
    #[must_use]
    pub fn chain(&self, number: u64) -> Chain {
        let mut random = Stream::new(self.seed, &format!("chain {number}"));
        let network = Network::draw(self.law, random.below(u64::MAX));
        Chain {
            arena: Arena::new(network, self.guard),
            random,
            best: None,
        }
    }
}

impl Chain {
    /// Returns the chain's network.
    #[must_use]
    pub fn network(&self) -> &Network {
        self.arena.network()
    }

    /// Tries the next plan.
    pub fn next_plan(&mut self) -> (Plan, Standing) {
        let plan = match &self.best {
            // now and then from the beginning: the best plan may be a dead end
            Some((best, _)) if self.random.below(10) > 0 => best.changed(&mut self.random),
            _ => Plan::draw(&mut self.random),
        };
        let standing = self.arena.judge(&plan);
        let is_better = |(_, best): &(Plan, Standing)| standing.gain >= best.gain;
        if self.best.as_ref().is_none_or(is_better) {
            self.best = Some((plan.clone(), standing));
        }
        (plan, standing)
    }
}
