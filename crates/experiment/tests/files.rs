//! Files that are wrong, and the one line that says where and how to mend it; and overrides.

use uc_experiment::{BitsPerSec, Experiment, Law};

/// A small experiment in which each test breaks one thing.
const GOOD: &str = r#"name = "t/one"
title = "A test"
duration = "10s"
settle = "2s"
tail = "1s"

[network]
rate = "10Mbit"
delay = "250us"

[network.queue]
kind = "red"
min = "30kB"
max = "90kB"
limit = "1MB"
burst = 55
probability = 0.1
packet = "1500B"
ecn = true

[stack.ecn]
ecn = true

[stack.legacy]
sack = false

[[case]]
name = "mixed"

[[case.guests]]
name = "ecn"
count = 9
stack = "ecn"

[[case.guests]]
name = "legacy"
stack = "legacy"

[[expect]]
name = "share"
measure = { kind = "share", case = "mixed", of = "legacy", to = "ecn" }
within = [0.1, 0.5]
"#;

fn good() -> Experiment {
    let experiment = Experiment::from_str("t.toml", GOOD).expect("reads");
    experiment.validate().expect("makes sense");
    experiment
}

/// The error of GOOD with `from` replaced by `to`.
fn error(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from:?} is not in the file");
    let text = GOOD.replacen(from, to, 1);
    let read = Experiment::from_str("t.toml", &text);
    match read.and_then(|experiment| experiment.validate()) {
        Ok(()) => panic!("{from:?} -> {to:?} was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_file_that_cannot_be_read_is_refused_at_the_place() {
    let cases = [
        (
            "settle = \"2s\"",
            "setle = \"2s\"",
            "t.toml:4:1: unknown key `setle`; did you mean `settle`?",
        ),
        (
            "[stack.ecn]\necn",
            "[stack.ecn]\nfast",
            "t.toml:22:1: unknown key `fast`; known here: congestion_control, ecn, sack, \
             timestamps, rack, early_retransmit, wscale, rto_min",
        ),
        (
            "delay = \"250us\"\n",
            "",
            "t.toml:7:1: missing key `delay`; add it to this table",
        ),
        (
            "\"10Mbit\"",
            "10",
            "t.toml:8:8: `10` is not a rate: the unit is missing; write for example \"10Mbit\"",
        ),
        (
            "\"10Mbit\"",
            "\"10Mb\"",
            "t.toml:8:8: `10Mb` is not a rate: the unit is one of bit, kbit, Mbit, Gbit; write \
             for example \"10Mbit\"",
        ),
        (
            "min = \"30kB\"",
            "min = \"30k\"",
            "t.toml:13:7: `30k` is not a size: the unit is one of B, kB, KiB, MB, MiB, GB, GiB; \
             write for example \"1500B\"",
        ),
        (
            "burst = 55",
            "bursts = 55",
            "t.toml:16:1: unknown key `bursts`; did you mean `burst`?",
        ),
        (
            "kind = \"red\"",
            "kind = \"rad\"",
            "t.toml:12:8: unknown value `rad`; did you mean `red`?",
        ),
        (
            "kind = \"share\"",
            "kind = \"fairness\"",
            "t.toml:41:20: unknown value `fairness`; known here: share, jain, goodput, \
             utilisation, retransmitted, retransmits, drops, send_window, window_above, \
             sawtooth_period, sawtooth_peak, sawtooth_trough, ratio",
        ),
        (
            "of = \"legacy\", to",
            "off = \"legacy\", to",
            "t.toml:41:45: unknown key `off`; did you mean `of`?",
        ),
        (
            "count = 9",
            "count = 9\nlaw = \"dctpc\"",
            "t.toml:33:7: unknown value `dctpc`; known here: pass, ecn",
        ),
        (
            "count = 9",
            "count = -1",
            "t.toml:32:9: invalid value: integer `-1`, expected u32",
        ),
        (
            "count = 9",
            "count = ",
            "t.toml:32:9: string values must be quoted, expected literal string",
        ),
    ];
    for (from, to, expected) in cases {
        assert_eq!(error(from, to), expected, "{from:?} -> {to:?}");
    }
}

#[test]
fn a_file_that_makes_no_sense_is_refused_at_the_place() {
    let cases = [
        (
            "name = \"t/one\"",
            "name = \"a b\"",
            "t.toml:1:8: name: `a b` is no name; use letters, digits, `-` and `_`",
        ),
        (
            "settle = \"2s\"",
            "settle = \"9s\"",
            "t.toml:3:12: duration: nothing is left to measure: settle 9s and tail 1s take all of \
             10s",
        ),
        (
            "tail = \"1s\"",
            "tail = \"1s\"\nsample = \"4s\"",
            "t.toml:6:10: sample: 4s leaves fewer than two samples in the measured part; make it \
             smaller",
        ),
        (
            "tail = \"1s\"",
            "tail = \"1s\"\nrepeat = 0",
            "t.toml:6:10: repeat: is 0; run it at least once",
        ),
        (
            "\"10Mbit\"",
            "\"0bit\"",
            "t.toml:8:8: network.rate: is 0; nothing would ever arrive: give for example 10Mbit",
        ),
        (
            "max = \"90kB\"",
            "max = \"30kB\"",
            "t.toml:14:7: network.queue.max: 30kB is not above min 30kB",
        ),
        (
            "probability = 0.1",
            "probability = 1.5",
            "t.toml:17:15: network.queue.probability: 1.5 is no probability; give 0 to 1",
        ),
        (
            "burst = 55",
            "burst = 10",
            "t.toml:16:9: network.queue.burst: 10 packets are less than min/packet; give at least \
             20",
        ),
        (
            "sack = false",
            "wscale = 15",
            "t.toml:25:10: stack.legacy.wscale: 15 is above 14, the largest (RFC 7323 §2.3)",
        ),
        (
            "sack = false",
            "congestion_control = \"New Reno\"",
            "t.toml:25:22: stack.legacy.congestion_control: `New Reno` is no kernel name; give \
             for example reno",
        ),
        (
            "count = 9",
            "count = 0",
            "t.toml:32:9: case.0.guests.0.count: is 0; give at least 1",
        ),
        (
            "count = 9",
            "count = 300",
            "t.toml:30:1: case.0.guests: 301 guests in one case; a network holds at most 250",
        ),
        (
            "stack = \"legacy\"",
            "stack = \"legcy\"",
            "t.toml:37:9: case.0.guests.1.stack: no [stack.legcy]; did you mean `legacy`?",
        ),
        (
            "name = \"legacy\"\nstack",
            "name = \"ecn\"\nstack",
            "t.toml:36:8: case.0.guests.1.name: a second group `ecn` in case `mixed`",
        ),
        (
            "[[expect]]",
            "[[case]]\nname = \"mixed\"\n[[case.guests]]\nname = \"x\"\nstack = \
             \"ecn\"\n[[expect]]",
            "t.toml:40:8: case.1.name: a second case `mixed`; give every case a name of its own",
        ),
        (
            "case = \"mixed\"",
            "case = \"mixt\"",
            "t.toml:41:36: expect.0.measure.case: no case `mixt`; did you mean `mixed`?",
        ),
        (
            "to = \"ecn\"",
            "to = \"all\"",
            "t.toml:41:65: expect.0.measure.to: no group `all` in case `mixed`; known here: ecn, \
             legacy",
        ),
        (
            "within = [0.1, 0.5]",
            "within = [0.5, 0.1]",
            "t.toml:42:10: expect.0.within: 0.5 is above 0.1; write [low, high]",
        ),
        (
            "within = [0.1, 0.5]",
            "",
            "t.toml:39:1: expect.0: expects nothing; add within = [low, high], at_most or at_least",
        ),
        (
            "within = [0.1, 0.5]",
            "within = [0.1, 0.5]\nat_most = 1",
            "t.toml:42:10: expect.0.within: stands beside at_most or at_least; keep one of them",
        ),
    ];
    for (from, to, expected) in cases {
        assert_eq!(error(from, to), expected, "{from:?} -> {to:?}");
    }
}

#[test]
fn every_refusal_is_one_line() {
    for (i, _) in GOOD.match_indices('=') {
        let text = format!("{}~{}", &GOOD[..i], &GOOD[i + 1..]);
        let error = Experiment::from_str("t.toml", &text)
            .expect_err("no TOML")
            .to_string();
        assert!(!error.contains('\n'), "{error:?}");
    }
}

#[test]
fn a_missing_file_is_refused_by_its_path() {
    let error = Experiment::load("no/such.toml")
        .expect_err("is not there")
        .to_string();
    assert!(error.starts_with("no/such.toml: "), "{error}");
    assert!(
        error.ends_with("; name an experiment file (*.toml)"),
        "{error}"
    );
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
    assert_eq!(experiment.cases[0].guests[1].law, Some(Law::Ecn));
    assert_eq!(experiment.cases[0].guests[0].count, 4);
    assert_eq!(
        experiment.stacks["ecn"].rto_min.map(|rto| rto.0),
        Some(20_000_000)
    );
    assert_eq!(experiment.overrides().next(), Some("network.rate=100Mbit"));
    experiment.validate().expect("makes sense");
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
        ("name.x=y", "name has no members; leave out `.x`"),
        (
            "repeat",
            "no value; write KEY=VALUE, for example network.rate=10Mbit",
        ),
        (
            "network.rate=fast",
            "`fast` is not a rate: it does not begin with a number; write for example \"10Mbit\"",
        ),
    ];
    for (text, message) in cases {
        let error = experiment.apply_set(text).expect_err(text).to_string();
        assert_eq!(error, format!("--set {text}: {message}"));
    }
    assert_eq!(experiment, good());
}

#[test]
fn a_senseless_override_is_refused_as_the_override_it_was() {
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
fn defaults_are_those_of_the_documentation() {
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
    assert!(experiment.server_stack().ecn);
}
