//! How files write a law: its name.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

use crate::Law;

impl Serialize for Law {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Law {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Law, D::Error> {
        deserializer.deserialize_str(Name)
    }
}

/// Reads a law from its name in a file.
struct Name;

impl Visitor<'_> for Name {
    type Value = Law;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a law, in quotes")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Law, E> {
        static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| Law::all().map(Law::name).collect());
        Law::named(name).ok_or_else(|| E::unknown_variant(name, &NAMES))
    }
}

impl JsonSchema for Law {
    fn schema_name() -> Cow<'static, str> {
        "Law".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let law = |law: Law| json_schema!({"const": law.name(), "description": law.what(), "type": "string"});
        json_schema!({
            "description": "The congestion control law that the operator runs under a guest's own.",
            "oneOf": Law::all().map(law).collect::<Vec<_>>(),
        })
    }
}
