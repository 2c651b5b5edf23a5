//! The ports that have a plan: how many flows each has, and what became of its packets.

use std::collections::{BTreeMap, BTreeSet};

use libbpf_rs::{MapCore, MapFlags};
use zerocopy::IntoBytes;

use crate::bytes::{number, read};
use crate::counters::Counters;
use crate::error::PortError;
use crate::layout::{UC_NUMBER_NONE, UC_NUMBER_PAST, UC_PORTS_MAX, uc_port_state};
use crate::programs::Programs;

/// How many ports may have a plan at once.
pub const PORTS_MAX: usize = UC_PORTS_MAX as usize;

/// A port that has a plan, as it is at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortView {
    /// The port's interface index.
    pub ifindex: u32,
    /// The tenant's number, of the plan.
    pub tenant: u32,
    /// Number of rules of the plan; 0: nothing of the port is translated.
    pub rules: u32,
    /// Generation of the host's plan.
    pub generation: u32,
    /// Flows in the table.
    pub flows: u32,
    /// The largest number of flows; 0: as many as the table holds.
    pub flows_max: u32,
    /// The port's packets by reason.
    pub counters: Counters,
}

impl Programs {
    /// The ports that were given a plan, in the order of their indices.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn ports(&self) -> Result<Vec<PortView>, PortError> {
        let states = self.port_states()?.into_iter();
        states
            .map(|(ifindex, state)| {
                let page = self.first_page(ifindex)?.unwrap_or_default();
                Ok(PortView {
                    ifindex,
                    tenant: page.tenant,
                    rules: page.rules,
                    generation: page.generation,
                    flows: state.flows,
                    flows_max: page.flows_max,
                    counters: self.counted(&[state.number])?,
                })
            })
            .collect()
    }

    /// Packets of all ports, those that have gone too.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn counters(&self) -> Result<Counters, PortError> {
        let states = self.port_states()?;
        let mut numbers = vec![UC_NUMBER_NONE, UC_NUMBER_PAST];
        numbers.extend(states.values().map(|state| state.number));
        self.counted(&numbers)
    }

    pub(crate) fn port_states(&self) -> Result<BTreeMap<u32, uc_port_state>, PortError> {
        let mut states = BTreeMap::new();
        for key in self.maps.ports.keys() {
            let state = self
                .port_state(&key)
                .map_err(|error| PortError::from_libbpf("read the ports", &error))?;
            states.extend(number(&key).zip(state));
        }
        Ok(states)
    }

    /// Gives each of these ports that has none a number of its own to be counted under.
    pub(crate) fn enter_ports(
        &self,
        ports: impl IntoIterator<Item = u32>,
    ) -> Result<(), PortError> {
        let states = self.port_states()?;
        let taken: BTreeSet<u32> = states.values().map(|state| state.number).collect();
        let mut free = (UC_NUMBER_NONE + 1..UC_NUMBER_PAST).filter(|at| !taken.contains(at));
        for ifindex in ports.into_iter().filter(|port| !states.contains_key(port)) {
            let number = free.next().ok_or(PortError::TooManyPorts)?;
            self.clear_counts(number)?;
            let state = uc_port_state {
                number,
                ..uc_port_state::default()
            };
            self.maps
                .ports
                .update(&ifindex.to_ne_bytes(), state.as_bytes(), MapFlags::NO_EXIST)
                .map_err(|error| PortError::from_libbpf("enter a port", &error))?;
        }
        Ok(())
    }

    fn port_state(&self, key: &[u8]) -> libbpf_rs::Result<Option<uc_port_state>> {
        let value = self.maps.ports.lookup(key, MapFlags::ANY)?;
        Ok(value.and_then(|value| read(&value)))
    }

    /// Forgets a port; what was counted of it stays in the sum.
    pub(crate) fn leave_port(&self, ifindex: u32) -> Result<(), PortError> {
        let key = ifindex.to_ne_bytes();
        let failed = |error| PortError::from_libbpf(format!("forget port {ifindex}"), &error);
        let Some(state) = self.port_state(&key).map_err(failed)? else {
            return Ok(());
        };
        self.maps.ports.delete(&key).map_err(failed)?;
        self.fold_counts(state.number)?;
        self.clear_counts(state.number)
    }

    /// Says how many flows a port has that were taken out of the table from here.
    pub(crate) fn set_flows(&self, ifindex: u32, flows: u32) -> Result<(), PortError> {
        let key = ifindex.to_ne_bytes();
        let failed =
            |error| PortError::from_libbpf(format!("count port {ifindex}'s flows"), &error);
        let Some(state) = self.port_state(&key).map_err(failed)? else {
            return Ok(());
        };
        let state = uc_port_state { flows, ..state };
        let flags = MapFlags::EXIST | MapFlags::LOCK;
        self.maps
            .ports
            .update(&key, state.as_bytes(), flags)
            .map_err(failed)
    }
}
