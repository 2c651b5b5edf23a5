//! The ports that an agent has `uc watch` watch, and the status of the process.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uc_law::StartSettings;
use uc_service::{PortTask, Ports};

/// The watched ports; they may change while the process runs.
pub type Setup = Ports<PortSetup>;

/// The watched ports, and those that can't be watched.
pub type Status = uc_service::Status<Setup, Done>;

/// How the flows of a port start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortSetup {
    /// Name of the port's interface.
    pub name: String,
    /// Index of the port's interface.
    pub ifindex: u32,
    /// Settings of the starts; without a rate, first windows are given at that of the port's uplink.
    pub start: StartSettings,
}

/// The report of the process `uc watch`: the ports that it can't watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Ports of the setup that can't be watched, each with the reason and the remedy; the process tries again every
    /// second.
    pub refused: BTreeMap<String, String>,
}

impl PortTask for PortSetup {
    const COMMAND: &'static str = "uc watch";
    const PLACE: &'static str = "watch";
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
