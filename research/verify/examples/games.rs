//! Plays games of the random adversary against each law's ports, with `strict` and a guard of one
//! segment, and prints what it gained at most.
//!
//! `cargo run --release -p uc-verify --example games [plans] [seed] [law] [chain]`
//!
//! With a law, only its games; with a chain, each plan of that chain. `table` instead of a number prints
//! what each trick gains alone.

use std::error::Error;
use std::process::ExitCode;

use uc_core::Law;
use uc_verify::games::campaign::CHAIN_PLANS;
use uc_verify::games::table::table;
use uc_verify::games::{Campaign, Guard, Plan, Standing};

/// Worst plans that are printed for each law.
const PRINTED: usize = 3;

struct Tried {
    chain: u64,
    plan: Plan,
    standing: Standing,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "table") {
        for law in Law::inside().filter(|&law| law != Law::PASS) {
            print!("{}", table(law));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let number = |place: usize, usual: u64| match arguments.get(place) {
        Some(text) => text.parse(),
        None => Ok(usual),
    };
    let (plans, seed) = (number(0, 10_000)?, number(1, 1)?);
    let named = arguments
        .get(2)
        .map(|name| Law::named(name).ok_or_else(|| format!("no law has the name '{name}'")));
    let named = named.transpose()?;
    let laws =
        Law::inside().filter(|&law| law != Law::PASS && named.is_none_or(|named| named == law));
    let mut failed = 0;
    for law in laws {
        let campaign = Campaign {
            law,
            guard: Guard::Strict,
            seed,
        };
        failed += match arguments.get(3) {
            Some(chain) => follow(campaign, chain.parse()?),
            None => play_all(campaign, plans),
        };
    }
    Ok(if failed > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Prints each plan of a chain; returns how many did not hold the bars.
fn follow(campaign: Campaign, number: u64) -> u64 {
    let mut chain = campaign.chain(number);
    println!("{:?}", chain.network());
    let mut failed = 0;
    for nth in 0..CHAIN_PLANS {
        let (plan, standing) = chain.next_plan();
        failed += u64::from(!standing.holds());
        println!(
            "{nth:3}: gain {:.3}, left {:.3}, {} games: {plan}",
            standing.gain, standing.left, standing.games
        );
    }
    failed
}

/// Plays all chains of a law; returns how many plans did not hold the bars.
fn play_all(campaign: Campaign, plans: u64) -> u64 {
    let mut tried = Vec::new();
    let mut games = 0;
    for number in 0..plans.div_ceil(CHAIN_PLANS) {
        let mut chain = campaign.chain(number);
        for _ in 0..CHAIN_PLANS.min(plans - number * CHAIN_PLANS) {
            let (plan, standing) = chain.next_plan();
            games += standing.games;
            tried.push(Tried {
                chain: number,
                plan,
                standing,
            });
        }
    }
    let failed = tried.iter().filter(|tried| !tried.standing.holds()).count();
    let mean = tried.iter().map(|tried| tried.standing.gain).sum::<f64>() / tried.len() as f64;
    let law = campaign.law.name();
    println!(
        "law {law}: {plans} plans in {games} games, mean gain {mean:.3}, {failed} plans beyond the bars"
    );
    tried.sort_by(|a, b| b.standing.gain.total_cmp(&a.standing.gain));
    print_worst(campaign, "largest gains", &tried);
    tried.sort_by(|a, b| a.standing.left.total_cmp(&b.standing.left));
    print_worst(campaign, "least left to neighbours", &tried);
    failed as u64
}

fn print_worst(campaign: Campaign, title: &str, tried: &[Tried]) {
    println!("  {title}:");
    for one in tried.iter().take(PRINTED) {
        let Standing { gain, left, games } = one.standing;
        println!(
            "    gain {gain:.3}, left {left:.3} in {games} games: {}",
            one.plan
        );
        println!(
            "      cargo run --release -p uc-verify --example games 0 {} {} {}",
            campaign.seed,
            campaign.law.name(),
            one.chain
        );
    }
}
