//! The places of values in their file, and the places of a parser's messages.

use std::ops::Range;

use toml::de::DeTable;
use uc_words::place::{Document, line_and_column};

use crate::error::Error;
use crate::wording::tidy;

/// The text that an experiment was read from, and the keys that were changed since.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Origin {
    name: String,
    text: String,
    /// Path of each changed key, and the change.
    pub(crate) changed: Vec<(String, Changed)>,
}

/// A change of a key after the file was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Changed {
    /// Override by `--set`, with its text.
    Set(String),
    /// Value of a sweep, with the value's own path.
    Sweep(String),
}

impl Origin {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            changed: Vec::new(),
        }
    }

    /// Returns the text that was read.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns `file:line:column` of the value at the dotted path `key`, or of the nearest table
    /// above it; for a changed key, the option or the sweep's key that changed it.
    pub(crate) fn place(&self, key: &str) -> String {
        let covers = |path: &str| key == path || key.starts_with(&format!("{path}."));
        let changed = self.changed.iter().rev().find(|(path, _)| covers(path));
        let key = match changed {
            Some((_, Changed::Set(text))) => return format!("--set {text}"),
            Some((_, Changed::Sweep(path))) => path,
            None => key,
        };
        let table = DeTable::parse(&self.text).ok();
        let span =
            table.and_then(|table| Document::new(&self.name, &self.text, table).nearest(key));
        match span {
            Some(span) => at(&self.name, &self.text, span.start),
            None => self.name.clone(),
        }
    }
}

/// Converts a parser's error into one line with file, line and column.
pub(crate) fn parse_error(name: &str, text: &str, error: &toml::de::Error) -> Error {
    let message = error.message();
    let span = error.span().unwrap_or(0..text.len());
    // Inside a table that carries its kind, serde loses the place of the value. The place is found
    // again by the spelling in the message, unless the message is about a missing key.
    let named = if message.starts_with("missing") {
        None
    } else {
        quoted(message)
    };
    let from = named.and_then(|word| find_word(text, span.clone(), word));
    Error::Parse {
        place: at(name, text, from.unwrap_or(span.start)),
        message: tidy(message),
    }
}

/// Returns the first word of `message` in backquotes, or else in quotes.
fn quoted(message: &str) -> Option<&str> {
    message
        .split('`')
        .nth(1)
        .or_else(|| message.split('"').nth(1))
        .filter(|word| !word.is_empty())
}

/// Returns the offset of `word` as a whole word, at or after `span.start` and before the next
/// header.
fn find_word(text: &str, span: Range<usize>, word: &str) -> Option<usize> {
    let rest = text.get(span.start..)?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
    // A header's own span ends before its keys, so the search goes on to the next header.
    let body = rest.find('\n').map_or(rest.len(), |line| line + 1);
    let end = rest[body..]
        .find("\n[")
        .map_or(rest.len(), |header| body + header);
    let found = rest[..end].match_indices(word).find(|(i, _)| {
        let before = rest[..*i].chars().next_back();
        let after = rest[i + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    });
    // A string begins with its quote.
    let quote = |i: usize| usize::from(rest[..i].ends_with('"'));
    found.map(|(i, _)| span.start + i - quote(i))
}

/// Formats `name:line:column` of a byte offset.
fn at(name: &str, text: &str, offset: usize) -> String {
    let (line, column) = line_and_column(text, offset);
    format!("{name}:{line}:{column}")
}
