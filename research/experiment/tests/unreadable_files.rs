//! Files that are not experiments, and the refusals with place and remedy.

use crate::common::{GOOD, SWEPT};
use uc_experiment::Experiment;

/// Returns the error of `file` with `from` replaced by `to`.
fn error(file: &str, from: &str, to: &str) -> String {
    assert!(file.contains(from), "{from:?} is not in the file");
    let read = Experiment::from_str("t.toml", &file.replacen(from, to, 1));
    read.expect_err("is no experiment").to_string()
}

/// Each row: the text replaced, its replacement, and the refusal.
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
             timestamps, rack, early_retransmit, wscale, rto_min, kernel, rto_max, rto_granularity, \
             frto, initial_window, delayed_ack, quick_acks, limited_transmit, receive_buffer, nagle, \
             restart_after_idle, reduction, ignores_window, pvtcp",
    ),
    (
        "delay = \"250us\"\n",
        "",
        "t.toml:7:1: missing key `delay`; add it to this table",
    ),
    (
        "\"10Mbit\"",
        "10",
        "t.toml:8:8: `10` is not a rate: a number in a file needs a unit and quotes; write for \
         example \"10Mbit\"",
    ),
    (
        "\"10Mbit\"",
        "\"10Mb\"",
        "t.toml:8:8: `10Mb` is not a rate: its unit is not one of bit, kbit, Mbit, Gbit; write \
             for example \"10Mbit\"",
    ),
    (
        "min = \"30kB\"",
        "min = \"30k\"",
        "t.toml:13:7: `30k` is not a size: its unit is not one of B, kB, KiB, MB, MiB, GB, GiB; \
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
             sawtooth_period, sawtooth_peak, sawtooth_trough, rtt, packet_rtt, window_error, alpha, \
             alpha_error, fct, unfinished, timeouts, events, clock_jump, rto, counter, ack_gaps, queue, \
             marked, lost, ratio",
    ),
    (
        "of = \"legacy\", to",
        "off = \"legacy\", to",
        "t.toml:41:45: unknown key `off`; did you mean `of`?",
    ),
    (
        "count = 9",
        "count = 9\nlaw = \"vegas\"",
        "t.toml:33:7: unknown value `vegas`; known here: pass, ecn, dctcp, delay, coupled",
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

/// Each row: the text replaced in the swept experiment, its replacement, and the refusal.
const UNREADABLE_SWEPT: [(&str, &str, &str); 26] = [
    (
        "leaf-spine =",
        "leafspine =",
        "t.toml:8:14: unknown value `leafspine`; did you mean `leaf-spine`?",
    ),
    (
        "spines = 2",
        "spine = 2",
        "t.toml:8:41: unknown key `spine`; did you mean `spines`?",
    ),
    (
        "spines = 2",
        "spines = \"2\"",
        "t.toml:8:50: invalid type: string \"2\", expected a whole number",
    ),
    (
        "{ leaf-spine = { leaves = 3, spines = 2 } }",
        "\"ring\"",
        "t.toml:8:12: unknown value `ring`; known here: star, dumbbell, parking-lot, leaf-spine, \
             switch, fat-tree",
    ),
    (
        "{ leaf-spine = { leaves = 3, spines = 2 } }",
        "\"parking-lot\"",
        "t.toml:8:12: invalid type: the name alone, expected a table with its keys",
    ),
    (
        "{ leaf-spine = { leaves = 3, spines = 2 } }",
        "{ star = {}, dumbbell = {} }",
        "t.toml:8:12: expected a table with exactly one key; keep one of its keys, or add one",
    ),
    (
        "web = { rate",
        "wib = { rate",
        "t.toml:32:17: unknown value `wib`; did you mean `web`?",
    ),
    (
        "rate = 50, sizes = [[\"1kB\", 0.5], [\"1MB\", 1.0]]",
        "rate = 50",
        "t.toml:32:23: missing key `sizes`; add it to this table",
    ),
    (
        "\"1kB\", 0.5",
        "\"1k\", 0.5",
        "t.toml:32:46: `1k` is not a size: its unit is not one of B, kB, KiB, MB, MiB, GB, GiB; \
             write for example \"1500B\"",
    ),
    (
        "\"1kB\", 0.5",
        "\"1kB\"",
        "t.toml:32:45: invalid length 1, expected [size, cumulative probability]",
    ),
    (
        "[[\"1kB\", 0.5], [\"1MB\", 1.0]]",
        "\"1k\"",
        "t.toml:32:44: `1k` is not a size: its unit is not one of B, kB, KiB, MB, MiB, GB, GiB; \
             write for example \"1500B\"",
    ),
    (
        "[[\"1kB\", 0.5], [\"1MB\", 1.0]]",
        "7",
        "t.toml:32:44: invalid type: integer `7`, expected a size (\"10kB\") or a list of sizes \
             with their cumulative probabilities ([[\"1kB\", 0.5], [\"100kB\", 1.0]])",
    ),
    (
        "delayed_ack = \"0s\"",
        "frto = \"on\"",
        "t.toml:16:8: unknown value `on`; known here: off, halve, undo",
    ),
    (
        "delayed_ack = \"0s\"",
        "delayed_ack = 0",
        "t.toml:16:15: `0` is not a duration: a number in a file needs a unit and quotes; write \
         for example \"250us\"",
    ),
    (
        "arms = [\"sim\"]",
        "arms = [\"simulator\"]",
        "t.toml:3:9: unknown value `simulator`; known here: sim, live, vm",
    ),
    (
        "arms = [\"sim\"]",
        "arms = \"sim\"",
        "t.toml:3:8: invalid type: string \"sim\", expected a list",
    ),
    (
        "buffer = \"deep\"",
        "buffer = 7",
        "t.toml:46:36: expected a label (\"9\") or a list of labels ([\"5\", \"9\"])",
    ),
    (
        "long = [\"1\", \"8\"]",
        "long = [1, 8]",
        "t.toml:46:15: expected a label (\"9\") or a list of labels ([\"5\", \"9\"])",
    ),
    (
        "statistic = \"p99\"",
        "statistic = \"p95\"",
        "t.toml:45:69: unknown value `p95`; did you mean `p99`?",
    ),
    (
        "[8, 4, 1]",
        "8",
        "t.toml:36:53: `case.mixed.guests.short.count` is 8; give a list with a value for every \
             setting",
    ),
    (
        "labels = [\"deep\"",
        "label = [\"deep\"",
        "t.toml:40:1: unknown key `label`; did you mean `labels`?",
    ),
    (
        "set = { \"network.queue\"",
        "set = { network.queue",
        "t.toml:41:7: `network` is a table; write the whole key in quotes: \"network.KEY\" = \
             [VALUE, …]",
    ),
    (
        "on = \"sim\"",
        "on = \"cloud\"",
        "t.toml:54:6: unknown value `cloud`; known here: sim, live, vm",
    ),
    (
        "rises = true",
        "rise = true",
        "t.toml:53:1: unknown key `rise`; did you mean `rises`?",
    ),
    (
        "rises = true",
        "rises = 1",
        "t.toml:53:9: invalid type: integer `1`, expected a boolean",
    ),
    (
        "from = 1",
        "form = 1",
        "t.toml:26:1: unknown key `form`; did you mean `from`?",
    ),
];

#[test]
fn a_file_that_cannot_be_read_is_refused_at_the_place() {
    for (from, to, expected) in UNREADABLE {
        assert_eq!(error(GOOD, from, to), expected, "{from:?} -> {to:?}");
    }
    for (from, to, expected) in UNREADABLE_SWEPT {
        assert_eq!(error(SWEPT, from, to), expected, "{from:?} -> {to:?}");
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
