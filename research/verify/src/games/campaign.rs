//! Many games: a search for plans with a larger reward.

use uc_core::{COMPILED, Core, Law};
use uc_net::random::Stream;

use crate::games::judge::{Arena, GAIN_MAX, Standing};
use crate::games::network::Network;
use crate::games::plan::Plan;
use crate::games::port::Guard;

/// Number of plans that one chain tries. Each chain has a network of its own and knows nothing of the others.
pub const CHAIN_PLANS: u64 = 3_000;
/// Number of best plans of a chain that it keeps and changes.
const KEPT: usize = 12;
/// Number of short games from which a plan's mean counts, and number after which the plan is played no more.
const GAMES_LEAST: u64 = 8;
const GAMES_MOST: u64 = 64;

/// A plan with the mean of its games.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Plan of the adversary's tricks.
    pub plan: Plan,
    /// What the adversary gains by the plan.
    pub standing: Standing,
    /// Whether the plan was judged: then its standing is of whole games, otherwise of short ones.
    pub is_judged: bool,
}

/// A search for plans in one network: it draws and changes plans, and goes on from the best ones.
#[derive(Clone, Debug)]
pub struct Chain {
    arena: Arena,
    random: Stream,
    best: Vec<Tried>,
    games: u64,
}

/// A search against one law, profile and guard, in chains.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// Law at the ports of all guests.
    pub law: Law,
    /// Profile of the ports' law.
    pub profile: u32,
    /// Guard at the ports of all guests.
    pub guard: Guard,
    /// Core that decides at the ports.
    pub core: Core,
    /// Seed of all chains of the search.
    pub seed: u64,
}

impl Campaign {
    /// Returns the search against guarded ports of a law and a profile, with the deployed core.
    #[must_use]
    pub fn new(law: Law, profile: u32, guard: Guard, seed: u64) -> Campaign {
        Campaign {
            law,
            profile,
            guard,
            core: COMPILED,
            seed,
        }
    }

    /// Returns the network of the chain with this number. Chains with odd numbers have brief games.
    #[must_use]
    pub fn network(&self, number: u64) -> Network {
        let mut random = Stream::new(self.seed, &format!("chain {number}"));
        let network = Network {
            core: self.core,
            ..Network::draw(self.law, random.below(u64::MAX)).with_profile(self.profile)
        };
        match number % 2 {
            0 => network,
            _ => network.brief(),
        }
    }

    /// Begins the chain with this number.
    #[must_use]
    pub fn chain(&self, number: u64) -> Chain {
        Chain {
            arena: Arena::new(self.network(number), self.guard),
            random: Stream::new(self.seed, &format!("plans of chain {number}")),
            best: Vec::new(),
            games: 0,
        }
    }
}

impl Chain {
    /// Returns the network in which the chain plays.
    #[must_use]
    pub fn network(&self) -> &Network {
        self.arena.network()
    }

    /// Returns the best plan so far; `None` before the first.
    #[must_use]
    pub fn best(&self) -> Option<&Tried> {
        self.best.first()
    }

    /// Returns the best plan so far, judged by whole games; `None` before the first plan.
    pub fn judged_best(&mut self) -> Option<Tried> {
        let mut best = self.best.first()?.clone();
        if !best.is_judged {
            best.standing = self.arena.judge_well(&best.plan);
            best.is_judged = true;
            self.games += best.standing.games;
        }
        Some(best)
    }

    /// Returns how many games were played with plans.
    #[must_use]
    pub fn games(&self) -> u64 {
        self.games
    }

    /// Tries the next plan. Returns the best plan if it was judged now and breaks a bar; otherwise `None`.
    pub fn next_plan(&mut self) -> Option<&Tried> {
        let plan = self.draw();
        let mut tried = Tried {
            standing: self.once(&plan),
            plan,
            is_judged: false,
        };
        // of plans that are as good as the kept ones by luck, few are so in more games
        while tried.standing.games < GAMES_LEAST && self.is_kept(&tried) {
            tried.standing = tried.standing.and(self.once(&tried.plan));
        }
        if self.is_kept(&tried) {
            self.best.push(tried);
        }
        if self.random.below(4) == 0 {
            self.play_on();
        }
        self.best
            .sort_by(|a, b| b.standing.reward().total_cmp(&a.standing.reward()));
        self.best.truncate(KEPT);
        self.judge_best()
    }

    fn draw(&mut self) -> Plan {
        let random = &mut self.random;
        // now and then from the beginning: the best plans may be a dead end
        if self.best.is_empty() || random.below(10) == 0 {
            return Plan::draw(random);
        }
        let mut any = || {
            let bound = 1 + random.below(self.best.len() as u64);
            &self.best[random.below(bound) as usize].plan
        };
        let (plan, mate) = (any(), any());
        plan.changed(mate, random)
    }

    fn once(&mut self, plan: &Plan) -> Standing {
        self.games += 1;
        let seed = self.random.below(u64::MAX);
        self.arena.try_once(plan, seed)
    }

    fn is_kept(&self, tried: &Tried) -> bool {
        let worst = self.best.get(KEPT - 1);
        worst.is_none_or(|worst| tried.standing.reward() > worst.standing.reward())
    }

    /// Plays one of the best plans once more, so that a plan that was only lucky loses its place.
    fn play_on(&mut self) {
        let place = self.random.below(self.best.len().max(1) as u64) as usize;
        let Some(one) = self.best.get(place) else {
            return;
        };
        if !one.is_judged && one.standing.games < GAMES_MOST {
            let plan = one.plan.clone();
            let standing = self.once(&plan);
            self.best[place].standing = self.best[place].standing.and(standing);
        }
    }

    /// Plays the best plan once more if it seems to break a bar, and after enough games judges it by whole games.
    /// Returns the plan if it breaks a bar.
    fn judge_best(&mut self) -> Option<&Tried> {
        let best = self.best.first()?;
        if best.is_judged || best.standing.reward() <= GAIN_MAX {
            return None;
        }
        let plan = best.plan.clone();
        let is_judged = best.standing.games >= GAMES_MOST;
        let standing = match is_judged {
            true => self.arena.judge(&plan),
            false => {
                let before = best.standing;
                before.and(self.once(&plan))
            }
        };
        self.games += if is_judged { standing.games } else { 0 };
        self.best[0] = Tried {
            plan,
            standing,
            is_judged,
        };
        self.best
            .first()
            .filter(|best| best.is_judged && !best.standing.holds())
    }
}
