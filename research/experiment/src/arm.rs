//! The backends of an experiment, called `arms` in a file.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A backend, which runs an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// The simulator: hosts that follow the RFCs, on a virtual clock.
    Sim,
    /// Real Linux TCP in network namespaces, on the real clock.
    Live,
    /// Real Linux TCP in VMs under QEMU, each guest with a kernel of its own.
    Vm,
}

impl Arm {
    /// All backends, in declaration order.
    pub const ALL: [Arm; 3] = [Arm::Sim, Arm::Live, Arm::Vm];

    /// Returns the backend's name in a file and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Arm::Sim => "sim",
            Arm::Live => "live",
            Arm::Vm => "vm",
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
