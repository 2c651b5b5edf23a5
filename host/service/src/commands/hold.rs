//! `uc hold`: the ports whose packets are held, and which packets; and the status of the process.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::to_us;
use crate::{PortTask, Ports};

/// The ports whose packets are held; it may change while the process runs.
pub type Setup = Ports<PortSetup>;

/// Which packets of a port are held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSetup {
    /// Name of the port's interface.
    pub name: String,
    /// Index of the port's interface.
    pub ifindex: u32,
    /// Whether ACKs towards the guest are spread over a round trip.
    pub pace: bool,
    /// Minimum RTO of the host, which keeps the guest's data, in microseconds; `None`: it keeps none.
    pub rto_min_us: Option<u64>,
    /// Maximum memory for the port's packets, in bytes.
    pub memory_bytes: u64,
}

impl PortSetup {
    /// Creates the settings of a port. `rto_min`: minimum RTO of the host, which keeps the guest's data; `None`: it
    /// keeps none.
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
    pub fn holds_as(&self, other: &Self) -> bool {
        let other = Self {
            name: self.name.clone(),
            ..other.clone()
        };
        *self == other
    }
}

/// The status of `uc hold`: its ports, and its counters.
pub type Status = crate::Status<Setup, Done>;

/// The counters of the process `uc hold`, and the ports that it can't serve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Ports of the setup whose packets can't be held, each with the reason and the remedy; the process tries
    /// again every second.
    pub refused: BTreeMap<String, String>,
    /// Counters of each port, by the port's name, then by the counter's name.
    pub counts: BTreeMap<String, BTreeMap<String, u64>>,
    /// Number of packets of held flows that passed, because the process was too slow or the packet too large.
    pub passed: u64,
    /// Number of times that the process got no CPU for so long that packets passed.
    pub stalls: u64,
    /// What is held of the flow that was asked for; `None` if no flow was asked for, or its packets pass.
    pub flow: Option<HeldFlow>,
}

/// The functions of `uc hold` that apply to a flow, and their use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldFlow {
    /// Whether the flow's ACKs to the guest are spread over a round trip.
    pub paced: bool,
    /// Whether the guest's data is kept until it is acknowledged.
    pub kept: bool,
    /// Number of the flow's segments that the host retransmitted.
    pub retransmits: u64,
}

impl PortTask for PortSetup {
    const COMMAND: &'static str = "uc hold";
    const PLACE: &'static str = "hold";
    type Done = Done;

    fn name(&self) -> &str {
        &self.name
    }

    fn ifindex(&self) -> u32 {
        self.ifindex
    }

    fn refused(done: &Done) -> &BTreeMap<String, String> {
        &done.refused
    }
}

impl Done {
    /// Returns the sum of a counter over all ports.
    pub fn total(&self, name: &str) -> u64 {
        let counts = self.counts.values();
        counts.filter_map(|counts| counts.get(name)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_port_holds_as_before_and_one_with_other_settings_does_not() {
        let rto_min = Some(Duration::from_millis(20));
        let port = PortSetup::new("tap0", 3, true, rto_min, 1 << 20);
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
