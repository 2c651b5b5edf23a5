//! The values that one scrape reads.

use uc_client::AgentState;
use uc_port::{Counters, PortError, PortView, Programs, Store};

/// The data of one scrape.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// State of the agent.
    pub state: AgentState,
    /// State of the programs; `None` if they are not loaded or can't be read.
    pub kernel: Option<Kernel>,
    /// Whether reading the programs' state failed.
    pub failed: bool,
}

/// The state of the programs.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Packets of all ports, including former ones.
    pub counters: Counters,
    /// The ports that have a plan.
    pub ports: Vec<PortView>,
    /// Capacity of the flow table, in places.
    pub flows_max: u32,
    /// Places that are taken.
    pub places_taken: u32,
    /// Memory of the maps, in bytes.
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
    /// Reads the programs' state now.
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
