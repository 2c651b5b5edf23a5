//! How files write what was chosen of a table: its keys with their values, by serde and in a schema.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value as Json, json};
use uc_core::parameter::{Kind, Row};
use uc_words::{BitsPerSec, Bytes, Nanos};

use crate::table::{Chosen, Table, Value, words};

impl<Of: Table> Serialize for Chosen<Of> {
    /// Writes the values that were set, in the order of the rows. Flags are written also if they are not
    /// set.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for row in Of::rows() {
            match (self.get(row.key), row.kind) {
                (None, Kind::Flag) => map.serialize_entry(row.key, &false)?,
                (None, _) => {}
                (Some(Value::Fraction(fraction)), _) => map.serialize_entry(row.key, &fraction)?,
                (Some(Value::Number(number)), _) => map.serialize_entry(row.key, &number)?,
                (Some(Value::Flag(is_set)), _) => map.serialize_entry(row.key, &is_set)?,
                (Some(value), _) => map.serialize_entry(row.key, &value.text(row))?,
            }
        }
        map.end()
    }
}

impl<'de, Of: Table> Deserialize<'de> for Chosen<Of> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct(Of::NAME, Of::keys(), TableOf(PhantomData))
    }
}

/// Visitor that reads a TOML table of settings.
struct TableOf<Of>(PhantomData<Of>);

impl<'de, Of: Table> Visitor<'de> for TableOf<Of> {
    type Value = Chosen<Of>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "struct {}", Of::NAME)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut chosen = Chosen::default();
        while let Some(row) = map.next_key_seed(KeyOf::<Of>(PhantomData))? {
            if chosen.has(row.key) {
                return Err(A::Error::duplicate_field(row.key));
            }
            chosen.set(row, map.next_value_seed(ValueOf(row))?);
        }
        Ok(chosen)
    }
}

/// Reads the name of a parameter in a file.
struct KeyOf<Of>(PhantomData<Of>);

impl<'de, Of: Table> DeserializeSeed<'de> for KeyOf<Of> {
    type Value = &'static Row<Of>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<Of: Table> Visitor<'_> for KeyOf<Of> {
    type Value = &'static Row<Of>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Of::row(key).ok_or_else(|| E::unknown_field(key, Of::keys()))
    }
}

/// Reads the value of this parameter in a file.
struct ValueOf<Of: 'static>(&'static Row<Of>);

impl<'de, Of: Table> DeserializeSeed<'de> for ValueOf<Of> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let row = self.0;
        match row.kind {
            Kind::Fraction => f64::deserialize(deserializer).map(Value::Fraction),
            Kind::Number | Kind::Segments if *row.range.end() <= u8::MAX.into() => {
                u8::deserialize(deserializer).map(|number| Value::Number(number.into()))
            }
            Kind::Number | Kind::Segments => u64::deserialize(deserializer).map(Value::Number),
            Kind::Word => {
                let text = Cow::<str>::deserialize(deserializer)?;
                Value::word(row, &text).ok_or_else(|| {
                    let known = words(row).join("`, `");
                    D::Error::custom(format!("unknown variant `{text}`, expected `{known}`"))
                })
            }
            Kind::Flag => bool::deserialize(deserializer).map(Value::Flag),
            Kind::Microseconds | Kind::Nanoseconds => {
                Nanos::deserialize(deserializer).map(Value::Time)
            }
            Kind::Bytes => Bytes::deserialize(deserializer).map(Value::Size),
            Kind::Rate => BitsPerSec::deserialize(deserializer).map(Value::Rate),
        }
    }
}

impl<Of: Table> JsonSchema for Chosen<Of> {
    fn schema_name() -> Cow<'static, str> {
        Of::NAME.into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = Map::new();
        for row in Of::rows() {
            properties.insert(row.key.to_owned(), value_schema(row, generator).to_value());
        }
        json_schema!({
            "type": "object",
            "description": Of::WHAT,
            "properties": properties,
            "additionalProperties": false,
        })
    }
}

fn value_schema<Of: Table>(row: &Row<Of>, generator: &mut SchemaGenerator) -> Schema {
    let (least, most) = (*row.range.start(), *row.range.end());
    let mut schema = match row.kind {
        Kind::Fraction => json_schema!({"type": "number", "minimum": 0.0, "maximum": 1.0}),
        Kind::Number | Kind::Segments => {
            json_schema!({"type": "integer", "minimum": least, "maximum": most})
        }
        Kind::Word => {
            let words = row.words.iter().map(|word| {
                json!({"const": word.word, "description": sentence(word.what), "type": "string"})
            });
            json_schema!({"oneOf": words.collect::<Vec<Json>>()})
        }
        Kind::Flag => json_schema!({"type": "boolean"}),
        Kind::Microseconds | Kind::Nanoseconds => generator.subschema_for::<Nanos>(),
        Kind::Bytes => generator.subschema_for::<Bytes>(),
        Kind::Rate => generator.subschema_for::<BitsPerSec>(),
    };
    schema.insert("description".to_owned(), describe(row).into());
    schema
}

/// Describes a row: its meaning, the laws that it belongs to, and its usual value.
fn describe<Of: Table>(row: &Row<Of>) -> String {
    let laws: Vec<_> = row.laws().map(|law| format!("`{}`", law.name())).collect();
    let mut text = match laws.len() {
        0 => String::new(),
        _ if row.is_of_any_law() => String::new(),
        1 => format!("Law {}: ", laws[0]),
        _ => format!("Laws {}: ", laws.join(", ")),
    };
    text += row.what;
    let usual = row.usual.filter(|usual| row.range.contains(usual));
    if let Some(usual) = usual {
        text += &format!(". Default {}", Value::of_field(row, usual).text(row));
    }
    sentence(&text) + "."
}

/// Returns the text with a capital first letter.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
