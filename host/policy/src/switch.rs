//! A key that is `true`, `false`, or a table with settings.

use std::fmt;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Whether a function is on, or its settings.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Switch<T> {
    /// On with the default settings, or off.
    Is(bool),
    /// The feature is on, with these settings.
    By(T),
}

/// A table of settings that [`Switch`] takes.
pub trait Settings: for<'de> Deserialize<'de> {
    /// Example for errors, such as `{ least = "5ms" }`.
    const EXAMPLE: &'static str;
}

/// Reads a switch from a boolean or a table.
struct SwitchVisitor<T>(PhantomData<T>);

impl<'de, T: Settings> Visitor<'de> for SwitchVisitor<T> {
    type Value = Switch<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "true, false, or a table such as {}", T::EXAMPLE)
    }

    fn visit_bool<E: de::Error>(self, is: bool) -> Result<Switch<T>, E> {
        Ok(Switch::Is(is))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Switch<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Switch::By)
    }
}

impl<'de, T: Settings> Deserialize<'de> for Switch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SwitchVisitor(PhantomData))
    }
}
