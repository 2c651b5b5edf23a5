//! One value or a list of values: `remote_port = 443`, `remote_port = [5001, "6000-6999"]`. The
//! values are parsed later, so that every wrong one can be reported.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fault::Faults;

/// A type that can be an element of a list in the policy file.
pub trait Element: Sized {
    /// Description in messages, such as "a port's name".
    const WHAT: &'static str;

    /// Parses a value.
    ///
    /// # Errors
    /// The problem and the remedy.
    fn read(scalar: &Scalar) -> Result<Self, String>;

    /// Formats the element as it is written in the file.
    fn write(&self) -> Scalar;

    /// Returns the schema of what [`Element::read`] accepts, as far as a schema can express it.
    fn schema() -> Schema;
}

/// A value as written in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A number, written without quotes.
    Number(i64),
    /// A text, written in quotes.
    Text(String),
    /// The description of a value of a wrong type, such as `a boolean`. [`List::read`] reports it and still
    /// parses the other values.
    Other(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Number(number) => write!(f, "{number}"),
            Scalar::Text(text) | Scalar::Other(text) => f.write_str(text),
        }
    }
}

/// A list of values as they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T> {
    scalars: Vec<Scalar>,
    /// Whether the list was written as one value without brackets.
    alone: bool,
    element: PhantomData<T>,
}

impl<T: Element> List<T> {
    /// Creates a list that has these elements.
    pub fn of(elements: &[T]) -> List<T> {
        List {
            scalars: elements.iter().map(T::write).collect(),
            alone: elements.len() == 1,
            element: PhantomData,
        }
    }

    /// Returns the values that can be parsed. Adds a fault for each other value, and for an empty list.
    pub(crate) fn read(&self, key: &str, faults: &mut Faults<'_>) -> Vec<T> {
        if self.scalars.is_empty() {
            let what = T::WHAT;
            faults.add(key, format!("is empty and matches nothing; give {what}"));
        }
        let mut elements = Vec::new();
        for (i, scalar) in self.scalars.iter().enumerate() {
            let read = match scalar {
                Scalar::Other(what) => Err(format!("is {what}; give {}", T::WHAT)),
                scalar => T::read(scalar),
            };
            match read {
                Ok(element) => elements.push(element),
                Err(message) if self.alone => faults.add(key, message),
                Err(message) => faults.add(&format!("{key}.{i}"), message),
            }
        }
        elements
    }
}

impl<T> Serialize for List<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.scalars[..] {
            [one] if self.alone => one.serialize(serializer),
            many => many.serialize(serializer),
        }
    }
}

impl Serialize for Scalar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Scalar::Number(number) => serializer.serialize_i64(*number),
            Scalar::Text(text) | Scalar::Other(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de, T: Element> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (scalars, alone) = deserializer.deserialize_any(ListVisitor(T::WHAT))?;
        Ok(List {
            scalars,
            alone,
            element: PhantomData,
        })
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ListVisitor(&'static str);

impl<'de> Visitor<'de> for ListVisitor {
    type Value = (Vec<Scalar>, bool);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, or a list of such", self.0)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok((vec![Scalar::Number(number)], true))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok((vec![Scalar::Text(text.to_owned())], true))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut scalars = Vec::new();
        while let Some(scalar) = list.next_element()? {
            scalars.push(scalar);
        }
        Ok((scalars, false))
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a text in quotes")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::Number(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::Other(format!("the boolean `{value}`")))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar::Other(format!("the fraction `{value}`")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Scalar, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other("a list within a list".to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Scalar, A::Error> {
        while table.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other("a table or a date".to_owned()))
    }
}

impl<T: Element> JsonSchema for List<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("ListOf{}", T::WHAT).into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let element = T::schema();
        json_schema!({
            "anyOf": [element, { "type": "array", "minItems": 1, "items": element }],
        })
    }
}
