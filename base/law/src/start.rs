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

/// The settings of start-up control `watch` that an operator chose; every other setting has its usual value,
/// which is that of the HWatch paper where the paper gives one.
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
    /// Returns the minimum of `pace`, the rate at which a receiving host grants first windows: at a
    /// lower one no flow would start.
    pub fn slowest_pace() -> BitsPerSec {
        let row = StartPolicy::row(start_keys::PACE);
        match row.map(|row| Value::of_field(row, *row.range.start())) {
            Some(Value::Rate(rate)) => rate,
            _ => BitsPerSec(0),
        }
    }

    /// Lists the settings that are outside their ranges.
    pub fn faults(&self) -> Faults {
        self.out_of_range()
    }
}

/// Returns the core's policy for the start `watch`: the operator's settings, and `usual` for the rest.
pub fn watch_policy(watch: &Watch, usual: &StartPolicy) -> StartPolicy {
    let mut policy = *usual;
    watch.apply(&mut policy);
    policy
}

/// The ends of a flow for whose data probes are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// Probes are sent for the data of neither end.
    Nobodys,
    /// The end that opens the connection: uploads, remote procedure calls with large arguments.
    FromClient,
    /// The end that accepts the connection: web pages, storage.
    FromServer,
    /// Probes are sent for the data of both ends.
    #[default]
    FromBoth,
}

/// Settings of start-up control `watch` at a port: those of probes, windows and waiting, and the flows for
/// which probes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartSettings {
    /// Probes, first windows and waiting, as the core reads them.
    #[serde(with = "fields")]
    pub policy: StartPolicy,
    /// Data of the guest for which this host sends probes: as client, as server, or as both.
    pub sends: Data,
    /// Data to the guest for which this host sets first windows: of a client, of a server, or of both.
    pub receives: Data,
    /// Handshakes of the port's guest that are held per second, on average; further ones pass.
    pub per_second: u32,
    /// Handshakes that may be held at once, ahead of `per_second`.
    pub burst: u32,
}

impl Default for StartSettings {
    /// Returns the settings of real ports. Probes of a flow leave within half a millisecond, because
    /// user space cannot time them more finely.
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

/// Reads and writes a start policy as the table of its settings.
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
