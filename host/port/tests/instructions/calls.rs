//! Instructions that the core executes, natively compiled: the mean of each counted function of `core.c`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::record::{Counts, Figures, compiler, version};

pub const SECTION: &str = "calls";

/// Prefix of counted functions.
const COUNTED: &str = "count_";

/// Returns whether Valgrind is there.
pub fn need() -> Result<(), String> {
    version("valgrind").map(drop)
}

/// Counts in a program that is built in `folder`. `planted`: instructions to add to each call, by name.
pub fn count(folder: &Path, planted: &Figures) -> Counts {
    let program = folder.join("core");
    let mut clang = Command::new("clang");
    clang.args([
        "-O2",
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-function",
    ]);
    if !planted.is_empty() {
        let line = |(name, count): (&String, &f64)| format!("#define PLANTED_{name} {count}\n");
        let text: String = planted.iter().map(line).collect();
        std::fs::write(folder.join("planted.h"), text).unwrap();
        clang.arg("-DPLANTED").arg("-I").arg(folder);
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/instructions/core.c");
    clang.arg("-I").arg(super::root().join("core"));
    run(clang.arg(source).arg("-o").arg(&program));
    let profile = folder.join("callgrind.out");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind"]);
    valgrind.arg(format!("--toggle-collect={COUNTED}*"));
    valgrind.arg(format!("--callgrind-out-file={}", profile.display()));
    run(valgrind.arg(&program));
    Counts {
        section: SECTION,
        made_by: compiler(),
        figures: means(&std::fs::read_to_string(profile).unwrap()),
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {messages}");
}

/// Returns the mean cost of a call of each counted function, by Callgrind's profile: `fn=` begins a
/// function's costs, `cfn=` and `calls=` precede the cost of calls from it. A name is given once, later
/// its number alone.
fn means(profile: &str) -> Figures {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let (mut costs, mut calls) = (BTreeMap::new(), BTreeMap::new());
    let (mut function, mut callee) = ("", "");
    for line in profile.lines() {
        if let Some((key, value)) = line.split_once('=') {
            match key {
                "fn" => function = named(&mut names, value),
                "cfn" => callee = named(&mut names, value),
                "calls" => *calls.entry(callee).or_insert(0.0) += number(value, 0),
                _ => {}
            }
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            *costs.entry(function).or_insert(0.0) += number(line, 1);
        }
    }
    let counted = costs.into_iter().filter_map(|(name, cost): (&str, f64)| {
        let mean = cost / calls.get(name)?;
        Some((
            name.strip_prefix(COUNTED)?.to_owned(),
            (10.0 * mean).round() / 10.0,
        ))
    });
    counted.collect()
}

/// Returns the name in `(NUMBER) NAME`, or the one that this number was given before.
fn named<'a>(names: &mut BTreeMap<&'a str, &'a str>, value: &'a str) -> &'a str {
    match value.split_once(' ') {
        Some((number, name)) => {
            names.insert(number, name);
            name
        }
        None => names.get(value).copied().unwrap_or_default(),
    }
}

/// Returns a number of a line, 0 for the first.
fn number(line: &str, index: usize) -> f64 {
    line.split(' ').nth(index).unwrap().parse().unwrap()
}
