//! Where a value stands in a text that is TOML.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A text and the tables that were read from it.
#[derive(Debug)]
pub struct Document<'a> {
    /// The file's name, or how else the text is called.
    pub name: &'a str,
    text: &'a str,
    /// Offsets at which lines begin, in order; the first is 0.
    lines: Vec<usize>,
    /// The document's text, parsed as a TOML table with positions.
    pub table: Spanned<DeTable<'a>>,
}

impl<'a> Document<'a> {
    /// Keeps a document's text together with the table that was read from it; `name` is for errors.
    pub fn new(name: &'a str, text: &'a str, table: Spanned<DeTable<'a>>) -> Document<'a> {
        let behind = text.match_indices('\n').map(|(at, _)| at + 1);
        Document {
            name,
            text,
            lines: std::iter::once(0).chain(behind).collect(),
            table,
        }
    }

    /// Returns the line and the column of a byte's offset, as [`line_and_column`].
    pub fn line_and_column(&self, offset: usize) -> (usize, usize) {
        if !self.text.is_char_boundary(offset) {
            return line_and_column(self.text, offset);
        }
        let line = self.lines.partition_point(|begin| *begin <= offset);
        let begin = line.checked_sub(1).and_then(|at| self.lines.get(at));
        let before = self.text.get(*begin.unwrap_or(&0)..offset);
        (line, before.unwrap_or_default().chars().count() + 1)
    }

    /// Returns the offset in bytes at which the value of a key begins, or of the nearest table that contains the key; 0
    /// if there is none.
    pub fn offset(&self, key: &str) -> usize {
        self.nearest(key).map_or(0, |span| span.start)
    }

    /// Returns the range in bytes of a key's value; `None` if the key isn't given.
    pub fn span(&self, key: &str) -> Option<Range<usize>> {
        let (whole, span) = self.walk(key);
        span.filter(|_| whole)
    }

    /// Returns the range in bytes of a key's value, or of the nearest table that contains it; `None` if not
    /// even the first part of the key's path is given.
    pub fn nearest(&self, key: &str) -> Option<Range<usize>> {
        self.walk(key).1
    }

    /// Follows the path of a key. Returns whether all of it exists, and the last range in bytes on it.
    fn walk(&self, key: &str) -> (bool, Option<Range<usize>>) {
        let mut at = Node::Table(self.table.get_ref());
        let mut span = None;
        for part in parts(key) {
            let next = match at {
                Node::Table(table) => table.get(part),
                Node::Value(DeValue::Table(table)) => table.get(part),
                Node::Value(DeValue::Array(list)) => {
                    part.parse::<usize>().ok().and_then(|i| list.get(i))
                }
                Node::Value(_) => None,
            };
            let Some(next) = next else {
                return (false, span);
            };
            span = Some(next.span());
            at = Node::Value(next.get_ref());
        }
        (true, span)
    }
}

enum Node<'a> {
    Table(&'a DeTable<'a>),
    Value(&'a DeValue<'a>),
}

/// Returns the line and the column of a byte's offset in `text`: both from 1, columns in characters.
/// An offset beyond the text, or inside a character, stands for the text's end.
pub fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let tail = before.rsplit('\n').next().unwrap_or(before);
    (line, tail.chars().count() + 1)
}

/// Splits a dotted path into its parts; members of lists are numbers, and dots between quotes divide
/// nothing: `sweep.rate.set."network.rate"` has four.
pub fn parts(key: &str) -> Vec<&str> {
    let mut quoted = false;
    let divides = |c: char| {
        quoted ^= c == '"';
        c == '.' && !quoted
    };
    key.split(divides)
        .map(|part| part.trim_matches('"'))
        .collect()
}

/// Writes one part of a path as [`parts`] reads it.
pub fn quote(part: &str) -> String {
    if part.contains('.') {
        format!("\"{part}\"")
    } else {
        part.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_tables_lists_and_quotes() {
        let text = "top = 1\n[[rule]]\n[[rule]]\nodd = { \"ä.b\" = [7, 8] }\n";
        let table = DeTable::parse(text).expect("TOML");
        let document = Document::new("t.toml", text, table);
        for offset in 0..=text.len() + 1 {
            let found = document.line_and_column(offset);
            assert_eq!(found, line_and_column(text, offset), "{offset}");
        }
        let place = |key| document.line_and_column(document.offset(key));
        assert_eq!(place("top"), (1, 7));
        assert_eq!(place("rule.1.odd.\"ä.b\".1"), (4, 21));
        assert_eq!(place("rule.1.absent.more"), (3, 1));
        assert_eq!(place("absent"), (1, 1));
        assert_eq!(document.span("rule.1.absent"), None);
        assert_eq!(document.nearest("absent"), None);
    }

    #[test]
    fn quoted_parts_are_read_back() {
        for part in ["network", "network.rate"] {
            assert_eq!(parts(&format!("set.{}.8", quote(part))), ["set", part, "8"]);
        }
    }
}
