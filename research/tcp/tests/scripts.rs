//! The endpoints against the RFCs, by the scripts in `tests/scripts` (the language: `support`).
//!
//! A single script: `SCRIPT=rfc5681/slow_start cargo test -p uc-tcp --test all scripts::`.

use crate::support;

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

fn scripts() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let list = |directory: &Path| {
        let entries = fs::read_dir(directory).expect("tests/scripts is part of the tree");
        entries
            .map(|entry| entry.expect("a readable entry").path())
            .collect::<Vec<_>>()
    };
    let mut all: Vec<PathBuf> = list(&root).iter().flat_map(|rfc| list(rfc)).collect();
    all.sort();
    all
}

/// Returns a script's name, such as `rfc5681/slow_start`.
fn name(script: &Path) -> String {
    let stem = script.with_extension("");
    let parts: Vec<_> = stem
        .iter()
        .rev()
        .take(2)
        .map(|part| part.to_string_lossy())
        .collect();
    format!("{}/{}", parts[1], parts[0])
}

#[test]
fn every_script_holds() {
    let only = std::env::var("SCRIPT").unwrap_or_default();
    let mut failures = Vec::new();
    let mut held = 0;
    for script in scripts()
        .iter()
        .filter(|script| name(script).contains(&only))
    {
        let text = fs::read_to_string(script).expect("a readable script");
        let outcome = catch_unwind(|| support::run::run(&text));
        let failure = match outcome {
            Ok(Ok(())) => {
                held += 1;
                continue;
            }
            Ok(Err(failure)) => failure.to_string(),
            Err(_) => "the endpoint panicked (its message is above)".to_owned(),
        };
        let name = name(script);
        failures.push(format!(
            "research/tcp/tests/scripts/{name}.txt:{failure}\n\
             again: SCRIPT={name} cargo test -p uc-tcp --test all scripts::\n"
        ));
    }
    assert!(
        failures.is_empty(),
        "{} of {} fail\n{}",
        failures.len(),
        failures.len() + held,
        failures.join("\n")
    );
    assert!(held > 0, "no script is named `{only}`");
}

/// Returns how a script of the folder must begin: with the RFC and its section, or with a paper by
/// its first author and year.
fn source(folder: &str) -> String {
    if let Some(number) = folder.strip_prefix("rfc") {
        return format!("# RFC {number} §");
    }
    let year = folder.find(|c: char| c.is_ascii_digit());
    let (author, year) = folder.split_at(year.expect("a folder is called rfcNUMBER or authorYEAR"));
    let (first, rest) = author.split_at(1);
    format!("# {}{rest} {year}, ", first.to_uppercase())
}

#[test]
fn every_script_begins_with_the_source_that_its_folder_names() {
    for script in scripts() {
        let text = fs::read_to_string(&script).expect("a readable script");
        let head = text.lines().next().unwrap_or("");
        let name = name(&script);
        let start = source(name.split('/').next().unwrap_or(""));
        assert!(
            head.starts_with(&start) && head.contains(": "),
            "{name}: `{head}` should be `{start}…: what holds`"
        );
    }
}

/// Returns the line at which a script fails, and the reason.
fn fails_at(text: &str) -> (usize, String) {
    let failure = support::run::run(text).expect_err("it holds and should not");
    (failure.line, failure.why)
}

#[test]
fn a_script_fails_at_the_line_that_does_not_hold() {
    let start = "config initial_window=2\nhandshake\n0ms write 5000\n";
    assert!(support::run::run(&format!("{start}> 1:2001/1000\nexpect cwnd=2000")).is_ok());
    for (rest, line, why) in [
        ("> 1:1001", 4, "expected nothing more"),
        ("> 1:3001/1000", 4, "seen nothing"),
        ("> 1:2001/500", 4, "the range 1:501"),
        ("> F. 1:2001/1000", 4, "flags F."),
        ("> 1:2001/1000 ect0", 4, "Ect0"),
        ("> 1:2001/1000\nexpect cwnd=2001", 5, "seen 2000"),
        ("> 1:2001/1000\nexpect cwnd<=1999", 5, "seen 2000"),
        ("> 1:2001/1000\n< ack=1001 frob=1", 5, "no `frob`"),
        ("> 1:2001/1000\n100s quiet", 5, "expected nothing more"),
        ("1ms > 1:2001/1000", 4, "the time 1ms"),
    ] {
        let (at, seen) = fails_at(&format!("{start}{rest}"));
        assert_eq!((at, seen.contains(why)), (line, true), "{rest}: {seen}");
    }
}
