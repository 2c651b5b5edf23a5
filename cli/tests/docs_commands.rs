//! Every command in a block of the documents is one that its program accepts, names files that exist
//! or that the page has named before, and is run by a test, unless the page says why not:
//! `<!-- not run: REASON -->` before the block, which GitHub and the book do not show.

use uc_experiment::Experiment;

use crate::common::pages::{self, Command, commands, documents, read, root};
use crate::docs_run_by::RUN_BY;

fn all() -> impl Iterator<Item = Command> {
    documents().into_iter().flat_map(|page| commands(&page))
}

/// Returns the row of the test that runs a command, if one does.
fn test_of(command: &Command) -> Option<&'static (&'static str, &'static str, &'static str)> {
    let rows = RUN_BY
        .iter()
        .filter(|(pattern, ..)| command.matches(pattern));
    rows.max_by_key(|(pattern, ..)| pattern.split(' ').count())
}

#[test]
fn every_command_in_a_block_is_run_by_a_test_or_gives_the_reason_why_not() {
    let mut broken = Vec::new();
    let (mut run, mut marked) = (0, Vec::new());
    for command in all() {
        let Command { place, text, .. } = &command;
        match (&command.not_run, test_of(&command)) {
            _ if command.is_for_a_host() => run += 1,
            (_, Some((_, file, name))) => {
                run += 1;
                if !read(file).contains(name) {
                    broken.push(format!("{place}: {text}: {file} has no `{name}`"));
                }
            }
            (Some(reason), None) => {
                let block = (command.before.rfind("<!-- not run: "), reason.clone());
                marked.push((place.split(':').next().map(str::to_owned), block));
            }
            (None, None) => broken.push(format!(
                "{place}: no test runs `{text}`: add a row to RUN_BY, or <!-- not run: REASON -->"
            )),
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(
        run >= 100,
        "only {run} commands found: has their form changed?"
    );
    // a reason that no command needs is stale
    marked.dedup();
    let markers: usize = documents()
        .iter()
        .map(|page| read(page).matches("<!-- not run: ").count())
        .sum();
    assert_eq!(marked.len(), markers, "{marked:#?}");
}

#[test]
fn every_row_of_tests_is_of_a_command_in_the_documents() {
    let commands: Vec<Command> = all().collect();
    for row in RUN_BY {
        let is_used = |command: &Command| !command.is_for_a_host() && test_of(command) == Some(row);
        assert!(commands.iter().any(is_used), "{row:?}");
    }
}

/// Returns what is wrong with a command of a program of the repository.
fn refused(command: &Command) -> Option<String> {
    let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
    match words[0] {
        "uc" | "uc-bench" => crate::docs::refused(&words),
        "make" => {
            let folder = words.iter().position(|word| *word == "-C");
            let folder = folder.map_or("", |at| words[at + 1]);
            let makefile = format!("{folder}/Makefile");
            let makefile = read(makefile.trim_start_matches('/'));
            let target = words.last().copied().unwrap_or_default();
            let is_there = makefile
                .lines()
                .any(|line| line.starts_with(&format!("{target}:")));
            (!is_there).then(|| format!("no target `{target}`"))
        }
        "cargo" => {
            let test = words.iter().position(|word| *word == "--test")? + 1;
            let package = words.iter().position(|word| *word == "-p")? + 1;
            let name = words[package].trim_start_matches("uc-");
            let folders = ["cli", "bench", "base", "host", "research"].map(|wing| match wing {
                "cli" | "bench" if name == wing => wing.to_owned(),
                wing => format!("{wing}/{name}"),
            });
            let is_there = |folder: &String| {
                let folder = root().join(folder);
                let manifest =
                    std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
                let is_listed = !manifest.contains("autotests = false")
                    || manifest.contains(&format!("name = \"{}\"", words[test]));
                is_listed && folder.join(format!("tests/{}.rs", words[test])).exists()
            };
            let is_named = folders.iter().any(is_there);
            (!is_named).then(|| format!("no test `{}` of {}", words[test], words[package]))
        }
        script if script.starts_with("scripts/") => {
            let Ok(source) = std::fs::read_to_string(root().join(script)) else {
                return Some("no such script".to_owned());
            };
            let flags = words.iter().filter(|word| word.starts_with("--"));
            let mut unknown = flags.filter(|flag| !source.contains(**flag));
            unknown.next().map(|flag| format!("{script} has no {flag}"))
        }
        _ => None,
    }
}

#[test]
fn programs_of_the_repository_accept_every_command_in_a_block() {
    let refused: Vec<String> = all()
        .filter_map(|command| {
            refused(&command).map(|why| format!("{}: {}: {why}", command.place, command.text))
        })
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn blocks_without_a_language_contain_no_command() {
    let lost: Vec<String> = documents()
        .iter()
        .flat_map(|page| pages::blocks(page, ""))
        .filter(|block| block.lines().any(|line| line.starts_with("uc ")))
        .collect();
    assert!(lost.is_empty(), "```sh is missing: {lost:#?}");
}

/// Returns the paths that a command names, without options' names and what they set.
fn paths(command: &Command) -> Vec<String> {
    // a key file, or a record, is made by the command that names it
    let makes = |word: &String| ["--as", "--make-key"].contains(&word.as_str());
    let made = command.words.iter().position(makes);
    let made = made.map(|at| at + 1);
    let words = command.words.iter().enumerate().skip(1);
    let words = words.filter(|(at, _)| Some(*at) != made);
    let values = words.map(|(_, word)| {
        word.rsplit_once('=')
            .map_or(word.as_str(), |(_, value)| value)
    });
    let is_path = |word: &&str| {
        let is_file = word.ends_with(".toml") || word.contains('/');
        let first = word.chars().next().unwrap_or('-');
        is_file && (first.is_ascii_alphabetic() || "/.".contains(first)) && !word.contains("://")
    };
    // what is before a pattern or a backend, and without what follows a comma in an option's value
    let beginning = |word: &str| {
        word.split(['*', ',', '@'])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    values.filter(is_path).map(beginning).collect()
}

/// Returns whether a file exists: in the tree, on every host, or named before on the page, of which a
/// policy may also have the text. What commands make is in `out/`.
fn is_known(path: &str, before: &str) -> bool {
    const HOST: [&str; 4] = ["/dev/", "/proc/", "/run/", "/sys/"];
    const PACKAGE: &str = "/usr/share/doc/undercurrent/";
    const POLICY: &str = "/etc/undercurrent/undercurrent.toml";
    let path = path.trim_start_matches("./");
    let experiment = format!("experiments/{path}.toml");
    root().join(path).exists() && !path.starts_with('/')
        || path.starts_with("out/")
        || root().join(experiment).exists()
        || HOST.iter().any(|folder| path.starts_with(folder))
        || path.strip_prefix(PACKAGE).is_some_and(|name| {
            root().join("packaging").join(name).exists() || root().join("docs").join(name).exists()
        })
        || path == POLICY
        || path.ends_with(".toml") && before.contains("```toml")
        || before.contains(path)
}

#[test]
fn every_file_that_a_command_names_exists_or_is_named_before_on_its_page() {
    let ours = |command: &Command| {
        let program = &command.words[0];
        ["uc", "uc-bench", "make"].contains(&program.as_str()) || program.starts_with("scripts/")
    };
    let mut unknown = Vec::new();
    for command in all().filter(ours) {
        for path in paths(&command) {
            if !is_known(&path, &command.before) {
                unknown.push(format!("{}: {}: {path}", command.place, command.text));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn experiments_accept_the_keys_that_commands_set() {
    let mut count = 0;
    // an experiment with laws from outside stands on its page, and `write_a_law.rs` runs it
    let is_kept = |command: &Command| !command.words.iter().any(|word| word == "--laws");
    for command in all().filter(|command| command.matches("uc-bench run") && is_kept(command)) {
        let Command { place, words, .. } = &command;
        let mut experiment = Experiment::load(root().join(&words[2])).unwrap();
        for pair in words.windows(2).filter(|pair| pair[0] == "--set") {
            let set = experiment.apply_set(&pair[1]);
            set.unwrap_or_else(|error| panic!("{place}: {}: {error}", pair[1]));
            count += 1;
        }
        let cases = words.windows(2).filter(|pair| pair[0] == "--case");
        for case in cases.map(|pair| &pair[1]) {
            let is_there = experiment.cases.iter().any(|known| known.name == *case);
            assert!(is_there, "{place}: no case {case}");
        }
        uc_batch::keep_points(&mut experiment, &points(words))
            .unwrap_or_else(|error| panic!("{place}: {error}"));
        experiment.validate().unwrap();
    }
    assert!(count >= 2, "only {count} keys are set");
}

fn points(words: &[String]) -> Vec<String> {
    let pairs = words.windows(2).filter(|pair| pair[0] == "--point");
    pairs.map(|pair| pair[1].clone()).collect()
}
