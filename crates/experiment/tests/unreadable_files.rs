//! Files that are no experiment, and the one line that says where and how to mend it.

mod common;

use common::GOOD;
use uc_experiment::Experiment;

/// The error of the small experiment with `from` replaced by `to`.
fn error(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from:?} is not in the file");
    let read = Experiment::from_str("t.toml", &GOOD.replacen(from, to, 1));
    read.expect_err("is no experiment").to_string()
}

/// What is replaced, by what, and the refusal.
const UNREADABLE: [(&str, &str, &str); 16] = [
    (
        "probability = 0.1",
        "probability = \"high\"",
        "t.toml:17:15: invalid type: string \"high\", expected a number",
    ),
    (
        "burst = 55\n",
        "",
        "t.toml:11:1: missing key `burst`; add it to this table",
    ),
    (
        "stack = \"legacy\"\n",
        "",
        "t.toml:35:1: missing key `stack`; add it to this table",
    ),
    (
        "settle = \"2s\"",
        "setle = \"2s\"",
        "t.toml:4:1: unknown key `setle`; did you mean `settle`?",
    ),
    (
        "[stack.ecn]\necn",
        "[stack.ecn]\nfast",
        "t.toml:22:1: unknown key `fast`; known here: congestion_control, ecn, sack, \
             timestamps, rack, early_retransmit, wscale, rto_min, rto_max, rto_granularity, frto, \
             initial_window, delayed_ack, limited_transmit, receive_buffer, nagle",
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
             sawtooth_period, sawtooth_peak, sawtooth_trough, rtt, fct, unfinished, timeouts, \
             ack_gaps, queue, marked, lost, ratio",
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
        "t.toml:32:9: invalid value: integer `-1`, expected a whole number",
    ),
    (
        "count = 9",
        "count = ",
        "t.toml:32:9: string values must be quoted, expected literal string",
    ),
];

#[test]
fn a_file_that_cannot_be_read_is_refused_at_the_place() {
    for (from, to, expected) in UNREADABLE {
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
