//! How flows start: `start_law = "watch"` of a group of guests, beside any law or none, and
//! `watch = { probes = 10 }`.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use uc_core::parameter::{Row, start_keys, start_settings};
use uc_core::watch::StartPolicy;
use uc_words::BitsPerSec;

use crate::table::{Chosen, Faults, Table, Value};

/// The law of a flow's first round trips, on both ends' hosts.
#[derive(schemars::JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StartLaw {
    /// HWatch: probes measure the path first, and the receiving host sets the first windows.
    Watch,
}

/// What an operator chose about the start `watch`; every other setting is the paper's where it has
/// one.
pub type Watch = Chosen<StartPolicy>;

impl Table for StartPolicy {
    const NAME: &'static str = "Watch";
    const WHAT: &'static str = "Settings of the start `watch`.";

    fn rows() -> &'static [Row<StartPolicy>] {
        start_settings()
    }

    fn keys() -> &'static [&'static str] {
        static KEYS: LazyLock<Vec<&str>> =
            LazyLock::new(|| start_settings().iter().map(|row| row.key).collect());
        &KEYS
    }
}

impl Watch {
    /// Returns the slowest rate of turns: at a slower one nothing would start.
    pub fn slowest_pace() -> BitsPerSec {
        let row = StartPolicy::row(start_keys::PACE);
        match row.map(|row| Value::of_field(row, *row.range.start())) {
            Some(Value::Rate(rate)) => rate,
            _ => BitsPerSec(0),
        }
    }

    /// Lists the settings that can't be.
    pub fn faults(&self) -> Faults {
        self.out_of_range()
    }
}

/// Returns the core's policy for the start `watch`; `usual` has what the operator did not choose.
pub fn watch_policy(watch: &Watch, usual: &StartPolicy) -> StartPolicy {
    let mut policy = *usual;
    watch.apply(&mut policy);
    policy
}

/// The ends of a flow that send data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// Neither end: no flow's data.
    Nobodys,
    /// The end that opens the connection: uploads, remote procedure calls with large arguments.
    FromClient,
    /// The end that accepts it: web pages, storage.
    FromServer,
    /// Either end.
    #[default]
    FromBoth,
}

/// What the operator wants of the starts of a port's flows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartSettings {
    /// How many probes, how long, what becomes of windows.
    #[serde(with = "fields")]
    pub policy: StartPolicy,
    /// What the guest sends and this host sends probes for: as the client, or as the server.
    pub sends: Data,
    /// What the guest receives and this host sets windows for: of the client, or of the server.
    pub receives: Data,
    /// Handshakes of the port's guest that are watched in a second; more of them pass.
    pub per_second: u32,
    /// How many of them at once.
    pub burst: u32,
}

impl Default for StartSettings {
    /// A start that user space can keep to: probes within half a millisecond.
    fn default() -> Self {
        Self {
            policy: StartPolicy {
                span_us: 500,
                ..StartPolicy::usual()
            },
            sends: Data::default(),
            receives: Data::default(),
            per_second: 1_000,
            burst: 256,
        }
    }
}

/// A policy as its settings are written.
mod fields {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use uc_core::watch::StartPolicy;

    use super::{Watch, watch_policy};

    pub fn serialize<S: Serializer>(of: &StartPolicy, serializer: S) -> Result<S::Ok, S::Error> {
        Watch::of_fields(of).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<StartPolicy, D::Error> {
        let watch = Watch::deserialize(from)?;
        Ok(watch_policy(&watch, &StartPolicy::usual()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_the_same_after_they_were_written_and_read() {
        let usual = StartSettings::default();
        let other = StartSettings {
            policy: StartPolicy {
                probes: 0,
                observe: 1,
                span_us: 49_999,
                late_ns: 12_345,
                burst_bytes: 1,
                pace_bytes_per_s: 125_000_001,
                ..usual.policy
            },
            sends: Data::FromClient,
            receives: Data::Nobodys,
            per_second: 7,
            burst: 9,
        };
        for settings in [usual, other] {
            let text = serde_json::to_string(&settings).unwrap();
            let again: StartSettings = serde_json::from_str(&text).unwrap();
            assert_eq!(again, settings, "{text}");
        }
    }
}
