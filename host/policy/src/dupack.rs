//! `dupack`: whether and when the host sends a port's guests duplicate ACKs.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use uc_words::units::Nanos;

use crate::fault::Faults;

/// Range of the shortest silence.
const LEAST: (Nanos, Nanos) = (Nanos::from_millis(1), LONGEST);
/// Longest time that either key takes: a guest's own timer has expired long before.
const LONGEST: Nanos = Nanos::from_secs(10);

/// `dupack = true`, or a table with settings.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum DupackKey {
    /// Whether duplicate ACKs are sent, by the usual settings.
    Is(bool),
    /// Duplicate ACKs are sent by these settings.
    By(DupackTable),
}

/// `dupack = { … }`: when flows get duplicate ACKs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DupackTable {
    /// Shortest silence of a flow before it gets duplicate ACKs, 1ms to 10s. Default 5ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<Nanos>,
    /// Three duplicate ACKs also where fewer than four segments are in flight; where one is, so much later, at
    /// most 10s. If absent, as many as the segments could cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_tails: Option<Nanos>,
}

/// When the flows of a port get duplicate ACKs of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Dupack {
    /// Shortest silence before.
    pub least: Nanos,
    /// Three duplicate ACKs also where fewer than four segments are in flight; where one is, so much later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_tails: Option<Nanos>,
}

impl Default for Dupack {
    fn default() -> Self {
        let least = uc_core::dupack::Policy::LEAST.as_micros();
        Self {
            least: Nanos::from_micros(u64::try_from(least).unwrap_or(u64::MAX)),
            short_tails: None,
        }
    }
}

impl DupackKey {
    /// Checks that the times under `key` are in range.
    pub(crate) fn check(&self, key: &str, faults: &mut Faults<'_>) {
        let Self::By(table) = self else {
            return;
        };
        for (name, time, (first, last)) in [
            ("least", table.least, LEAST),
            ("short_tails", table.short_tails, (Nanos::ZERO, LONGEST)),
        ] {
            if let Some(time) = time.filter(|time| !(first..=last).contains(time)) {
                let message = match first {
                    Nanos::ZERO => format!("is {time}; give at most {last}"),
                    first => format!("is {time}; give {first} to {last}"),
                };
                faults.add(&format!("{key}.{name}"), message);
            }
        }
    }

    /// Returns when duplicate ACKs are sent, once checked; `None`: never.
    pub(crate) fn resolve(&self) -> Option<Dupack> {
        let usual = Dupack::default();
        match self {
            Self::Is(is) => is.then_some(usual),
            Self::By(table) => Some(Dupack {
                least: table.least.unwrap_or(usual.least),
                short_tails: table.short_tails,
            }),
        }
    }
}

/// Reads a boolean or a table.
struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = DupackKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false, or a table such as { least = \"5ms\" }")
    }

    fn visit_bool<E: de::Error>(self, is: bool) -> Result<DupackKey, E> {
        Ok(DupackKey::Is(is))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<DupackKey, A::Error> {
        DupackTable::deserialize(MapAccessDeserializer::new(map)).map(DupackKey::By)
    }
}

impl<'de> Deserialize<'de> for DupackKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}
