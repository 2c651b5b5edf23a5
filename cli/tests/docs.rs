//! `uc` accepts every command in the documents.

use std::path::{Path, PathBuf};

use clap::Parser;
use uc_cli::Arguments;
use uc_experiment::Experiment;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the commands of `uc` in a document: lines of `sh` blocks, and code spans.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            let command = line.split(" # ").next().unwrap_or(line).trim();
            found.extend(command.starts_with("uc ").then(|| command.to_owned()));
        } else {
            let spans = line.split('`').skip(1).step_by(2);
            found.extend(
                spans
                    .filter(|span| span.starts_with("uc "))
                    .map(str::to_owned),
            );
        }
    }
    found
}

const DOCUMENTS: [&str; 19] = [
    "README.md",
    "ARCHITECTURE.md",
    "docs/vcc.md",
    "docs/acdc.md",
    "docs/delay.md",
    "docs/ctrltcp.md",
    "docs/hwatch.md",
    "docs/pvtcp.md",
    "docs/experiments.md",
    "docs/simulator.md",
    "docs/vm.md",
    "docs/seeing.md",
    "docs/laws.md",
    "docs/policy.md",
    "docs/agent.md",
    "docs/install.md",
    "docs/theorems.md",
    "docs/results.md",
    "docs/write-a-law.md",
];

#[test]
fn uc_accepts_every_command_in_the_documents() {
    let mut count = 0;
    for document in DOCUMENTS {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        for command in commands(&text) {
            let words = command
                .split_whitespace()
                .map(|word| word.trim_matches('\''));
            // A bare verb is a name, not a command line.
            if command.split_whitespace().count() > 2 || command == "uc flows" {
                let parsed = Arguments::try_parse_from(words.clone());
                assert!(
                    parsed.is_ok(),
                    "{document}: {command}: {}",
                    parsed.err().unwrap()
                );
                count += 1;
            }
            // These two name a policy of the reader's own host.
            if command.starts_with("uc check ") || command.starts_with("uc agent ") {
                continue;
            }
            for file in words.filter(|word| word.ends_with(".toml")) {
                let experiment = Experiment::load(root().join(file))
                    .unwrap_or_else(|error| panic!("{document}: {command}: {error}"));
                experiment.validate().unwrap();
            }
        }
    }
    assert!(
        count >= 8,
        "only {count} commands found: has the form of the documents changed?"
    );
}

#[test]
fn every_experiment_named_in_the_documents_exists() {
    for document in DOCUMENTS {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        for word in text.split(|c: char| c.is_whitespace() || "`|()".contains(c)) {
            if word.starts_with("experiments/") && word.ends_with(".toml") {
                assert!(root().join(word).exists(), "{document} names {word}");
            }
        }
    }
}

#[test]
fn demo_runs_a_valid_experiment_of_two_cases() {
    let demo = Experiment::load(root().join("experiments/demo.toml")).unwrap();
    demo.validate().unwrap();
    assert_eq!(demo.cases.len(), 2);
    assert_eq!(demo.repeat, 1);
}
