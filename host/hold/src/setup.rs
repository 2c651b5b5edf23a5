//! At which ports packets are held, and which: what an agent tells the process.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uc_hold_core::{Buffer, Settings};
use uc_service::Ports;

/// The ports whose packets are held; it may change while the process runs.
pub type Setup = Ports<PortSetup>;

/// Which packets of a port are held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSetup {
    /// Name of the interface.
    pub name: String,
    /// Index of the interface.
    pub ifindex: u32,
    /// Whether ACKs towards the guest are spread over a round trip.
    pub pace: bool,
    /// Minimum RTO of the host, which keeps the guest's data, in microseconds; `None`: it keeps none.
    pub rto_min_us: Option<u64>,
    /// Maximum memory for the port's packets, in bytes.
    pub memory_bytes: u64,
}

impl PortSetup {
    /// Creates the settings of a port; `rto_min`: the guest's data is kept, with this minimum RTO.
    pub fn new(
        name: &str,
        ifindex: u32,
        pace: bool,
        rto_min: Option<Duration>,
        memory_bytes: u64,
    ) -> Self {
        Self {
            name: name.to_owned(),
            ifindex,
            pace,
            rto_min_us: rto_min.map(to_us),
            memory_bytes,
        }
    }

    /// Returns whether these settings hold the same packets of the same interface, whatever its name.
    pub(crate) fn holds_as(&self, other: &Self) -> bool {
        let other = Self {
            name: self.name.clone(),
            ..other.clone()
        };
        *self == other
    }

    /// Converts the settings to those of `uc_hold_core`.
    pub(crate) fn settings(&self) -> Settings {
        let buffer = |us: u64| Buffer {
            least_timeout_ns: us.saturating_mul(1000).max(1),
        };
        Settings {
            pace: self.pace,
            buffer: self.rto_min_us.map(buffer),
            bytes_max: usize::try_from(self.memory_bytes).unwrap_or(usize::MAX),
        }
    }
}

/// Returns a time in microseconds, as the settings have it in JSON.
pub(crate) fn to_us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_port_holds_as_before_and_one_with_other_settings_does_not() {
        let rto_min = Some(Duration::from_millis(20));
        let port = PortSetup::new("tap0", 3, true, rto_min, 1 << 20);
        let settings = port.settings();
        assert_eq!(settings.buffer.unwrap().least_timeout_ns, 20_000_000);
        assert_eq!((settings.pace, settings.bytes_max), (true, 1 << 20));
        let renamed = PortSetup {
            name: "tap1".into(),
            ..port.clone()
        };
        assert!(renamed.holds_as(&port));
        for other in [
            PortSetup::new("tap0", 4, true, rto_min, 1 << 20),
            PortSetup::new("tap0", 3, false, rto_min, 1 << 20),
            PortSetup::new("tap0", 3, true, None, 1 << 20),
            PortSetup::new("tap0", 3, true, rto_min, 1 << 21),
        ] {
            assert!(!other.holds_as(&port), "{other:?}");
        }
    }
}
