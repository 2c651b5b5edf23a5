//! Experiments for tests, run and measured.
#![allow(dead_code)]

pub mod bottleneck;

use std::sync::atomic::AtomicBool;

use uc_experiment::{Experiment, Measure, Repetition as Measured, RunRecord};
use uc_sim::{Repetition, SimError, run_case};

/// vCC's figure 11: a star at 10 Mb/s with RED that marks from 60 packets on.
pub const STAR: &str = r#"
name = "sim/star"
title = "star"
duration = "22s"
settle = "2s"
[network]
rate = "10Mbit"
delay = "250us"
[network.queue]
kind = "red"
min = "90000B"
max = "90001B"
limit = "1MB"
burst = 61
probability = 1.0
packet = "1500B"
ecn = true
[stack.ecn]
congestion_control = "reno"
ecn = true
[stack.legacy]
congestion_control = "reno"
sack = false
[stack.server]
congestion_control = "reno"
ecn = true
"#;

/// ctrlTCP's figure 3: a dumbbell at 10 Mb/s with a round trip of 100 ms and as much queue.
pub const TRUNK: &str = r#"
name = "sim/coupling"
title = "coupling"
duration = "80s"
settle = "20s"
sample = "50ms"
[network]
topology = "dumbbell"
rate = "10Mbit"
access_rate = "100Mbit"
delay = "5ms"
trunk_delay = "40ms"
queue = { kind = "droptail", limit = "125kB" }
[stack.reno]
congestion_control = "reno"
[stack.cubic]
congestion_control = "cubic"
[stack.old]
congestion_control = "reno"
sack = false
[stack.walking]
congestion_control = "reno"
reduction = "proportional"
[stack.scaled]
congestion_control = "reno"
wscale = 10
"#;

/// Jain's index between the guests of the case `only`.
pub const JAIN: &str = "kind = \"jain\"\ncase = \"only\"\nby = \"guest\"";
/// Fraction of the link's capacity that carries payload.
pub const USED: &str = "kind = \"utilisation\"\ncase = \"only\"";

/// A dumbbell at 100 Mb/s with default stacks.
pub const DUMBBELL: &str = r#"
name = "sim/dumbbell"
title = "dumbbell"
duration = "2s"
sample = "50ms"
[network]
topology = "dumbbell"
rate = "100Mbit"
access_rate = "1Gbit"
delay = "100us"
queue = { kind = "droptail", limit = "100kB" }
[stack.reno]
congestion_control = "reno"
"#;

/// Formats a group of guests.
pub fn group(name: &str, rest: &str) -> String {
    format!("[[case.guests]]\nname = \"{name}\"\n{rest}\n")
}

/// Returns flows with and without ECN and a law, and short ones whose connections follow one another;
/// for [`STAR`].
pub fn mixed() -> [String; 3] {
    [
        group("ecn", "count = 3\nstack = \"ecn\""),
        group("virtual", "stack = \"legacy\"\nlaw = \"ecn\"\nflows = 2"),
        group(
            "web",
            "stack = \"legacy\"\n\
             application = { web = { rate = 20.0, sizes = [[\"1kB\", 0.5], [\"50kB\", 1.0]] } }",
        ),
    ]
}

/// Builds an experiment with one case named `only`.
pub fn experiment(base: &str, groups: &[String]) -> Experiment {
    experiment_with(base, "", groups)
}

/// Builds an experiment with one case named `only`, with further keys of the case.
pub fn experiment_with(base: &str, keys: &str, groups: &[String]) -> Experiment {
    let groups = groups.concat();
    let text = format!("{base}\n[[case]]\nname = \"only\"\n{keys}\n{groups}");
    let experiment = Experiment::from_str("test", &text).expect("it reads well");
    experiment.validate().expect("it makes sense");
    experiment
}

/// Runs the case named `only`.
pub fn try_run(experiment: &Experiment, seed: u64) -> Result<RunRecord, SimError> {
    let case = experiment.case("only").expect("the case");
    let repetition = Repetition {
        seed,
        ..Repetition::default()
    };
    run_case(
        experiment,
        case,
        repetition,
        &|_| (),
        &AtomicBool::new(false),
    )
}

/// Runs the case named `only`, which must succeed.
pub fn run(experiment: &Experiment, seed: u64) -> RunRecord {
    try_run(experiment, seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"))
}

/// Computes a measure of one record.
pub fn measure(experiment: &Experiment, record: &RunRecord, measure: &str) -> f64 {
    let measure: Measure = toml::from_str(measure).expect("a measure");
    let records = [record.clone()];
    let measured = Measured::of(experiment, &records, 0).measure(&measure);
    measured.unwrap_or_else(|error| panic!("seed {}: {error}", record.seed))
}

/// Formats the command that repeats a failure: the same seed gives the same record.
pub fn again(record: &RunRecord, test: &str) -> String {
    format!(
        "seed {}; cargo test -p uc-sim --test all {test}::",
        record.seed
    )
}
