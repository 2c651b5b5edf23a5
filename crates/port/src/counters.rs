//! Packets by reason.

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags};
use uc_core::Reason;

use crate::error::PortError;
use crate::programs::Programs;

/// Packets that the programs saw, by reason, all ports and CPUs together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<Reason, u64>);

impl Counters {
    /// Packets counted under this reason.
    pub fn get(&self, reason: Reason) -> u64 {
        self.0.get(&reason).copied().unwrap_or(0)
    }

    /// All reasons with their packets, zeroes too.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        self.0.iter().map(|(reason, packets)| (*reason, *packets))
    }
}

impl Programs {
    /// Reads the counters.
    pub fn counters(&self) -> Result<Counters, PortError> {
        let mut counters = BTreeMap::new();
        for reason in Reason::all() {
            let per_cpu = self
                .reasons
                .lookup_percpu(&reason.code().to_ne_bytes(), MapFlags::ANY)
                .map_err(|error| PortError::from_libbpf("read the counters", &error))?;
            let packets = per_cpu
                .into_iter()
                .flatten()
                .filter_map(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?)))
                .sum();
            counters.insert(reason, packets);
        }
        Ok(Counters(counters))
    }
}
