//! `hold`: which packets of a port's guest the host holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uc_hold_core::{Buffer, Settings as Usual};
use uc_words::units::{Bytes, Nanos};

use crate::fault::Faults;
use crate::switch::{Settings, Switch};

/// Range of the minimum RTO: beyond it a guest's own timer has expired.
const RTO_MIN: (Nanos, Nanos) = (Nanos::from_millis(1), Nanos::from_secs(10));
/// Smallest memory of a port: with less, hardly a window fits.
const MEMORY_MIN: Bytes = Bytes(1_000_000);

/// `hold = false`, or a table with settings.
pub type HoldKey = Switch<HoldTable>;

/// `hold = { … }`: which packets are held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HoldTable {
    /// Whether ACKs towards the guest are spread over a round trip. Default `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<bool>,
    /// Whether the guest's data is kept, and retransmitted by the host. Default `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<bool>,
    /// Minimum RTO of the host, with `buffer`, 1ms to 10s. Default 10ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_min: Option<Nanos>,
    /// Maximum memory for packets of each port, at least 1MB. Default 64MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
}

impl Settings for HoldTable {
    const EXAMPLE: &'static str = "{ pace = true }";
}

/// Which packets of a port the host holds: ACKs towards the guest, data of the guest, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hold {
    /// Whether ACKs are spread over a round trip.
    pub pace: bool,
    /// Minimum RTO of the host, which keeps the guest's data; `None`: it keeps none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_min: Option<Nanos>,
    /// Maximum memory for the packets that are held at the port, in bytes.
    pub memory: Bytes,
}

impl Hold {
    /// Returns what is held where no law slows the guest down: ACKs, if they are spread. Data is not kept, because the
    /// host would hide its losses from the guest. `None`: nothing is held.
    pub(crate) fn without_law(self) -> Option<Self> {
        let rto_min = None;
        self.pace.then_some(Self { rto_min, ..self })
    }
}

impl HoldKey {
    /// Checks that something is held under `key`, and that its settings are in range.
    pub(crate) fn check(&self, key: &str, faults: &mut Faults<'_>) {
        let table = match self {
            Self::Is(false) => return,
            Self::Is(true) => &HoldTable::default(),
            Self::By(table) => table,
        };
        if table.pace != Some(true) && table.buffer != Some(true) {
            let message =
                "holds nothing; give { pace = true }, { buffer = true } or both, or leave it out";
            faults.add(key, message);
            return;
        }
        if let Some(rto_min) = table.rto_min {
            let (first, last) = RTO_MIN;
            let at = format!("{key}.rto_min");
            if table.buffer != Some(true) {
                let message = "is the host's minimum RTO, and changes nothing without buffer = true; add \
                               that, or leave it out";
                faults.add(&at, message);
            } else if !(first..=last).contains(&rto_min) {
                faults.add(&at, format!("is {rto_min}; give {first} to {last}"));
            }
        }
        if let Some(memory) = table.memory.filter(|memory| *memory < MEMORY_MIN) {
            let message = format!("is {memory}; give at least {MEMORY_MIN}");
            faults.add(&format!("{key}.memory"), message);
        }
    }

    /// Returns which packets are held, once checked; `None`: none.
    pub(crate) fn resolve(&self) -> Option<Hold> {
        let Self::By(table) = self else {
            return None;
        };
        let usual = Nanos(Buffer::default().least_timeout_ns);
        let buffer = table.buffer == Some(true);
        let hold = Hold {
            pace: table.pace == Some(true),
            rto_min: buffer.then_some(table.rto_min.unwrap_or(usual)),
            memory: table.memory.unwrap_or(Bytes(Usual::BYTES_MAX as u32)),
        };
        (hold.pace || buffer).then_some(hold)
    }
}
