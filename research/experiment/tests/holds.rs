//! Packets that ports hold: which files are refused, and where they can run.

use crate::common::{GOOD, SWEPT, refusal};
use uc_experiment::{Arm, Experiment};

const LAW: &str = "law = \"ecn\"\nparameters = { no_sack = true, no_timestamps = true }";

#[test]
fn a_hold_that_cannot_be_is_refused_with_what_to_change() {
    for (more, hold, words) in [
        ("", "{}", "hold: holds nothing; give pace = true"),
        (
            "",
            "{ buffer = {} }",
            "hold.buffer: hides losses from the guests",
        ),
        (
            "law = \"pass\"",
            "{ buffer = {} }",
            "hold.buffer: hides losses from the guests",
        ),
        (
            "law = \"ecn\"\nparameters = { observe = true }",
            "{ buffer = {} }",
            "hold.buffer: hides losses from the guests",
        ),
        (
            &format!("{LAW}\ndupack = {{}}"),
            "{ pace = true }",
            "hold: can't be simulated together with `dupack`",
        ),
        (
            "hypervisor = {}",
            "{ pace = true }",
            "hold: can't be simulated together with `hypervisor`",
        ),
        (
            "start_law = \"watch\"",
            "{ pace = true }",
            "hold: can't be simulated together with `start_law`",
        ),
        (
            LAW,
            "{ buffer = { least_timeout = \"0s\" } }",
            "hold.buffer.least_timeout: 0ns is not a valid minimum RTO",
        ),
        (
            LAW,
            "{ buffer = { least_timeout = \"61s\" } }",
            "hold.buffer.least_timeout: 61s is not a valid minimum RTO",
        ),
    ] {
        let told = refusal(
            SWEPT,
            "count = 4",
            &format!("count = 4\n{more}\nhold = {hold}"),
        );
        assert!(told.contains(words), "{hold} with {more}: {told}");
    }
}

#[test]
fn a_hold_is_not_for_machines_and_says_what_it_does() {
    let hold = "hold = { pace = true, buffer = { least_timeout = \"4ms\" } }";
    let text = GOOD.replacen("count = 9", &format!("count = 9\n{LAW}\n{hold}"), 1);
    let experiment = Experiment::from_str("t.toml", &text).unwrap();
    experiment.validate().unwrap();
    experiment.suits(Arm::Sim).unwrap();
    experiment.suits(Arm::Live).unwrap();
    let told = experiment.suits(Arm::Vm).unwrap_err().to_string();
    assert!(
        told.contains("hold: hold is for sim and live only"),
        "{told}"
    );
    let without_law =
        text.replacen(LAW, "", 1)
            .replacen(", buffer = { least_timeout = \"4ms\" }", "", 1);
    let experiment = Experiment::from_str("t.toml", &without_law).unwrap();
    experiment.suits(Arm::Sim).unwrap();
    let told = experiment.suits(Arm::Live).unwrap_err().to_string();
    assert!(told.contains("hold without a law"), "{told}");
    let experiment = Experiment::from_str("t.toml", &text).unwrap();
    let words = experiment.cases[0].guests[0].hold.unwrap().to_string();
    assert_eq!(
        words,
        ", ACKs spread over a round trip, data kept and retransmitted by the host with a minimum \
         RTO of 4ms"
    );
}
