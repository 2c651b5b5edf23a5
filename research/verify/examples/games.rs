//! Searches for plans by which a guest gains from guarded ports, and prints the best of each law,
//! profile and guard.
//!
//! `cargo run --release -p uc-verify --example games [minutes] [seed] [law] [profile] [guard]`
//!
//! With a law, a profile (`linux` or `rfc`) or a guard (`strict` or `guard`), only their games. `table`
//! instead of minutes prints what each trick gains alone.

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use uc_core::Law;
use uc_verify::games::campaign::{CHAIN_PLANS, Tried};
use uc_verify::games::corpus::{GUARDS, PROFILES};
use uc_verify::games::table::table;
use uc_verify::games::{Campaign, Network};

/// How long all searches take together by default.
const MINUTES: u64 = 240;

/// The search against ports of one law, profile and guard, and what it has found.
struct Search {
    name: String,
    campaign: Campaign,
    /// Plans that were tried, and games that were played.
    plans: u64,
    games: u64,
    /// Plans that break a bar.
    broken: u64,
    best: Option<(Network, Tried)>,
}

impl Search {
    /// Goes on until the end of the chain with this number, a plan that breaks a bar, or this time.
    fn follow(&mut self, number: u64, end: Instant) {
        let mut chain = self.campaign.chain(number);
        for _ in 0..CHAIN_PLANS {
            self.plans += 1;
            if let Some(found) = chain.next_plan() {
                self.broken += 1;
                let found = found.clone();
                self.print(chain.network(), &found);
                break;
            }
            if Instant::now() > end {
                break;
            }
        }
        let judged = chain.judged_best();
        self.games += chain.games();
        let reward = |one: &Tried| one.standing.reward();
        let best = self.best.as_ref().map_or(0.0, |(_, best)| reward(best));
        if let Some(one) = judged
            && reward(&one) > best
        {
            self.best = Some((*chain.network(), one));
        }
    }

    /// Prints what a plan achieves, and its line for the corpus.
    fn print(&self, network: &Network, tried: &Tried) {
        let standing = tried.standing;
        println!(
            "# gain {:.3}, left {:.3}, {} games\n{} {} {}",
            standing.gain,
            standing.left,
            standing.games,
            self.name,
            network.name(),
            tried.plan
        );
    }

    fn print_best(&self) {
        let Search { name, broken, .. } = self;
        println!(
            "# {name}, seed {}: {} plans in {} games, {broken} beyond the bars, the best:",
            self.campaign.seed, self.plans, self.games
        );
        if let Some((network, one)) = &self.best {
            self.print(network, one);
        }
    }
}

/// Returns a search for each law, profile and guard that the arguments name, or for all of them.
fn searches(arguments: &[String], seed: u64) -> Vec<Search> {
    let is_named = |place: usize, name: &str| arguments.get(place).is_none_or(|word| word == name);
    let mut searches = Vec::new();
    for law in laws().filter(|law| is_named(2, law.name())) {
        for (profile_name, profile) in PROFILES.iter().filter(|row| is_named(3, row.0)) {
            for (guard_name, guard) in GUARDS.iter().filter(|row| is_named(4, row.0)) {
                searches.push(Search {
                    name: format!("{} {profile_name} {guard_name}", law.name()),
                    campaign: Campaign::new(law, *profile, *guard, seed),
                    plans: 0,
                    games: 0,
                    broken: 0,
                    best: None,
                });
            }
        }
    }
    searches
}

fn laws() -> impl Iterator<Item = Law> {
    Law::inside().filter(|&law| law != Law::PASS)
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "table") {
        for law in laws() {
            print!("{}", table(law));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let number = |place: usize, usual: u64| match arguments.get(place) {
        Some(text) => text.parse().map_err(|_| format!("{text}: not a number")),
        None => Ok(usual),
    };
    let minutes = number(0, MINUTES)?;
    let mut searches = searches(&arguments, number(1, 1)?);
    if searches.is_empty() {
        return Err("no law, profile and guard have these names".into());
    }
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let mut number = 0;
    while Instant::now() < end {
        for search in &mut searches {
            if Instant::now() < end {
                search.follow(number, end);
            }
        }
        number += 1;
    }
    for search in &searches {
        search.print_best();
    }
    let is_broken = searches.iter().any(|search| search.broken > 0);
    Ok(ExitCode::from(u8::from(is_broken)))
}
