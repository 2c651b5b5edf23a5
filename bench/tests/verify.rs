//! `uc-bench verify` as a program: its answers, its exit statuses, its refusals.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::UC_BENCH;

fn uc(arguments: &[&str]) -> Output {
    let mut uc = Command::new(UC_BENCH);
    uc.arg("verify").args(arguments).output().expect("uc runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_same_seed_gives_the_same_answer_whatever_the_number_of_jobs() {
    let one = uc(&["--cases", "60", "--seed", "3", "--json", "--jobs", "1"]);
    let four = uc(&["--cases", "60", "--seed", "3", "--json", "--jobs", "4"]);
    assert_eq!(one.status.code(), Some(0), "{}", text(&one.stderr));
    assert_eq!(text(&one.stdout), text(&four.stdout));
    let object: serde_json::Value = serde_json::from_slice(&one.stdout).expect("one JSON object");
    assert_eq!(
        (&object["exact"], &object["cases"]),
        (&60.into(), &60.into())
    );
    assert!(object["counter_example"].is_null(), "{object}");
}

#[test]
fn a_case_is_replayed_from_its_file_line_by_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("case.toml");
    let plan = "# a comment, as a trace is\niss = 0\nmss-bytes = 1000\n\
        initial-window-segments = 4\nreceive-buffer-segments = 60\npackets = 30\nstalls = []\n\
        bursts = [{ after = 'acked', pause-us = 0, pause-rto-permille = 0, segments = 20 }]\n\
        [data]\ndelay-us = 100\npacket-us = 10\nqueue-packets = 0\nmark-packets = 0\n\
        lost = []\nmarked = [3]\nlate = []\n\
        [acks]\ndelay-us = 100\npacket-us = 0\nqueue-packets = 0\nmark-packets = 0\n\
        lost = []\nmarked = []\nlate = []\n";
    std::fs::write(&file, plan).expect("room for a file");
    let replay = uc(&["--replay", &file.to_string_lossy()]);
    let shown = text(&replay.stdout);
    assert_eq!(
        replay.status.code(),
        Some(0),
        "{shown}{}",
        text(&replay.stderr)
    );
    assert!(
        shown.contains("← ACK,ECE 3001"),
        "the mark comes back: {shown}"
    );
    assert!(shown.ends_with("exact\n"), "{shown}");
}

#[test]
fn senseless_arguments_are_refused_in_one_line_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("case.toml");
    std::fs::write(&file, "iss = 0\nmss-bytes = 1000\nextra = 1\n").expect("room for a file");
    let missing = Path::new("no/such/file.toml")
        .to_string_lossy()
        .into_owned();
    let refusals: [(&[&str], &str); 4] = [
        (
            &["--replay", &file.to_string_lossy()],
            "unknown field `extra`",
        ),
        (&["--replay", &missing], "No such file"),
        (&["--law", "reno"], "[possible values: ecn, dctcp]"),
        (&["--cases", "0"], "0 is not in"),
    ];
    for (arguments, expected) in refusals {
        let refused = uc(arguments);
        let message = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn the_smallest_case_is_a_replay_file_that_ends_where_the_windows_cross() {
    let folder = tempfile::tempdir().expect("a folder");
    for arguments in [
        ["--smallest", "--law", "dctcp"],
        ["--smallest", "threshold", "--law=dctcp"],
    ] {
        let smallest = uc(&arguments);
        let shown = text(&smallest.stdout);
        assert_eq!(smallest.status.code(), Some(0), "{arguments:?}: {shown}");
        let file = folder.path().join("smallest.toml");
        std::fs::write(&file, &shown).expect("room for a file");
        let replay = uc(&["--law", "dctcp", "--replay", &file.to_string_lossy()]);
        let end = "exact, up to where an assumption ends: BeyondGuest\n";
        let shown = text(&replay.stdout);
        assert!(shown.ends_with(end), "{arguments:?}: {shown}");
    }
}
