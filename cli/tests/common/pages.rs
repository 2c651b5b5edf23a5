//! The documents of the repository, and the commands in their blocks.

#![allow(dead_code, reason = "every test program uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the documents of the root and of docs/, and the page of all results, by their paths from
/// the root, sorted.
pub fn documents() -> Vec<String> {
    let mut found = vec!["results/README.md".to_owned()];
    for folder in ["", "docs/"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                found.push(format!("{folder}{name}"));
            }
        }
    }
    found.sort();
    found
}

/// Returns the text of a file, given by its path from the root.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A command in a block of a page, without `sudo`, variables and comment.
pub struct Command {
    /// The page's path from the root, and the command's line there.
    pub place: String,
    /// The words of the command, without quotes.
    pub words: Vec<String>,
    /// The command as a shell reads it.
    pub text: String,
    /// What precedes the command on its page.
    pub before: String,
    /// Why no test runs the block, if the page gives a reason.
    pub not_run: Option<String>,
}

impl Command {
    /// Returns whether the pattern's words occur in the command in this order, the first one first.
    pub fn matches(&self, pattern: &str) -> bool {
        let mut pattern = pattern.split(' ').peekable();
        if pattern.peek() != self.words.first().map(String::as_str).as_ref() {
            return false;
        }
        let mut words = self.words.iter();
        pattern.all(|wanted| words.any(|word| word == wanted))
    }

    /// Returns whether the command acts on a host's ports: `live_docs.rs` runs it.
    pub fn is_for_a_host(&self) -> bool {
        const VERBS: [&str; 7] = [
            "agent", "attach", "check", "detach", "explain", "flows", "status",
        ];
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        match words[..] {
            ["uc", "watch", ..] => words.contains(&"--make-key"),
            // laws from outside the tree are built first: `write_a_law.rs` does
            ["uc", verb, ..] => VERBS.contains(&verb) && !words.contains(&"--laws"),
            _ => false,
        }
    }
}

/// Returns the words of a command line, without quotes, `sudo` and variables of its environment.
fn words(text: &str) -> Vec<String> {
    let is_variable = |word: &&str| {
        let name = word.split_once('=').map_or("", |(name, _)| name);
        !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    let mut rest = text
        .split_whitespace()
        .skip_while(|word| ["sudo", "-E"].contains(word) || is_variable(word));
    let first = rest.next().map(|word| match word {
        "target/release/uc" => "uc",
        "target/release/uc-bench" => "uc-bench",
        "venv/bin/pip" => "pip",
        word => word,
    });
    let words = first.into_iter().chain(rest);
    words
        .map(|word| word.trim_matches('\'').to_owned())
        .collect()
}

const MARKER: &str = "<!-- not run: ";

/// Returns the commands in the blocks `sh` and `console` of a page; in the latter a prompt precedes
/// them.
pub fn commands(page: &str) -> Vec<Command> {
    let text = read(page);
    let mut found = Vec::new();
    let (mut language, mut not_run, mut before) = (None, None, String::new());
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let shown = line.trim_start();
        if let Some(info) = shown.strip_prefix("```") {
            if language.take().is_none() {
                language = Some(info.to_owned());
            } else {
                not_run = None;
            }
        } else if let Some(language) = &language {
            let command = match language.as_str() {
                "sh" if !shown.starts_with('#') => Some(shown),
                "console" => shown
                    .strip_prefix("# ")
                    .or_else(|| shown.strip_prefix("$ ")),
                _ => None,
            };
            let mut command = command.unwrap_or_default().to_owned();
            while command.ends_with('\\') {
                command.pop();
                command += lines.next().map_or("", |(_, line)| line.trim_start());
            }
            let command = command.split(" # ").next().unwrap_or_default();
            for text in command.split("&&").map(str::trim) {
                let words = words(text);
                if !words.is_empty() {
                    found.push(Command {
                        place: format!("{page}:{}", at + 1),
                        words,
                        text: text.to_owned(),
                        before: before.clone(),
                        not_run: not_run.clone(),
                    });
                }
            }
        } else if let Some(reason) = shown.strip_prefix(MARKER) {
            not_run = reason.strip_suffix(" -->").map(str::to_owned);
            assert!(not_run.is_some(), "{page}:{}: no end of the reason", at + 1);
        } else if !shown.is_empty() {
            not_run = None;
        }
        before += line;
        before.push('\n');
    }
    found
}

/// Returns the text of the blocks of a language on a page.
pub fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = read(page);
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            let block: Vec<&str> = lines
                .by_ref()
                .take_while(|line| !line.trim_start().starts_with("```"))
                .collect();
            if info == language {
                found.push(block.join("\n") + "\n");
            }
        }
    }
    found
}
