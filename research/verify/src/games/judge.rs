//! The bars: what an adversary may gain and its neighbours may lose.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use crate::games::game::{Goodput, play};
use crate::games::network::Network;
use crate::games::plan::Plan;
use crate::games::port::Guard;

/// Bar: the largest goodput of an adversary, as a multiple of an honest guest's in its place.
pub const GAIN_MAX: f64 = 1.05;
/// Bar: the smallest goodput of the neighbours, as a multiple of their goodput beside an honest guest.
pub const LEFT_MIN: f64 = 0.95;
/// A plan whose reward in a quarter of [`RETRIALS`] games exceeds [`GAIN_MAX`] less this is judged by all of them. One
/// game is noisy: a different order of two segments changes all that follows.
const CLOSE: f64 = 0.02;
/// Number of games by which a plan close to a bar is judged. Start times and the order of events differ from game to
/// game, the network does not.
pub const RETRIALS: u64 = 24;
/// A plan whose reward exceeds [`GAIN_MAX`] by more than this in [`RETRIALS`] games (four standard errors) breaks the
/// bar without further games. Brief games deviate by more, and cost less: they are played on in any case.
const SURE: f64 = 0.15;
/// Maximum number of further games, with seeds of their own, for a plan that breaks a bar by less than `SURE`: the
/// search has chosen the plan by its luck in the games before. A guest's goodput in one game deviates from its mean by
/// at most 13 % (law `coupled`), so the ratio of two means of 1,000 games by 0.6 %. With 200 games that was 1.3 %, and
/// in the worst of 200 networks more than 3 %.
pub const FINALS: u64 = 1_000;
/// Number of games in a block; the finals consist of blocks.
const BLOCK: u64 = 20;
/// Minimum number of blocks that decide.
const BLOCKS_LEAST: usize = 8;
/// Number of standard errors by which the blocks' mean must be away from each bar to decide.
const ERRORS: f64 = 4.0;
/// Number of games of the best plan of a chain, which measure its gain to 1.3 %.
const REPORTED: u64 = 200;

/// Length in ticks of the games by which the search compares plans; `SHORT_HONEST`: number of such games with an honest
/// guest, for comparison.
const SHORT_TICKS: u64 = 5_000;
const SHORT_HONEST: u64 = 64;

/// What a plan achieves, as multiples of the same game with an honest guest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// The adversary's goodput ÷ the honest guest's in the same place.
    pub gain: f64,
    /// Goodput of the neighbours and useless payload of the first guest ([`Goodput::useless`]), beside the adversary ÷
    /// beside an honest guest.
    pub left: f64,
    /// Number of games that were played with the plan.
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

    /// Returns how good the plan is for the adversary: its gain, times the factor by which its neighbours' goodput
    /// fell. A guest that harms itself as much as others needs no plan.
    #[must_use]
    pub fn reward(self) -> f64 {
        self.gain * self.left.recip().max(1.0)
    }

    /// Returns the mean of both standings, weighted by their games.
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

/// Returns whether the mean of the values is at least [`ERRORS`] standard errors away from a bar.
fn is_far(values: impl Iterator<Item = f64> + Clone, bar: f64) -> bool {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    (mean - bar).abs() > ERRORS * (squares / (count - 1.0) / count).sqrt()
}

/// A network, with the goodput that honest guests get in it.
#[derive(Clone, Debug)]
pub struct Arena {
    network: Network,
    guard: Guard,
    /// Goodput in games with an honest guest, by its plan and the game's seed, as far as played.
    honest: HashMap<(Plan, u64), Goodput>,
    /// Mean goodput in short games with an honest guest.
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
        let short = (1..=SHORT_HONEST).map(|seed| arena.play_short(&Plan::honest(), seed));
        let all: Goodput = short.sum();
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

    /// Plays a plan in one short game, and compares it with the mean of short games of an honest guest.
    #[must_use]
    pub fn try_once(&self, plan: &Plan, seed: u64) -> Standing {
        Standing::of(self.play_short(plan, seed), self.short, 1)
    }

    /// Returns the arena's network.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the goodput in games of these seeds with an honest guest in the adversary's place: of the guests of
    /// [`Plan::without_tricks`] the one that gets most.
    fn honest(&mut self, plan: &Plan, seeds: &RangeInclusive<u64>) -> Goodput {
        let (network, guard, known) = (&self.network, self.guard, &mut self.honest);
        let references = plan.without_tricks().into_iter().map(|honest| {
            let games = seeds.clone().map(|seed| {
                *known
                    .entry((honest.clone(), seed))
                    .or_insert_with_key(|(honest, seed)| play(honest, network, guard, *seed))
            });
            games.sum::<Goodput>()
        });
        references
            .max_by_key(|goodput| goodput.first)
            .unwrap_or_default()
    }

    /// Judges a plan by the mean of `REPORTED` games. If it breaks a bar in them, up to [`FINALS`] others decide.
    pub fn judge_well(&mut self, plan: &Plan) -> Standing {
        let standing = self.mean(plan, 1..=REPORTED);
        match standing.holds() {
            true => standing,
            false => self.decide(plan, REPORTED),
        }
    }

    /// Judges a plan by the mean of games: the closer it comes to a bar, the more games.
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

    /// Plays blocks of games with the seeds after `after`, until both bars are clearly met or missed, or [`FINALS`]
    /// games were played. Returns the mean of these games; its number of games includes the `after` games before.
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

    /// Plays a plan in one game for each seed. Returns the ratios of the sums.
    pub fn mean(&mut self, plan: &Plan, seeds: RangeInclusive<u64>) -> Standing {
        let games = seeds.clone().count() as u64;
        let played = seeds
            .clone()
            .map(|seed| play(plan, &self.network, self.guard, seed));
        Standing::of(played.sum(), self.honest(plan, &seeds), games)
    }
}
