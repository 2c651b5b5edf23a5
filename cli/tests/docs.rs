//! `uc` and `uc-bench` accept every command that the documents' sentences contain (`docs_commands.rs`: those in
//! blocks), and every link leads to a file and a heading.

use std::path::Path;

use clap::CommandFactory;
use uc_cli::Arguments;
use uc_experiment::Experiment;

use crate::common::pages::{documents, read, root};

/// Returns the commands of `uc` and `uc-bench` in code spans.
fn commands(text: &str) -> Vec<&str> {
    let spans = prose(text).flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_ours = |span: &&str| span.starts_with("uc ") || span.starts_with("uc-bench ");
    spans.filter(is_ours).collect()
}

/// Returns the documents without the changelog, which names what was.
fn current() -> Vec<String> {
    let mut documents = documents();
    documents.retain(|document| document != "CHANGELOG.md");
    documents
}

/// Returns the definition of a program's commands.
fn definition(program: &str) -> clap::Command {
    match program {
        "uc" => Arguments::command(),
        _ => uc_bench::Arguments::command(),
    }
}

/// Returns whether the words name a command, without arguments.
fn is_name(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let mut at = definition(words.next().unwrap());
    words.all(|word| {
        let found = at.find_subcommand(word).cloned();
        found
            .filter(|found| !found.is_hide_set())
            .map(|found| at = found)
            .is_some()
    })
}

/// Returns why `uc` or `uc-bench` refuses a command; documents name no hidden one.
pub fn refused(words: &[&str]) -> Option<String> {
    let mut program = definition(words[0]);
    let command = words.get(1).and_then(|word| program.find_subcommand(word));
    if command.is_some_and(clap::Command::is_hide_set) {
        return Some("it is hidden".to_owned());
    }
    let parsed = program.try_get_matches_from_mut(words);
    parsed.err().map(|error| error.to_string())
}

#[test]
fn programs_accept_every_command_in_the_documents_sentences() {
    let mut count = 0;
    for document in current() {
        let text = read(&document);
        for command in commands(&text) {
            let words = command
                .split_whitespace()
                .map(|word| word.trim_matches('\''));
            if !is_name(command) {
                let why = refused(&words.clone().collect::<Vec<_>>());
                assert_eq!(why, None, "{document}: {command}");
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
    for document in current() {
        let text = read(&document);
        for word in text.split(|c: char| c.is_whitespace() || "`|()".contains(c)) {
            let is_file = word.starts_with("experiments/") && word.ends_with(".toml");
            if is_file && !word.contains("PAPER") {
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

/// Returns the lines of a document that are outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for heading in prose(text).filter(|line| line.starts_with('#')) {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let twins = found.iter().filter(|known| {
            let number = known
                .strip_prefix(&anchor[..])
                .and_then(|rest| rest.strip_prefix('-'));
            **known == anchor || number.is_some_and(|number| number.parse::<u32>().is_ok())
        });
        let twins = twins.count();
        found.push(if twins == 0 {
            anchor
        } else {
            format!("{anchor}-{twins}")
        });
    }
    found
}

/// Returns where the links of a document lead: paths with or without an anchor, no addresses.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in prose(text) {
        // links are outside of code spans
        for span in line.split('`').step_by(2) {
            let targets = span
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split_once(')'));
            found.extend(targets.map(|(target, _)| target));
        }
    }
    found.retain(|target| !target.contains("://") && !target.starts_with("mailto:"));
    found
}

#[test]
fn every_link_of_the_documents_leads_to_a_file_and_a_heading() {
    let mut count = 0;
    let mut broken = Vec::new();
    for document in documents() {
        let text = read(&document);
        let folder = Path::new(&document).parent().unwrap();
        for link in links(&text) {
            count += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => root().join(&document),
                _ => root().join(folder).join(path),
            };
            let is_there = match anchor {
                "" => target.exists(),
                _ => std::fs::read_to_string(&target)
                    .is_ok_and(|text| anchors(&text).iter().any(|known| known == anchor)),
            };
            if !is_there {
                broken.push(format!("{document}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(
        count >= 100,
        "only {count} links found: has their form changed?"
    );
}

#[test]
fn every_link_of_the_documents_leads_to_a_page_or_to_what_is_copied_beside_the_book() {
    let script = read("scripts/site");
    let copied = script
        .lines()
        .find_map(|line| line.strip_prefix("cp --parents -r ./*.md "));
    let copied: Vec<&str> = copied.expect("a line that copies").split(' ').collect();
    for document in documents() {
        let text = read(&document);
        let folder = Path::new(&document).parent().unwrap();
        for link in links(&text) {
            let path = link.split('#').next().unwrap_or_default();
            let target = root().join(folder).join(path).canonicalize().unwrap();
            let target = target.strip_prefix(root().canonicalize().unwrap()).unwrap();
            let first = target.iter().next().and_then(|name| name.to_str());
            let is_there = first.is_some_and(|name| copied.contains(&name));
            assert!(
                is_there || path.ends_with(".md") || path.is_empty(),
                "{document}: {link}: scripts/site does not copy it"
            );
        }
    }
}

#[test]
fn every_page_is_in_the_book_once_and_every_entry_of_the_book_is_a_page() {
    let summary = read("docs/book/SUMMARY.md");
    // an entry without a page is a title
    let mut entries: Vec<&str> = links(&summary);
    entries.retain(|entry| !entry.is_empty());
    entries.sort_unstable();
    assert_eq!(entries, documents());
    let doors = ["operators", "researchers", "authors"];
    for door in doors.map(|door| format!("docs/{door}.md")) {
        let rest = &summary[summary.find(&door).expect("the door is an entry")..];
        let chapter = rest.split("\n# ").next().unwrap_or(rest);
        let page = read(&door);
        for entry in links(chapter)
            .into_iter()
            .filter(|entry| *entry != door && !entry.is_empty())
        {
            let name = entry.strip_prefix("docs/").unwrap_or(entry);
            assert!(page.contains(name), "{door} does not lead to {entry}");
        }
    }
}

/// Returns the names in code spans of a table's cell, each with the path before it. A path has a slash.
fn named(cell: &str) -> Vec<(&str, Option<&str>)> {
    let mut found: Vec<(&str, Option<&str>)> = Vec::new();
    let mut path = None;
    for span in cell.split('`').skip(1).step_by(2) {
        if span.contains('/') {
            path = Some(span);
            found.push((span, None));
        } else if let Some(path) = path {
            found.push((path, Some(span)));
        }
    }
    found
}

/// Returns whether a source defines a function: in Rust by `fn`, in C at the beginning of a line.
fn defines(path: &str, name: &str) -> bool {
    let text = read(path);
    if path.ends_with(".rs") {
        return text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name}<"));
    }
    let begins = |line: &&str| line.starts_with(|c: char| c.is_ascii_alphabetic());
    text.lines()
        .filter(begins)
        .any(|line| line.contains(&format!("{name}(")) && !line.ends_with(';'))
}

#[test]
fn every_file_and_function_in_the_tables_of_formulas_exists() {
    let page = read("docs/formulas.md");
    let (mut functions, mut tests, mut missing) = (0, 0, Vec::new());
    for row in prose(&page).filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [formula, code, test] = cells[..] else {
            panic!("three cells: {row}");
        };
        if formula.trim() == "paper" {
            continue;
        }
        let of_tests = named(test);
        assert!(
            of_tests.iter().any(|(_, name)| name.is_some()),
            "no test: {row}"
        );
        functions += named(code)
            .iter()
            .filter(|(_, name)| name.is_some())
            .count();
        tests += of_tests.len();
        for (path, name) in named(code).into_iter().chain(of_tests) {
            let is_there = match name {
                None => root().join(path).exists(),
                Some(name) => root().join(path).is_file() && defines(path, name),
            };
            if !is_there {
                missing.push(format!("{formula}: {path} {}", name.unwrap_or_default()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(
        functions >= 40 && tests >= 60,
        "{functions} functions, {tests} tests: has the form changed?"
    );
}
