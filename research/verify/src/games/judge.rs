//! The bars: what an adversary may gain and its neighbours may lose.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use crate::games::game::{Goodput, play};
use crate::games::network::Network;
use crate::games::plan::Plan;
use crate::games::port::Guard;

/// The most that an adversary's goodput may be, as a multiple of an honest guest's in its place.
pub const GAIN_MAX: f64 = 1.05;
/// The least that is left to its neighbours, as a multiple of their goodput beside an honest guest.
pub const LEFT_MIN: f64 = 0.95;
/// One game is noisy: a different order of two segments changes all that follows. A plan that comes
/// this close to a bar in a quarter of [`RETRIALS`] games is judged by the mean of [`RETRIALS`] games with other seeds.
const CLOSE: f64 = 0.02;
/// Games by which a plan is judged that came close to a bar in a quarter of them. The order of
/// events and the starts differ, the network does not.
pub const RETRIALS: u64 = 24;
/// A plan that is so far beyond a bar in [`RETRIALS`] long games breaks it: four standard errors. Brief games deviate
/// by more, and cost less: they are played on in any case.
const SURE: f64 = 0.15;
/// The most games by which a plan is judged that misses a bar by less. The search has chosen it by its
/// luck in the others; these have seeds of their own. A guest's goodput in a game deviates from its
/// mean by 13 % at most (law `coupled`, 1,000 games), so the ratio of two means by 0.6 %. With 200 games
/// it was 1.3 %, which in 200 networks is more than 3 % in the worst.
pub const FINALS: u64 = 1_000;
/// Games of a block, of which the finals consist.
const BLOCK: u64 = 20;
/// The fewest blocks that decide.
const BLOCKS_LEAST: usize = 8;
/// Standard errors of the blocks' mean between it and each bar, at which they decide.
const ERRORS: f64 = 4.0;
/// Games of the best plan of a chain that breaks no bar: its gain deviates by 1.3 %.
const REPORTED: u64 = 200;

/// Length of the games in which the search compares plans, and games of the honest guest beside them.
const SHORT_TICKS: u64 = 5_000;
const SHORT_HONEST: u64 = 64;

/// What a plan achieves, as multiples of the same game with an honest guest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// The adversary's goodput ÷ the honest guest's in the same place.
    pub gain: f64,
    /// The neighbours' goodput beside the adversary ÷ beside the honest guest, each with what the link
    /// has carried for the first guest to no use.
    pub left: f64,
    /// Games that were played with the plan.
    pub games: u64,
}

impl Standing {
    fn of(adversary: Goodput, honest: Goodput, games: u64) -> Standing {
        let left = |goodput: Goodput| (goodput.neighbours + goodput.useless) as f64;
        Standing {
            gain: adversary.first as f64 / honest.first.max(1) as f64,
            left: left(adversary) / left(honest).max(1.0),
            games,
        }
    }

    /// Returns whether both bars hold.
    #[must_use]
    pub fn holds(self) -> bool {
        self.gain <= GAIN_MAX && self.left >= LEFT_MIN
    }

    /// Returns how good the plan is for the adversary: its gain, times what its neighbours have lost. A
    /// guest that harms itself as much as others needs no plan.
    #[must_use]
    pub fn reward(self) -> f64 {
        self.gain * self.left.recip().max(1.0)
    }

    /// Returns the mean with the standing of other games.
    #[must_use]
    pub fn and(self, other: Standing) -> Standing {
        let games = self.games + other.games;
        let mean = |a: f64, b: f64| (a * self.games as f64 + b * other.games as f64) / games as f64;
        Standing {
            gain: mean(self.gain, other.gain),
            left: mean(self.left, other.left),
            games,
        }
    }
}

/// Returns whether the values' mean is [`ERRORS`] of its standard errors away from a bar.
fn is_far(values: impl Iterator<Item = f64> + Clone, bar: f64) -> bool {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    (mean - bar).abs() > ERRORS * (squares / (count - 1.0) / count).sqrt()
}

fn sum(parts: impl Iterator<Item = Goodput>) -> Goodput {
    parts.fold(Goodput::default(), |sum, part| Goodput {
        first: sum.first + part.first,
        neighbours: sum.neighbours + part.neighbours,
        useless: sum.useless + part.useless,
    })
}

/// A network with the goodput of honest guests in it.
#[derive(Clone, Debug)]
pub struct Arena {
    network: Network,
    guard: Guard,
    /// By the honest guest's plan and the seed of the game, as far as known.
    honest: HashMap<(Plan, u64), Goodput>,
    /// The mean of short games of an honest guest.
    short: Goodput,
}

impl Arena {
    /// Creates the arena of a network.
    #[must_use]
    pub fn new(network: Network, guard: Guard) -> Arena {
        let mut arena = Arena {
            network,
            guard,
            honest: HashMap::new(),
            short: Goodput::default(),
        };
        let all = sum((1..=SHORT_HONEST).map(|seed| arena.play_short(&Plan::honest(), seed)));
        arena.short = Goodput {
            first: all.first / SHORT_HONEST,
            neighbours: all.neighbours / SHORT_HONEST,
            useless: all.useless / SHORT_HONEST,
        };
        arena
    }

    fn play_short(&self, plan: &Plan, seed: u64) -> Goodput {
        let network = Network {
            ticks: SHORT_TICKS.min(self.network.ticks),
            ..self.network
        };
        play(plan, &network, self.guard, seed)
    }

    /// Plays a plan once, for a short time, and compares it with the mean of an honest guest.
    #[must_use]
    pub fn try_once(&self, plan: &Plan, seed: u64) -> Standing {
        Standing::of(self.play_short(plan, seed), self.short, 1)
    }

    /// Returns the arena's network.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns what the guests get in the games of these seeds with an honest one in the adversary's
    /// place: the one that does best.
    fn honest(&mut self, plan: &Plan, seeds: &RangeInclusive<u64>) -> Goodput {
        let (network, guard, known) = (&self.network, self.guard, &mut self.honest);
        let references = plan.without_tricks().into_iter().map(|honest| {
            sum(seeds.clone().map(|seed| {
                *known
                    .entry((honest.clone(), seed))
                    .or_insert_with_key(|(honest, seed)| play(honest, network, guard, *seed))
            }))
        });
        references
            .max_by_key(|goodput| goodput.first)
            .unwrap_or_default()
    }

    /// Judges a plan by the mean of many games, of [`FINALS`] others if it breaks a bar in them.
    pub fn judge_well(&mut self, plan: &Plan) -> Standing {
        let standing = self.mean(plan, 1..=REPORTED);
        match standing.holds() {
            true => standing,
            false => self.decide(plan, REPORTED),
        }
    }

    /// Judges a plan by the mean of games, of the more the closer it comes to a bar.
    pub fn judge(&mut self, plan: &Plan) -> Standing {
        let mut standing = self.mean(plan, 1..=RETRIALS / 4);
        if standing.reward() > GAIN_MAX - CLOSE {
            standing = self.mean(plan, 1..=RETRIALS);
        }
        let is_open = self.network.is_brief() || standing.reward() <= GAIN_MAX + SURE;
        if !standing.holds() && is_open {
            standing = self.decide(plan, RETRIALS);
        }
        standing
    }

    /// Plays blocks of games with the seeds after this one, until both bars are clearly met or missed.
    /// Returns their mean; its games are all of the plan's.
    fn decide(&mut self, plan: &Plan, after: u64) -> Standing {
        let mut blocks: Vec<Standing> = Vec::new();
        for first in (after + 1..=after + FINALS).step_by(BLOCK as usize) {
            blocks.push(self.mean(plan, first..=first + BLOCK - 1));
            if blocks.len() >= BLOCKS_LEAST
                && is_far(blocks.iter().map(|block| block.gain), GAIN_MAX)
                && is_far(blocks.iter().map(|block| block.left), LEFT_MIN)
            {
                break;
            }
        }
        let none = Standing {
            gain: 0.0,
            left: 0.0,
            games: 0,
        };
        let mean = blocks.into_iter().fold(none, Standing::and);
        Standing {
            games: after + mean.games,
            ..mean
        }
    }

    /// Plays a plan in one game for each seed. Returns the means.
    pub fn mean(&mut self, plan: &Plan, seeds: RangeInclusive<u64>) -> Standing {
        let games = seeds.clone().count() as u64;
        let adversary = sum(seeds
            .clone()
            .map(|seed| play(plan, &self.network, self.guard, seed)));
        Standing::of(adversary, self.honest(plan, &seeds), games)
    }
}
