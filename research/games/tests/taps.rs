//! Games on taps: the port programs in the kernel stand between the same guests and the same link, on
//! the kernel's clock.
//!
//! `scripts/games --taps` plays 50 plans for each law.

#[path = "../../../host/port/tests/kernel/mod.rs"]
mod kernel;
mod tap_ports;

use uc_core::Law;
use uc_games::judge::{GAIN_MAX, LEFT_MIN};
use uc_games::{Campaign, Goodput, Guard, Network, Plan, Timed, Trick, play};
use uc_net::random::Stream;

use tap_ports::Taps;

/// Networks for each law, and plans in each, that the long test plays.
const NETWORKS: u64 = 5;
const PLANS: u64 = 10;
/// Honest games in a network, whose mean is what a plan is measured against.
const HONEST: u64 = 6;
/// Games by which a plan is judged that misses a bar in one, and games of honest guests beside them.
const RETRIALS: u64 = 12;

fn laws() -> impl Iterator<Item = Law> {
    Law::inside().filter(|&law| law != Law::PASS)
}

fn network_of(law: Law, number: u64) -> Network {
    let campaign = Campaign {
        law,
        guard: Guard::Strict,
        seed: 1,
    };
    *campaign.chain(number).network()
}

/// A guest that keeps 150 segments in flight, whatever its windows.
fn flood() -> Plan {
    Plan {
        tricks: vec![Timed {
            trick: Trick::Flood(150),
            from: 0,
            until: uc_games::TICKS,
            every: 1,
        }],
        ..Plan::honest()
    }
}

#[test]
fn live_guest_that_ignores_windows_gains_on_open_ports_and_nothing_on_strict_ones() {
    let Some(mut taps) = Taps::new() else { return };
    let network = network_of(Law::ECN, 0);
    let honest = taps.play(&Plan::honest(), &network, Guard::Strict, 1);
    let free = taps.play(&flood(), &network, Guard::None, 1);
    let held = taps.play(&flood(), &network, Guard::Strict, 1);
    println!("honest {honest:?}, without a guard {free:?}, strict {held:?}");
    assert!(free.first > honest.first * 3 / 2, "{free:?} {honest:?}");
    // one game deviates by 13 % (judge.rs): twice that, for two of them
    assert!(held.first < honest.first * 5 / 4, "{held:?} {honest:?}");
}

#[test]
fn live_link_of_honest_guests_carries_as_much_as_on_the_virtual_clock_under_each_law() {
    let Some(mut taps) = Taps::new() else { return };
    for law in laws() {
        let network = network_of(law, 0);
        let real = taps.play(&Plan::honest(), &network, Guard::Strict, 1);
        let simulated = play(&Plan::honest(), &network, Guard::Strict, 1);
        let whole = |goodput: Goodput| (goodput.first + goodput.neighbours) as f64;
        let ratio = whole(real) / whole(simulated);
        println!("law {}: {ratio:.3} of the virtual clock's", law.name());
        assert!((0.85..=1.15).contains(&ratio), "{real:?} {simulated:?}");
    }
}

/// The mean of some games, and its standard error.
#[derive(Clone, Copy, Debug)]
struct Mean {
    value: f64,
    error: f64,
}

impl Mean {
    fn of(values: &[f64]) -> Mean {
        let count = values.len() as f64;
        let value = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|one| (one - value).powi(2)).sum::<f64>();
        Mean {
            value,
            error: (squares / (count - 1.0).max(1.0) / count).sqrt(),
        }
    }

    /// Returns the ratio of two means that have nothing to do with each other.
    fn over(self, other: Mean) -> Mean {
        let value = self.value / other.value;
        let relative = (self.error / self.value).hypot(other.error / other.value);
        Mean {
            value,
            error: value * relative,
        }
    }
}

impl std::fmt::Display for Mean {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} ± {:.3}", self.value, self.error)
    }
}

/// What the first guest and its neighbours get, in games of these seeds.
fn means(taps: &mut Taps, plan: &Plan, network: &Network, games: u64) -> [Mean; 2] {
    let played: Vec<Goodput> = (1..=games)
        .map(|seed| taps.play(plan, network, Guard::Strict, seed))
        .collect();
    let mean = |of: fn(&Goodput) -> u64| {
        Mean::of(&played.iter().map(|one| of(one) as f64).collect::<Vec<_>>())
    };
    [mean(|one| one.first), mean(|one| one.neighbours)]
}

/// Judges a plan that missed a bar in one game; returns its gain and what is left to its neighbours,
/// beside the honest guest that does best.
fn judge(taps: &mut Taps, plan: &Plan, network: &Network) -> [Mean; 2] {
    let [first, neighbours] = means(taps, plan, network, RETRIALS);
    let references = plan.without_tricks();
    let honest = references
        .iter()
        .map(|honest| means(taps, honest, network, RETRIALS))
        .max_by(|a, b| a[0].value.total_cmp(&b[0].value))
        .expect("at least one");
    [first.over(honest[0]), neighbours.over(honest[1])]
}

#[test]
#[ignore = "takes an hour"]
fn live_fifty_plans_of_each_law_gain_nothing() {
    let Some(mut taps) = Taps::new() else { return };
    let mut beyond = 0;
    for law in laws() {
        let (mut gains, mut lefts) = (Vec::new(), Vec::new());
        for number in 0..NETWORKS {
            let network = network_of(law, number);
            let honest = means(&mut taps, &Plan::honest(), &network, HONEST);
            let random = &mut Stream::new(number, &format!("taps {}", law.name()));
            for _ in 0..PLANS {
                let plan = Plan::draw(random);
                let game = taps.play(&plan, &network, Guard::Strict, 1);
                let mut gain = game.first as f64 / honest[0].value;
                let mut left = game.neighbours as f64 / honest[1].value;
                if gain > GAIN_MAX || left < LEFT_MIN {
                    let [all, rest] = judge(&mut taps, &plan, &network);
                    println!(
                        "  {}, network {number}: gain {all}, left {rest}: {plan}",
                        law.name()
                    );
                    let is_beyond = all.value - 2.0 * all.error > GAIN_MAX
                        || rest.value + 2.0 * rest.error < LEFT_MIN;
                    beyond += u32::from(is_beyond);
                    (gain, left) = (all.value, rest.value);
                }
                gains.push(gain);
                lefts.push(left);
            }
        }
        let most = gains.iter().copied().fold(0.0, f64::max);
        let least = lefts.iter().copied().fold(f64::MAX, f64::min);
        println!(
            "law {}: {} plans, gain {} (at most {most:.3}), left {} (at least {least:.3}), {} games void",
            law.name(),
            gains.len(),
            Mean::of(&gains),
            Mean::of(&lefts),
            taps.void
        );
    }
    assert_eq!(beyond, 0, "plans beyond the bars by two standard errors");
}
