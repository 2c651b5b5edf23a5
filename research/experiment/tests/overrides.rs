//! Overrides of single keys, and the defaults of absent keys.

use crate::common::GOOD;
use uc_experiment::{BitsPerSec, Experiment, Law, Value};

/// Reads and validates the small experiment.
fn good() -> Experiment {
    let experiment = Experiment::from_str("t.toml", GOOD).expect("reads");
    experiment.validate().expect("makes sense");
    experiment
}

#[test]
fn an_override_replaces_one_key_and_is_remembered() {
    let mut experiment = good();
    experiment
        .apply_set("network.rate=100Mbit")
        .expect("applies");
    experiment.apply_set("repeat = 3").expect("applies");
    experiment
        .apply_set("case.mixed.guests.legacy.law=ecn")
        .expect("applies");
    experiment
        .apply_set("case.0.guests.0.count=4")
        .expect("applies");
    experiment
        .apply_set("stack.ecn.rto_min=20ms")
        .expect("applies");
    assert_eq!(experiment.network.rate, BitsPerSec(100_000_000));
    assert_eq!(experiment.repeat, 3);
    assert_eq!(experiment.cases[0].guests[1].law, Some(Law::ECN));
    assert_eq!(experiment.cases[0].guests[0].count, 4);
    assert_eq!(
        experiment.stacks["ecn"].rto_min.map(|rto| rto.0),
        Some(20_000_000)
    );
    assert_eq!(experiment.overrides().next(), Some("network.rate=100Mbit"));
    experiment.validate().expect("makes sense");
}

#[test]
fn a_parameter_can_be_set_where_the_file_chose_none() {
    let mut experiment = good();
    let law = "case.mixed.guests.legacy.law=dctcp";
    experiment.apply_set(law).expect("applies");
    let beta = "case.mixed.guests.legacy.parameters.beta=0.5";
    experiment.apply_set(beta).expect("applies");
    let [ecn, legacy] = &experiment.cases[0].guests[..] else {
        panic!("{:?}", experiment.cases[0].guests);
    };
    assert_eq!(legacy.parameters.get("beta"), Some(Value::Fraction(0.5)));
    assert!(ecn.parameters.are_default(), "{:?}", ecn.parameters);
    experiment.validate().expect("makes sense");
    let guard = "case.mixed.guests.ecn.parameters.guard=1";
    experiment.apply_set(guard).expect("applies");
    let error = experiment.validate().expect_err("no law").to_string();
    let place = format!("--set {guard}: case.0.guests.0.parameters.guard: is for a law");
    assert!(error.starts_with(&place), "{error}");
}

#[test]
fn an_override_that_does_not_fit_changes_nothing_and_says_why() {
    let mut experiment = good();
    let cases = [
        (
            "network.raet=1Mbit",
            "unknown key `raet`; did you mean `rate`?",
        ),
        (
            "netwrok.rate=1Mbit",
            "no `netwrok` in an experiment; did you mean `network`?",
        ),
        (
            "case.mixd.name=x",
            "no `mixd` in case; did you mean `mixed`?",
        ),
        ("case.7.name=x", "no `7` in case; known here: mixed"),
        (
            "name.x=y",
            "name is a single value, which has no key `x`; remove `.x`",
        ),
        (
            "repeat",
            "no value; write KEY=VALUE, for example network.rate=10Mbit",
        ),
        (
            "network.rate=fast",
            "`fast` is not a rate: its text does not begin with a number; write for example \
             \"10Mbit\"",
        ),
    ];
    for (text, message) in cases {
        let error = experiment.apply_set(text).expect_err(text).to_string();
        assert_eq!(error, format!("--set {text}: {message}"));
    }
    assert_eq!(experiment, good());
}

#[test]
fn an_invalid_override_is_refused_by_its_own_text() {
    let mut experiment = good();
    experiment
        .apply_set("case.mixed.guests.ecn.count=0")
        .expect("applies");
    let error = experiment.validate().expect_err("no guests").to_string();
    assert_eq!(
        error,
        "--set case.mixed.guests.ecn.count=0: case.0.guests.0.count: is 0; give at least 1"
    );
}

#[test]
fn defaults_equal_the_documented_ones() {
    let experiment = good();
    assert_eq!(experiment.sample.0, 100_000_000);
    assert_eq!(experiment.repeat, 1);
    assert_eq!(experiment.network.access_rate(), experiment.network.rate);
    assert_eq!(experiment.measured_ns(), 2_000_000_000..9_000_000_000);
    let legacy = &experiment.stacks["legacy"];
    assert_eq!(legacy.congestion_control, "cubic");
    assert!(!legacy.sack && legacy.timestamps && legacy.rack && legacy.early_retransmit);
    assert_eq!((legacy.wscale, legacy.rto_min), (7, None));
    let guests = &experiment.cases[0].guests[1];
    assert_eq!((guests.count, guests.flows, guests.law), (1, 1, None));
    assert!(experiment.receiver_stack(&experiment.cases[0]).ecn);
}
