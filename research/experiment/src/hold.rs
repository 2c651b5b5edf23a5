//! Packets that a port holds: `hold = { pace = true, buffer = {} }` of a group of guests.

use std::fmt;

use serde::{Deserialize, Serialize};
use uc_hold_core::{Buffer, Settings};

use crate::units::Nanos;

/// `hold`: the ports spread ACKs over a round trip, or retransmit the guests' data, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hold {
    /// Whether ACKs towards the guest are spread over a round trip. Default false.
    pub pace: bool,
    /// Buffer from which the host retransmits the guest's data; if absent, the host keeps no data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<HoldBuffer>,
}

/// `hold.buffer`: the host retransmits the guest's data after its own timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HoldBuffer {
    /// Minimum RTO of the host, as in Linux: it applies to the term that is added to the smoothed round-trip time, not
    /// to the sum. Default 10ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_timeout: Option<Nanos>,
}

impl Hold {
    /// Returns the settings of each port.
    pub fn settings(&self) -> Settings {
        let buffer = |HoldBuffer { least_timeout }| {
            least_timeout.map_or_else(Buffer::default, |least| Buffer {
                least_timeout_ns: least.0,
            })
        };
        Settings {
            pace: self.pace,
            buffer: self.buffer.map(buffer),
            bytes_max: Settings::BYTES_MAX,
        }
    }
}

/// Formats the setting in words, to follow the law.
impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pace {
            f.write_str(", ACKs spread over a round trip")?;
        }
        let Some(buffer) = self.buffer else {
            return Ok(());
        };
        f.write_str(", data kept and retransmitted by the host")?;
        match buffer.least_timeout {
            None => Ok(()),
            Some(least) => write!(f, " with a minimum RTO of {least}"),
        }
    }
}
