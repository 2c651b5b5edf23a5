//! Reading of a table so that every fault in it is found: serde stops at the first, so that key is
//! removed and the rest is read again.

use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{self, Visitor};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use uc_words::wording::{suggest, tidy};

use crate::fault::Faults;

/// Reads `table`, whose path is `path`. Wrong keys become faults, and count as absent.
pub(crate) fn read_table<T>(table: &DeTable<'_>, path: &str, faults: &mut Faults<'_>) -> T
where
    T: for<'de> Deserialize<'de> + Default,
{
    let mut rest = table.clone();
    // Each iteration removes a key.
    loop {
        // A fault of the table as a whole has no place in the text.
        let nowhere = usize::MAX..usize::MAX;
        let value = Spanned::new(nowhere, DeValue::Table(rest.clone()));
        let error = match T::deserialize(ValueDeserializer::from(value)) {
            Ok(read) => return read,
            Err(error) => error,
        };
        if faults.is_full() {
            faults.add_unsaid();
            return T::default();
        }
        let message = tidy(error.message());
        let Some((key, offset)) = error.span().and_then(|span| take_out(&mut rest, &span)) else {
            faults.add(path, message);
            return T::default();
        };
        let key = join(path, &key);
        faults.add_at(offset, &key, message);
    }
}

/// Adds faults for unknown keys, and returns the table without them.
pub(crate) fn known_only<'i>(
    table: &DeTable<'i>,
    path: &str,
    known: &[&str],
    faults: &mut Faults<'_>,
) -> DeTable<'i> {
    let mut rest = table.clone();
    for key in table.keys() {
        let name: &str = key.get_ref();
        if known.contains(&name) {
            continue;
        }
        rest.remove(name);
        if faults.is_full() {
            faults.add_unsaid();
            continue;
        }
        let message = format!("unknown key `{name}`; {}", suggest(name, known));
        faults.add_at(key.span().start, &join(path, name), message);
    }
    rest
}

/// Splits a table into the keys that are in `first`, and the others.
pub(crate) fn split<'i>(table: DeTable<'i>, first: &[&str]) -> (DeTable<'i>, DeTable<'i>) {
    table
        .into_iter()
        .partition(|(key, _)| first.contains(&&**key.get_ref()))
}

/// Returns a path with one more part.
pub(crate) fn join(path: &str, key: &str) -> String {
    match path.is_empty() {
        true => key.to_owned(),
        false => format!("{path}.{key}"),
    }
}

/// Removes the innermost key that contains `span`, itself or in its value. Returns the key's path, and the offset of
/// the span in the text; `None` if no key contains the span.
fn take_out(table: &mut DeTable<'_>, span: &Range<usize>) -> Option<(String, usize)> {
    let holds = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
    let names: Vec<String> = table.keys().map(|key| key.get_ref().to_string()).collect();
    for name in names {
        if let Some(DeValue::Table(inner)) = table.get_mut(&*name).map(Spanned::get_mut)
            && let Some((path, offset)) = take_out(inner, span)
        {
            return Some((join(&name, &path), offset));
        }
        let (key, value) = table.get_key_value(&*name)?;
        if holds(key.span()) || holds(value.span()) {
            table.remove(&*name);
            return Some((name, span.start));
        }
    }
    None
}

/// Returns the keys of a structure, as its `Deserialize` names them.
pub(crate) fn keys_of<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    match T::deserialize(Asks) {
        Err(Answer(keys)) => keys,
        Ok(_) => &[],
    }
}

/// A deserializer that answers every request with the keys that the structure named.
struct Asks;

#[derive(Debug)]
struct Answer(&'static [&'static str]);

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl std::error::Error for Answer {}

impl de::Error for Answer {
    fn custom<T: fmt::Display>(_: T) -> Answer {
        Answer(&[])
    }
}

impl<'de> de::Deserializer<'de> for Asks {
    type Error = Answer;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Answer> {
        Err(Answer(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        keys: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Answer> {
        Err(Answer(keys))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
