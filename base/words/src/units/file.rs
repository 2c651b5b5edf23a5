//! Quantities in files: read from strings, written as strings, described by a JSON Schema.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{BitsPerSec, Bytes, DURATION, Dimension, Nanos, RATE, SIZE};

impl Dimension {
    /// Describes the texts that are read; numbers that are too large match, too.
    fn schema(&self) -> Schema {
        let units: Vec<&str> = self.units.iter().map(|(name, _)| *name).collect();
        json_schema!({
            "type": "string",
            "pattern": format!(r"^[0-9]+(\.[0-9]+)?\s*({})\s*$", units.join("|")),
            "description": format!("a {} with its unit", self.what),
            "examples": [self.example],
        })
    }
}

/// Reads a quantity from a string; the error for a bare number says that the unit is missing.
struct Quantity(&'static Dimension);

impl Visitor<'_> for Quantity {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a {} with its unit, for example \"{}\"",
            self.0.what, self.0.example
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        self.0.parse(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<u64, E> {
        Err(E::custom(self.0.error(
            &number.to_string(),
            "a number in a file needs a unit and quotes",
        )))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        Err(E::custom(self.0.error(
            &number.to_string(),
            "a number in a file needs a unit and quotes",
        )))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<u64, E> {
        Err(E::custom(self.0.error(
            &number.to_string(),
            "a number in a file needs a unit and quotes",
        )))
    }
}

macro_rules! in_files {
    ($name:ident($base:ty), $dimension:ident) => {
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $dimension.schema()
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = deserializer.deserialize_any(Quantity(&$dimension))?;
                Ok(Self(value as $base))
            }
        }
    };
}

in_files!(BitsPerSec(u64), RATE);
in_files!(Nanos(u64), DURATION);
in_files!(Bytes(u32), SIZE);
