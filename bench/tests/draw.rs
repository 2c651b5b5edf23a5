//! Draws a tenth of the simulated records for a test run, short ones more often: all of them take an hour.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use uc_bench::records::{self, Kept};
use uc_experiment::{Arm, Case, Experiment};
use uc_words::fnv::fnv1a;

/// The environment variable with the seed that draws.
pub const SEED: &str = "UC_SEED";
/// Full packets that the simulator carries in a second of one processor, roughly.
const PACKETS_A_SECOND: f64 = 2e6;
/// Bits of a full packet.
const PACKET_BITS: f64 = 12_000.0;
/// What is added to each cost, in seconds, so that the shortest records do not come always.
const LEAST_S: f64 = 10.0;

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the names of all simulated records.
pub fn ids() -> Vec<String> {
    records::ids(&root(), Arm::Sim).unwrap()
}

/// Returns the seed that draws, a new one unless the environment has one.
pub fn seed() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    match std::env::var(SEED) {
        Ok(text) => text.parse().expect("UC_SEED is a decimal number"),
        Err(_) => since.as_micros() as u64,
    }
}

/// Returns a tenth of all simulated records, short ones first.
pub fn tenth(seed: u64) -> Vec<String> {
    drawn(&costs(), seed)
}

/// Estimates the processor time of a record's runs, in seconds, as if its links were busy all the time.
fn cost(kept: &Kept) -> f64 {
    let values = kept.values().unwrap();
    let runs = |number, case: &Case| values.runs_of(number, &case.name).len() as f64;
    let of_point = |number, at: &Experiment| {
        let runs: f64 = at.cases.iter().map(|case| runs(number, case)).sum();
        let links = at.network.topology.hosts().unwrap_or(1);
        let bits = at.duration.0 as f64 / 1e9 * at.network.rate.0 as f64;
        runs * f64::from(links) * bits / PACKET_BITS / PACKETS_A_SECOND
    };
    let points = kept.points.iter();
    let costs = points.map(|point| of_point(point.number, &point.experiment));
    LEAST_S + costs.sum::<f64>()
}

/// Returns the names and costs of all simulated records.
fn costs() -> Vec<(String, f64)> {
    let with_cost = |id: String| {
        let cost = cost(&Kept::open(&root(), &id, Arm::Sim, &[]).unwrap());
        (id, cost)
    };
    ids().into_iter().map(with_cost).collect()
}

/// Returns a tenth of the records, short ones first. The chance of each to be drawn next is inverse to its cost.
fn drawn(costs: &[(String, f64)], seed: u64) -> Vec<String> {
    // Of exponentially distributed numbers, the chance of each to be the least is proportional to its rate.
    let key = |(id, cost): &(String, f64)| {
        let hash = fnv1a(format!("{seed} {id}").as_bytes()) as f64;
        -(hash / u64::MAX as f64).ln() * cost
    };
    let mut order: Vec<&(String, f64)> = costs.iter().collect();
    order.sort_by(|one, other| key(one).total_cmp(&key(other)));
    order.truncate(costs.len().div_ceil(10));
    order.sort_by(|one, other| one.1.total_cmp(&other.1));
    order.into_iter().map(|(id, _)| id.clone()).collect()
}

#[test]
fn any_record_is_drawn_and_short_ones_more_often() {
    let costs = costs();
    let draws: Vec<Vec<String>> = (0..2000).map(|seed| drawn(&costs, seed)).collect();
    let times = |(id, _): &&(String, f64)| draws.iter().filter(|ids| ids.contains(id)).count();
    let never: Vec<_> = costs.iter().filter(|record| times(record) == 0).collect();
    assert!(never.is_empty(), "never drawn: {never:?}");
    let by_cost = |one: &&(String, f64), other: &&(String, f64)| one.1.total_cmp(&other.1);
    let (short, long) = (
        costs.iter().min_by(by_cost).unwrap(),
        costs.iter().max_by(by_cost).unwrap(),
    );
    assert!(times(&short) > 10 * times(&long), "{short:?} {long:?}");
}
