//! What `docs/write-a-law.md` has for its tests.

use std::fs;

pub use super::pages::root as repository;

/// Returns the page's code blocks in order: the language, the file that the sentence before the block names (`None`: no
/// file), and the text.
pub fn blocks() -> Vec<(String, Option<String>, String)> {
    let page = fs::read_to_string(repository().join("docs/write-a-law.md")).expect("the page");
    let mut blocks = Vec::new();
    let mut file = None;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push((language.to_owned(), file.take(), text.join("\n") + "\n"));
        } else if let Some(begin) = line.strip_suffix("`:") {
            file = begin.rsplit('`').next().map(str::to_owned);
        }
    }
    blocks
}

/// Writes a law's sources into a folder named `abe`, each changed by `change`, and returns the folder around it.
pub fn written(change: impl Fn(String) -> String) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    for (_, file, text) in blocks() {
        if let Some(file) = file.filter(|file| file.starts_with("abe/")) {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("room for a folder");
            fs::write(path, change(text)).expect("room for a file");
        }
    }
    root
}
