//! Where a key stands in the text.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A text that is TOML.
pub(crate) struct Document<'a> {
    pub(crate) name: &'a str,
    text: &'a str,
    pub(crate) table: Spanned<DeTable<'a>>,
}

impl<'a> Document<'a> {
    pub(crate) fn new(name: &'a str, text: &'a str, table: Spanned<DeTable<'a>>) -> Document<'a> {
        Document { name, text, table }
    }

    /// From 1, of a byte's offset; columns in characters.
    pub(crate) fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let tail = before.rsplit('\n').next().unwrap_or(before);
        (line, tail.chars().count() + 1)
    }

    /// Where the value of a key begins, or that of the nearest table above it that there is.
    pub(crate) fn offset(&self, key: &str) -> usize {
        self.walk(key).1.map_or(0, |span| span.start)
    }

    /// Where a key's value stands; nowhere if it isn't given.
    pub(crate) fn span(&self, key: &str) -> Option<Range<usize>> {
        let (whole, span) = self.walk(key);
        span.filter(|_| whole)
    }

    /// Whether the whole path is there, and the last span on it.
    fn walk(&self, key: &str) -> (bool, Option<Range<usize>>) {
        let mut at = Node::Table(self.table.get_ref());
        let mut span = None;
        for part in key.split('.') {
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
