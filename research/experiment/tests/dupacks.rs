//! Duplicate ACKs of ports and random loss: which files are refused, and where they can run.

use crate::common::{GOOD, SWEPT, refusal};
use uc_experiment::{Arm, Experiment};

/// Returns the text of a group that gets duplicate ACKs, with these keys in addition.
fn with(more: &str) -> String {
    format!("count = 4\n{more}\ndupack = {{}}")
}

#[test]
fn guests_that_would_not_listen_are_refused_with_what_is_missing() {
    let acts = "dupack: needs a law on the guests' ports that acts";
    let removed = "law = \"ecn\"\nparameters = { no_sack = true, no_timestamps = true }";
    for (more, words) in [
        ("", acts),
        ("law = \"pass\"", acts),
        ("law = \"ecn\"\nparameters = { observe = true }", acts),
        (
            "law = \"ecn\"\nparameters = { no_timestamps = true }",
            "dupack: guests with SACK ignore",
        ),
        (
            "law = \"ecn\"\nparameters = { no_sack = true }",
            "dupack: guests with timestamps may drop",
        ),
        (
            &format!("{removed}\nhypervisor = {{}}"),
            "dupack: is not simulated for guests that share a CPU",
        ),
    ] {
        let told = refusal(SWEPT, "count = 4", &with(more));
        assert!(told.contains(words), "{more}: {told}");
    }
    let text = SWEPT.replacen("count = 4", &with(removed), 1);
    let experiment = Experiment::from_str("t.toml", &text).unwrap();
    experiment.validate().unwrap();
    let group = experiment.cases[0].group("long").unwrap();
    let words = group.dupack.unwrap().to_string();
    assert_eq!(words, ", duplicate ACKs to silent flows");
}

#[test]
fn loss_is_a_probability_below_1() {
    for loss in ["1.0", "-0.1", "nan"] {
        let told = refusal(
            GOOD,
            "delay = \"250us\"",
            &format!("delay = \"1us\"\nloss = {loss}"),
        );
        assert!(told.contains("network.loss: "), "{told}");
    }
}

#[test]
fn duplicate_acks_are_refused_for_machines_and_random_loss_nowhere() {
    let removed = "law = \"ecn\"\nparameters = { no_sack = true, no_timestamps = true }";
    let dupack = GOOD.replacen("count = 9", &with(removed), 1);
    let experiment = Experiment::from_str("t.toml", &dupack).unwrap();
    experiment.suits(Arm::Live).unwrap();
    let told = experiment.suits(Arm::Vm).unwrap_err().to_string();
    let words = "dupack: dupack is for sim and live only";
    assert!(told.contains(words), "{told}");
    let loss = GOOD.replacen("delay = \"250us\"", "delay = \"250us\"\nloss = 0.02", 1);
    let experiment = Experiment::from_str("t.toml", &loss).unwrap();
    for arm in [Arm::Sim, Arm::Live, Arm::Vm] {
        experiment.suits(arm).unwrap();
    }
}
