//! Files that an experiment names, such as other simulators' lists of flows: their content is read into the
//! experiment's text.
//!
//! The hash of the setup and other machines, which get only the text, thus get the content, too. Each value stays on
//! its line, so the places of errors stay right.

mod flows;
mod sizes;

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use uc_words::place::{line_and_column, parts};

use crate::error::Error;
use crate::units::Bytes;

/// Reads the experiment file at `path`. Each `{ file = "NAME" }` of a key `sizes` or `list` is replaced by the content
/// of that file; NAME is relative to the experiment's folder.
///
/// # Errors
/// [`Error::Read`] for the experiment's file; [`Error::Parse`] at the place that names a file, or at the
/// line of that file that can't be read.
pub fn read(path: &Path) -> Result<String, Error> {
    let read = std::fs::read_to_string(path);
    let mut text = read.map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    let mut found = Vec::new();
    // A text that is no TOML is refused by its parser.
    if let Ok(table) = DeTable::parse(&text) {
        for (key, value) in table.get_ref().iter() {
            find(path, &text, key.get_ref(), value, &mut found)?;
        }
    }
    found.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    for (span, content) in found {
        text.replace_range(span, &content);
    }
    Ok(text)
}

/// Appends to `found` the span and the content of each named file in the value of `key`.
fn find(
    path: &Path,
    text: &str,
    key: &str,
    value: &Spanned<DeValue>,
    found: &mut Vec<(Range<usize>, String)>,
) -> Result<(), Error> {
    match value.get_ref() {
        DeValue::Table(table) => {
            let key = parts(key).pop().unwrap_or_default();
            if ["sizes", "list"].contains(&key) && table.contains_key("file") {
                let named = Named {
                    path,
                    text,
                    key,
                    value,
                    table,
                };
                found.push((value.span(), named.content()?));
                return Ok(());
            }
            table
                .iter()
                .try_for_each(|(key, value)| find(path, text, key.get_ref(), value, found))
        }
        // A sweep lists the values of a key.
        DeValue::Array(list) => list
            .iter()
            .try_for_each(|value| find(path, text, key, value, found)),
        _ => Ok(()),
    }
}

/// A table that names a file, and the experiment that it is part of.
struct Named<'a> {
    path: &'a Path,
    text: &'a str,
    /// `sizes` or `list`.
    key: &'a str,
    value: &'a Spanned<DeValue<'a>>,
    table: &'a DeTable<'a>,
}

impl Named<'_> {
    /// Returns the content of the named file as a value of TOML.
    fn content(&self) -> Result<String, Error> {
        let known: &[&str] = match self.key {
            "sizes" => &["file", "unit"],
            _ => &["file"],
        };
        let mut keys = self.table.keys().map(|key| key.get_ref().as_ref());
        if let Some(key) = keys.find(|key| !known.contains(key)) {
            let known = known.join(", ");
            return Err(self.error(format!("unknown `{key}`; known here: {known}")));
        }
        if !self.text[self.value.span()].starts_with('{') {
            let key = self.key;
            return Err(self.error(format!("write it in braces: {key} = {{ file = \"NAME\" }}")));
        }
        let name = self.string("file")?.unwrap_or_default();
        let unit: Bytes = match self.string("unit")? {
            None => Bytes(1),
            Some(unit) => unit
                .parse()
                .map_err(|error| self.error(format!("unit: {error}")))?,
        };
        let file = self.path.with_file_name(name);
        let text = std::fs::read_to_string(&file).map_err(|error| {
            let file = file.display();
            self.error(format!("could not read {file}: {error}; name a file by its path from the experiment's folder"))
        })?;
        let content = match self.key {
            "sizes" => sizes::points(&text, unit),
            _ => flows::flows(&text),
        };
        content.map_err(|(line, message)| Error::Parse {
            place: format!("{}:{line}", file.display()),
            message,
        })
    }

    fn string(&self, key: &str) -> Result<Option<&str>, Error> {
        match self.table.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::String(text)) => Ok(Some(text.as_ref())),
            Some(_) => Err(self.error(format!("`{key}` is not a text; put it in quotes"))),
        }
    }

    fn error(&self, message: String) -> Error {
        let (line, column) = line_and_column(self.text, self.value.span().start);
        Error::Parse {
            place: format!("{}:{line}:{column}", self.path.display()),
            message,
        }
    }
}
