//! What an operator chose of a table of the core's: parameters of a law, settings of a start. The
//! rows ([`Row`]) say which keys there are, how each is written and what it may be.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;

use uc_core::parameter::{Kind, Row};
use uc_words::{BitsPerSec, Bytes, Nanos};

/// Errors in the keys of one table: the name of each key, and what is wrong with its value.
pub type Faults = Vec<(&'static str, String)>;

/// A struct of the core whose fields an operator sets through the rows of a table.
pub trait Table: Sized + 'static {
    /// Name of the table in the JSON Schema of files.
    const NAME: &'static str;
    /// Description of the table in the JSON Schema of files.
    const WHAT: &'static str;

    /// Returns the rows, in the order of the table.
    fn rows() -> &'static [Row<Self>];

    /// Returns the keys of the rows, in the order of the rows.
    fn keys() -> &'static [&'static str];

    /// Returns the row of a key; `None` if the table has no such key.
    fn row(key: &str) -> Option<&'static Row<Self>> {
        Self::rows().iter().find(|row| row.key == key)
    }
}

/// A value as an operator writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A fraction from 0 to 1.
    Fraction(f64),
    /// A whole number, also of segments.
    Number(u64),
    /// A word, by its index among the words of its row.
    Word(u64),
    /// A switch: true or false.
    Flag(bool),
    /// A duration, in nanoseconds.
    Time(Nanos),
    /// A size, in bytes.
    Size(Bytes),
    /// A rate, in bits per second.
    Rate(BitsPerSec),
}

/// The largest number of a field of 32 bits. A limit of this size states only the width of the field.
const WIDEST: u64 = u32::MAX as u64;

impl Value {
    /// Returns the value that a number in the core's field means.
    pub fn of_field<Of>(row: &Row<Of>, number: u64) -> Value {
        match row.kind {
            Kind::Fraction => Value::Fraction(number as f64 / 128.0),
            Kind::Number | Kind::Segments => Value::Number(number),
            Kind::Word => Value::Word(number),
            Kind::Flag => Value::Flag(number != 0),
            Kind::Microseconds => Value::Time(Nanos(number.saturating_mul(1_000))),
            Kind::Nanoseconds => Value::Time(Nanos(number)),
            Kind::Bytes => Value::Size(Bytes(u32::try_from(number).unwrap_or(u32::MAX))),
            Kind::Rate => Value::Rate(BitsPerSec(number.saturating_mul(8))),
        }
    }

    /// Returns the number for the core's field: a fraction rounded to the nearest 128th, a time rounded up
    /// to whole microseconds if the field counts microseconds.
    pub fn field<Of>(self, row: &Row<Of>) -> u64 {
        match self {
            Value::Fraction(fraction) => (fraction * 128.0).round() as u64,
            Value::Number(number) | Value::Word(number) => number,
            Value::Flag(is_set) => is_set.into(),
            Value::Time(time) if row.kind == Kind::Microseconds => whole_us(time).into(),
            Value::Time(time) => time.0,
            Value::Size(bytes) => bytes.0.into(),
            Value::Rate(rate) => rate.0 / 8,
        }
    }

    /// Reads an option's text.
    ///
    /// # Errors
    /// What was expected, if it is no value of this row.
    pub fn parse<Of>(row: &Row<Of>, text: &str) -> Result<Value, String> {
        fn read<T: FromStr>(text: &str, expected: &str) -> Result<T, String> {
            text.parse().map_err(|_| expected.to_owned())
        }
        fn unit<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
            text.parse().map_err(|error: T::Err| error.to_string())
        }
        match row.kind {
            Kind::Fraction => read(text, "not a number from 0 to 1").map(Value::Fraction),
            Kind::Number | Kind::Segments => read(text, "not a whole number").map(Value::Number),
            Kind::Word => Value::word(row, text)
                .ok_or_else(|| format!("not one of the words {}", words(row).join(", "))),
            Kind::Flag => read(text, "not true or false").map(Value::Flag),
            Kind::Microseconds | Kind::Nanoseconds => unit(text).map(Value::Time),
            Kind::Bytes => unit(text).map(Value::Size),
            Kind::Rate => unit(text).map(Value::Rate),
        }
    }

    /// Returns the value of the row that this word means; `None` if the row has no such word.
    pub fn word<Of>(row: &Row<Of>, text: &str) -> Option<Value> {
        let place = row.words.iter().position(|word| word.word == text)?;
        Some(Value::Word(place as u64))
    }

    /// Formats the value as in a TOML file, without quotes.
    pub fn text<Of>(self, row: &Row<Of>) -> String {
        match self {
            Value::Fraction(fraction) => fraction.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Word(place) => {
                let word = row.words.get(place as usize);
                word.map_or_else(|| place.to_string(), |word| word.word.to_owned())
            }
            Value::Flag(is_set) => is_set.to_string(),
            Value::Time(time) => time.to_string(),
            Value::Size(bytes) => bytes.to_string(),
            Value::Rate(rate) => rate.to_string(),
        }
    }

    /// Returns what is wrong with the value, and what would be right; `None` if the row allows it.
    pub fn fault<Of>(self, row: &Row<Of>) -> Option<String> {
        let (least, most) = (*row.range.start(), *row.range.end());
        let bound = |number| Value::of_field(row, number).text(row);
        // a value outside the range that stands for "none" is only had by leaving the key out
        let off = row.usual.is_some_and(|usual| !row.range.contains(&usual));
        let leave = if off { "leave it out, or " } else { "" };
        match self {
            Value::Fraction(fraction) => (!(0.0..=1.0).contains(&fraction))
                .then(|| format!("is {fraction}; give {} to {}", bound(least), bound(most))),
            Value::Number(number) => (!row.range.contains(&number)).then(|| {
                let segments = if row.kind == Kind::Segments {
                    " segments"
                } else {
                    ""
                };
                format!("is {number}; {leave}give {least} to {most}{segments}")
            }),
            Value::Word(_) | Value::Flag(_) => None,
            Value::Time(_) | Value::Size(_) | Value::Rate(_) => {
                let amount = |value: Value| match value {
                    Value::Time(time) => time.0,
                    Value::Size(bytes) => bytes.0.into(),
                    Value::Rate(rate) => rate.0,
                    _ => 0,
                };
                if amount(self) < amount(Value::of_field(row, least)) {
                    return Some(format!(
                        "is below {}; {leave}give that or more",
                        bound(least)
                    ));
                }
                let over = amount(self) > amount(Value::of_field(row, most));
                (over && most < WIDEST)
                    .then(|| format!("is more than {}; give at most that", bound(most)))
            }
        }
    }
}

/// Returns the words that a parameter of kind [`Kind::Word`] accepts.
pub fn words<Of>(row: &Row<Of>) -> Vec<&'static str> {
    row.words.iter().map(|word| word.word).collect()
}

/// Returns a time in whole microseconds, rounded up; 2^32 − 1 for any longer time.
fn whole_us(time: Nanos) -> u32 {
    u32::try_from(time.0.div_ceil(1_000)).unwrap_or(u32::MAX)
}

/// The values that an operator chose of a table; every other field has its usual value.
#[derive(Clone, PartialEq)]
pub struct Chosen<Of> {
    values: BTreeMap<&'static str, Value>,
    of: PhantomData<fn() -> Of>,
}

impl<Of> Default for Chosen<Of> {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            of: PhantomData,
        }
    }
}

impl<Of> fmt::Debug for Chosen<Of> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.values.fmt(f)
    }
}

impl<Of: Table> Chosen<Of> {
    /// Chooses the value of every field that is in its row's range.
    pub fn of_fields(of: &Of) -> Self {
        let mut chosen = Self::default();
        for row in Of::rows()
            .iter()
            .filter(|row| row.range.contains(&row.get(of)))
        {
            chosen.set(row, Value::of_field(row, row.get(of)));
        }
        chosen
    }

    /// Returns whether no parameter was set.
    pub fn are_default(&self) -> bool {
        self.values.is_empty()
    }

    /// Chooses a value for a row. A flag that is false removes the choice: both mean the same.
    pub fn set(&mut self, row: &Row<Of>, value: Value) {
        if value == Value::Flag(false) {
            self.values.remove(row.key);
        } else {
            self.values.insert(row.key, value);
        }
    }

    /// Chooses a value by its key; a key that the table lacks is ignored.
    pub fn choose(mut self, key: &str, value: Value) -> Self {
        if let Some(row) = Of::row(key) {
            self.set(row, value);
        }
        self
    }

    /// Sets a parameter by its key and the text of its value.
    ///
    /// # Errors
    /// What is wrong with the key or with the text. The range is not checked.
    pub fn with(mut self, key: &str, text: &str) -> Result<Self, String> {
        let row = Of::row(key).ok_or_else(|| format!("there is no parameter `{key}`"))?;
        self.set(row, Value::parse(row, text)?);
        Ok(self)
    }

    /// Removes the value that was set for a key.
    pub fn remove(&mut self, key: &str) {
        self.values.remove(key);
    }

    /// Returns the value that was set for a key; `None` if none was.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.values.get(key).copied()
    }

    /// Tells whether something was chosen for a key; of a flag, whether it is set.
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Returns each row for which a value was chosen, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Row<Of>, Value)> {
        let chosen = |row: &'static Row<Of>| Some((row, self.get(row.key)?));
        Of::rows().iter().filter_map(chosen)
    }

    /// Keeps the values of the rows for which `keep` returns true, and removes all others.
    pub fn retain(&mut self, keep: impl Fn(&Row<Of>) -> bool) {
        self.values.retain(|key, _| Of::row(key).is_some_and(&keep));
    }

    /// Returns these settings, completed by those of `others` for keys that are not set here.
    pub fn or(mut self, others: Self) -> Self {
        for (key, value) in others.values {
            self.values.entry(key).or_insert(value);
        }
        self
    }

    /// Writes the values that were set into the core's struct.
    pub fn apply(&self, of: &mut Of) {
        for (row, value) in self.iter() {
            row.set(of, value.field(row));
        }
    }

    /// Lists the values that their rows don't allow.
    pub fn out_of_range(&self) -> Faults {
        let fault = |(row, value): (&'static Row<Of>, Value)| Some((row.key, value.fault(row)?));
        self.iter().filter_map(fault).collect()
    }
}
