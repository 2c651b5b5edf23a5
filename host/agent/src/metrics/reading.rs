//! The values that one scrape reads.

use uc_client::AgentState;
use uc_port::{Counters, PortError, PortView, Programs, Store};

/// The data from which one scrape's metrics are computed.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// State of the agent at the scrape.
    pub state: AgentState,
    /// State of the programs; `None` if they are not loaded or can't be read.
    pub kernel: Option<Kernel>,
    /// Whether the programs' state could not be read.
    pub failed: bool,
}

/// The state of the programs in the kernel at the scrape.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Packets of all ports, including former ones.
    pub counters: Counters,
    /// The attached ports that have a plan (compiled rules).
    pub ports: Vec<PortView>,
    /// Capacity of the flow table, in places.
    pub flows_max: u32,
    /// Number of entries of the flow table that are in use.
    pub places_taken: u32,
    /// Kernel memory of the programs' maps, in bytes.
    pub memory_bytes: u64,
}

impl Kernel {
    fn read(programs: &Programs) -> Result<Kernel, PortError> {
        Ok(Kernel {
            counters: programs.counters()?,
            ports: programs.ports()?,
            flows_max: programs.flows_max(),
            places_taken: programs.places_taken()?,
            memory_bytes: programs.memory_bytes()?,
        })
    }
}

impl Reading {
    /// Reads the programs' state from the kernel now, for one scrape.
    pub fn of(state: AgentState, store: &Store) -> Reading {
        let opened = store.open();
        let read = opened.and_then(|programs| programs.as_ref().map(Kernel::read).transpose());
        if let Err(error) = &read {
            tracing::warn!(%error, "the counters can't be read");
        }
        Reading {
            state,
            failed: read.is_err(),
            kernel: read.ok().flatten(),
        }
    }
}
