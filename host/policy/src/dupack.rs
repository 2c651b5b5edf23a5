//! `dupack`: whether and when the host sends a port's guests duplicate ACKs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uc_words::units::Nanos;

use crate::fault::Faults;
use crate::switch::{Settings, Switch};

/// Range of the shortest silence after which a guest gets duplicate ACKs.
const LEAST: (Nanos, Nanos) = (Nanos::from_millis(1), LONGEST);
/// Longest time that the keys `least` and `short_tails` accept: a guest's own timer has expired long before.
const LONGEST: Nanos = Nanos::from_secs(10);

/// `dupack = true`, or a table with settings.
pub type DupackKey = Switch<DupackTable>;

/// `dupack = { … }`: when flows get duplicate ACKs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DupackTable {
    /// Shortest silence of a flow before it gets duplicate ACKs, 1ms to 10s. Default 5ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<Nanos>,
    /// If given, a guest gets three duplicate ACKs even if fewer than four of its segments are in flight. With one
    /// segment in flight they come this much later, at most 10s. If absent, it gets as many as its segments could
    /// cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_tails: Option<Nanos>,
}

impl Settings for DupackTable {
    const EXAMPLE: &'static str = "{ least = \"5ms\" }";
}

/// When the host sends the flows of a port duplicate ACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Dupack {
    /// Shortest silence of a flow before it gets duplicate ACKs.
    pub least: Nanos,
    /// If given, a guest gets three duplicate ACKs even if fewer than four of its segments are in flight; with one
    /// segment in flight, this much later. `None`: it gets as many as its segments could cause.
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
