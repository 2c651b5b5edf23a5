//! Swept files that can be read but are invalid, and the refusals with place and reason.

use crate::common::{SWEPT, refusal};
use uc_experiment::Experiment;

/// Each row: the text replaced, its replacement, and the refusal.
const SWEEPS: [(&str, &str, &str); 29] = [
    (
        "name = \"buffer\"",
        "name = \"long\"",
        "t.toml:39:8: sweep.1.name: a second axis `long`; give every axis a name of its own",
    ),
    (
        "set = { \"network.queue\" =",
        "set = { \"network.quee\" =",
        "t.toml:41:27: network.quee: unknown key `quee`; did you mean `queue`?",
    ),
    (
        "set = { \"network.queue\" =",
        "set = { \"netwrok.queue\" =",
        "t.toml:41:28: netwrok.queue: no `netwrok` in an experiment; did you mean `network`?",
    ),
    (
        "[8, 4, 1]",
        "[8, 4]",
        "t.toml:36:87: sweep.0.set.\"case.mixed.guests.short.count\": 2 values beside 3 of \
             `case.mixed.guests.long.count`; give one for every setting",
    ),
    (
        "[8, 4, 1]",
        "[]",
        "t.toml:36:87: sweep.0.set.\"case.mixed.guests.short.count\": is an empty list; give a \
             value for every setting",
    ),
    (
        "[8, 4, 1]",
        "[8, 4, 0]",
        "t.toml:36:94: case.0.guests.1.count: is 0; give at least 1",
    ),
    (
        "[1, 4, 8]",
        "[1, 4, \"many\"]",
        "t.toml:46:15: expect.0.at.long: no `8` on axis `long`; did you mean `1`?",
    ),
    (
        "limit = \"30kB\"",
        "limit = \"3B\"",
        "t.toml:41:68: network.queue.limit: holds not even one full packet; give at least 1514B",
    ),
    (
        "labels = [\"deep\", \"shallow\"]\n",
        "labels = [\"deep\"]\n",
        "t.toml:40:10: sweep.1.labels: 1 labels for 2 settings; give one each",
    ),
    (
        "labels = [\"deep\", \"shallow\"]\n",
        "labels = [\"deep\", \"deep\"]\n",
        "t.toml:40:10: sweep.1.labels: two settings are labelled `deep`; give every setting a \
             label of its own",
    ),
    (
        "labels = [\"deep\", \"shallow\"]\n",
        "",
        "t.toml:38:1: sweep.1.labels: missing, and tables make no labels; add one for every \
             setting",
    ),
    (
        "\"network.queue\" = [{",
        "\"case.mixed.guests.long\" = [{",
        "t.toml:41:36: sweep.1.set.\"case.mixed.guests.long\": is set by \
             `case.mixed.guests.long.count` too; keep one of them",
    ),
    (
        "\"network.queue\" = [{",
        "\"repeat\" = [{",
        "t.toml:41:20: sweep.1.set.\"repeat\": `repeat` is the same at every point; leave it out",
    ),
    (
        "set = { \"network.queue\" = [{ kind = \"droptail\", limit = \"300kB\" }, { kind = \
             \"droptail\", limit = \"30kB\" }] }",
        "set = {}",
        "t.toml:41:7: sweep.1.set: sets nothing; add for example { \"network.rate\" = \
             [\"10Mbit\", \"100Mbit\"] }",
    ),
    (
        "at = { long",
        "at = { lang",
        "t.toml:46:15: expect.0.at.lang: no axis `lang`; did you mean `long`?",
    ),
    (
        "buffer = \"deep\" }",
        "buffer = \"dep\" }",
        "t.toml:46:36: expect.0.at.buffer: no `dep` on axis `buffer`; did you mean `deep`?",
    ),
    (
        "buffer = \"deep\" }",
        "buffer = [] }",
        "t.toml:46:36: expect.0.at.buffer: names no label; leave it out for all of them",
    ),
    (
        "along = \"long\"",
        "along = \"lang\"",
        "t.toml:52:9: expect.1.along: no axis `lang`; did you mean `long`?",
    ),
    (
        "along = \"long\"\n",
        "",
        "t.toml:52:9: expect.1.rises: has no axis; add along = \"AXIS\"",
    ),
    (
        "along = \"long\"",
        "along = \"long\"\nfalls = true",
        "t.toml:52:9: expect.1.along: has more than one direction; say one of falls = true, \
             rises = true",
    ),
    (
        "along = \"long\"\nrises = true",
        "along = \"long\"",
        "t.toml:52:9: expect.1.along: has no direction; say one of falls = true, rises = true",
    ),
    (
        "rises = true",
        "rises = true\nat = { long = \"1\" }",
        "t.toml:52:9: expect.1.along: has one point, and no direction; give the axis two \
             settings or more",
    ),
    (
        "rises = true",
        "rises = true\nat_most = 1",
        "t.toml:52:9: expect.1.along: is given with bounds; use a separate [[expect]]",
    ),
    (
        "at = { long",
        "over = \"lang\"\nat = { long",
        "t.toml:46:8: expect.0.over: no axis `lang`; did you mean `long`?",
    ),
    (
        "along = \"long\"",
        "along = \"long\"\nover = \"buffer\"",
        "t.toml:53:8: expect.1.over: is given with along; use a separate [[expect]]",
    ),
    (
        "on = \"sim\"",
        "on = \"live\"",
        "t.toml:54:6: expect.1.on: live is not among the file's arms, so it is never judged; \
             add it there",
    ),
    (
        "of = \"short\", statistic",
        "of = \"long\", statistic",
        "t.toml:45:48: expect.0.measure.of: group `long` is bulk, which never completes; give \
             it another application",
    ),
    (
        "{ kind = \"fct\", case = \"mixed\", of = \"short\" }",
        "{ kind = \"ack_gaps\", case = \"mixed\", of = \"short\", from = \"250ms\" }",
        "t.toml:51:69: expect.1.measure.from: 250ms is inside a bin; give a multiple of 100ms",
    ),
    (
        "{ kind = \"fct\", case = \"mixed\", of = \"short\" }",
        "{ kind = \"ack_gaps\", case = \"mixed\", of = \"short\", from = \"200ms\", to = \
             \"200ms\" }",
        "t.toml:51:83: expect.1.measure.to: is not above from, 200ms",
    ),
];

#[test]
fn the_swept_file_itself_is_valid() {
    Experiment::from_str("t.toml", SWEPT)
        .expect("reads")
        .validate()
        .expect("makes sense");
}

#[test]
fn an_invalid_sweep_or_expectation_is_refused_at_the_place() {
    for (from, to, expected) in SWEEPS {
        assert_eq!(refusal(SWEPT, from, to), expected, "{from:?} -> {to:?}");
    }
}
