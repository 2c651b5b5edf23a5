//! The ports that have a plan, with their flows and packet counters.

use std::collections::{BTreeMap, BTreeSet};

use libbpf_rs::{MapCore, MapFlags};
use uc_core::hooks::Hooks;
use zerocopy::IntoBytes;

use crate::batch::keys;
use crate::bytes::{number, read};
use crate::counters::Counters;
use crate::error::PortError;
use crate::hooks::now_ns;
use crate::layout::{UC_NUMBER_NONE, UC_NUMBER_PAST, UC_PORTS_MAX, UC_REMOTES_KEPT, uc_port_state};
use crate::programs::Programs;

/// Maximum number of ports that have a plan.
pub const PORTS_MAX: usize = UC_PORTS_MAX as usize;

/// A port that has a plan, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortView {
    /// Interface index of the port.
    pub ifindex: u32,
    /// The tenant's number in the plan; 0: none.
    pub tenant: u32,
    /// Number of rules in the plan; 0: nothing of the port is translated.
    pub rules: u32,
    /// Generation of the host's plan that set the port's plan.
    pub generation: u32,
    /// Number of the port's flows in the flow table.
    pub flows: u32,
    /// Number of the port's flows whose peer has not acknowledged the guest's SYN or SYN-ACK yet; `flows` counts them,
    /// too.
    pub half_open: u32,
    /// Number of the port's half-open flows so far whose table entries were taken by newer flows.
    pub displaced: u64,
    /// Maximum number of the port's flows that are not half-open; 0: as many as the table has free entries.
    pub flows_max: u32,
    /// Packets of the port by direction and reason.
    pub counters: Counters,
    /// Record of which of the port's two hooks have seen segments.
    pub hooks: Hooks,
    /// If the port drains, the number of its flows whose peers may send ECT; `None`: it does not drain.
    pub draining: Option<usize>,
}

impl PortView {
    /// Returns how many new flows passed because the port's quota or the table was full.
    pub fn refused(&self) -> u64 {
        let counts = self.counters.iter();
        let full =
            counts.filter(|(reason, _)| ["quota_full", "table_full"].contains(&reason.label()));
        full.map(|(_, packets)| packets).sum()
    }
}

impl Programs {
    /// Returns the ports that have a plan, sorted by index.
    pub fn ports(&self) -> Result<Vec<PortView>, PortError> {
        let states = self.port_states()?.into_iter();
        let leaving = self.leaving()?;
        let echoing = match leaving.is_empty() {
            true => BTreeMap::new(),
            false => self.echoing()?,
        };
        states
            .map(|(ifindex, state)| {
                let draining = leaving.contains(&ifindex);
                let page = self.first_page(ifindex)?.unwrap_or_default();
                Ok(PortView {
                    ifindex,
                    tenant: page.tenant,
                    rules: page.rules.into(),
                    generation: page.generation,
                    flows: state.flows,
                    half_open: state.half_open,
                    displaced: state.displaced,
                    flows_max: page.flows_max,
                    counters: self.counted(&[state.number])?,
                    hooks: self.hooks(state.number)?,
                    draining: draining.then(|| echoing.get(&ifindex).copied().unwrap_or(0)),
                })
            })
            .collect()
    }

    /// Returns the packets of all ports, including former ones.
    pub fn counters(&self) -> Result<Counters, PortError> {
        let states = self.port_states()?;
        let mut numbers = vec![UC_NUMBER_NONE, UC_NUMBER_PAST];
        numbers.extend(states.values().map(|state| state.number));
        self.counted(&numbers)
    }

    pub(crate) fn port_states(&self) -> Result<BTreeMap<u32, uc_port_state>, PortError> {
        let mut states = BTreeMap::new();
        for key in keys(&self.maps.ports, "read the ports")? {
            let state = self
                .port_state(&key)
                .map_err(|error| PortError::from_libbpf("read the ports", &error))?;
            states.extend(number(&key).zip(state));
        }
        Ok(states)
    }

    /// Gives each of these ports a counter index, unless it has one.
    ///
    /// # Errors
    /// [`PortError::TooManyPorts`] if no index is free; the kernel's refusal.
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
            self.forget_remotes(number)?;
            self.write_hooks(number, &Hooks::trusted(now_ns()))?;
            let state = uc_port_state {
                number,
                ..uc_port_state::default()
            };
            self.maps
                .ports
                .update(&ifindex.to_ne_bytes(), state.as_bytes(), MapFlags::NO_EXIST)
                .map_err(|error| {
                    PortError::from_libbpf("add a port to the map of ports", &error)
                })?;
        }
        Ok(())
    }

    /// Forgets what a former port of this number remembered of remote addresses.
    fn forget_remotes(&self, number: u32) -> Result<(), PortError> {
        let empty = vec![0; self.maps.remotes.value_size() as usize];
        for index in number * UC_REMOTES_KEPT..(number + 1) * UC_REMOTES_KEPT {
            self.maps
                .remotes
                .update(&index.to_ne_bytes(), &empty, MapFlags::ANY)
                .map_err(|error| {
                    PortError::from_libbpf(
                        "delete what is known of a port's remote addresses",
                        &error,
                    )
                })?;
        }
        Ok(())
    }

    fn port_state(&self, key: &[u8]) -> libbpf_rs::Result<Option<uc_port_state>> {
        let value = self.maps.ports.lookup(key, MapFlags::ANY)?;
        Ok(value.and_then(|value| read(&value)))
    }

    /// Removes a port; its packets stay in the sum of former ports.
    pub(crate) fn leave_port(&self, ifindex: u32) -> Result<(), PortError> {
        let key = ifindex.to_ne_bytes();
        let failed =
            |error| PortError::from_libbpf(format!("delete port {ifindex} from the maps"), &error);
        let Some(state) = self.port_state(&key).map_err(failed)? else {
            return Ok(());
        };
        self.maps.ports.delete(&key).map_err(failed)?;
        self.fold_counts(state.number)?;
        self.clear_counts(state.number)
    }

    /// Makes the flows that a port has now stale.
    pub(crate) fn forget_until_now(&self, ifindex: u32) -> Result<(), PortError> {
        let key = ifindex.to_ne_bytes();
        let failed = |error| {
            PortError::from_libbpf(format!("mark the flows of port {ifindex} as stale"), &error)
        };
        let Some(state) = self.port_state(&key).map_err(failed)? else {
            return Ok(());
        };
        let state = uc_port_state {
            forget_ns: now_ns(),
            ..state
        };
        let flags = MapFlags::EXIST | MapFlags::LOCK;
        self.maps
            .ports
            .update(&key, state.as_bytes(), flags)
            .map_err(failed)
    }
}
