//! Which ports' flows get duplicate ACKs, and when.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uc_core::dupack::Policy;
use uc_service::Ports;

use crate::setup::to_us;

/// The ports at which duplicate ACKs are sent; it may change while the process runs.
pub type Setup = Ports<PortSetup>;

/// When the flows of a port get duplicate ACKs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSetup {
    /// Name of the interface.
    pub name: String,
    /// Index of the interface.
    pub ifindex: u32,
    /// Shortest silence before duplicate ACKs, in microseconds.
    pub least_us: u64,
    /// Three duplicate ACKs also where fewer than four segments are in flight; where one is, so many
    /// microseconds later. `None`: as many as the segments could cause.
    pub short_tails_us: Option<u64>,
}

impl PortSetup {
    /// Creates the settings of a port.
    pub fn new(name: &str, ifindex: u32, least: Duration, short_tails: Option<Duration>) -> Self {
        Self {
            name: name.to_owned(),
            ifindex,
            least_us: to_us(least),
            short_tails_us: short_tails.map(to_us),
        }
    }

    /// Converts the settings to the core's policy.
    pub(crate) fn policy(&self) -> Policy {
        Policy::new(
            Duration::from_micros(self.least_us),
            self.short_tails_us.map(Duration::from_micros),
        )
    }
}
