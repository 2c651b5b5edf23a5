//! vCC's figure 11 on real kernels: a translated flow beside nine ECN flows gets its share.

use std::process::Command;

use serde_json::Value;
use uc_live::command::outcome;

use crate::common::{UC_BENCH, live};

/// Figure 11's translated flow, and factors that may keep it from its share.
const PARITY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../experiments/vcc/parity.toml"
);
/// Shortens the experiment: three times the rate has three times as many round trips.
const SHORT: [&str; 4] = [
    "network.rate=30Mbit",
    "duration=10s",
    "settle=2s",
    "tail=0s",
];
/// Number of runs, four at a time. A run's share has a standard deviation of 0.07, so the mean's standard error is
/// a third of the distance to the end of the bar.
const RUNS: &str = "16";

#[test]
fn live_a_translated_flow_beside_nine_ecn_flows_gets_its_share() {
    if !live() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(UC_BENCH);
    command.current_dir(folder.path()).args(["run", PARITY]);
    command.args(["--on", "live", "--json", "--point", "factor=none"]);
    command.args(SHORT.iter().flat_map(|set| ["--set", *set]));
    command.args(["--repeat", RUNS]);
    let outcome = outcome(command);
    let result: Value = serde_json::from_str(&outcome.stdout).expect(&outcome.stderr);
    let shown = format!(
        "{}{}{}",
        outcome.stderr, result["results"], result["emulation"]
    );
    println!("{shown}");
    assert_eq!(result["emulation"]["late"], 0, "{shown}");
    // the paper's bar, which the file has
    let share = result["results"][0]["ours"].as_f64().unwrap();
    assert!((0.95..=1.05).contains(&share), "{shown}");
}
