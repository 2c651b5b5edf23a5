//! Packets counted by direction and reason.

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags};
use uc_core::Reason;

use crate::direction::Direction;
use crate::error::PortError;
use crate::layout::{UC_NUMBER_PAST, uc_counts};
use crate::programs::Programs;

/// Number of packets that the programs processed, by direction and reason, summed over all CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters([BTreeMap<Reason, u64>; 2]);

impl Counters {
    /// Returns the packets counted under this reason, of both directions.
    pub fn get(&self, reason: Reason) -> u64 {
        let packets = self.0.iter().map(|counted| counted.get(&reason).copied());
        packets.map(Option::unwrap_or_default).sum()
    }

    /// Returns all reasons with their packets of both directions, including zeros.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        self.0[0].keys().map(|&reason| (reason, self.get(reason)))
    }

    /// Returns the packets that the hook of this direction saw, whatever their reason.
    pub fn seen(&self, direction: Direction) -> u64 {
        self.0[direction.index()].values().sum()
    }
}

impl FromIterator<(Direction, Reason, u64)> for Counters {
    fn from_iter<T: IntoIterator<Item = (Direction, Reason, u64)>>(packets: T) -> Counters {
        let none = || Reason::all().map(|reason| (reason, 0)).collect();
        let mut counters = Counters([none(), none()]);
        for (direction, reason, packets) in packets {
            *counters.0[direction.index()].entry(reason).or_default() += packets;
        }
        counters
    }
}

/// One CPU's packets under one counter index: those from the guest, then those to the guest, each in
/// the order of the reasons.
type Counts = Vec<u64>;

fn counts_of(bytes: &[u8]) -> Counts {
    let words = bytes.chunks_exact(size_of::<u64>());
    words
        .filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)))
        .collect()
}

const COUNTS_BYTES: usize = size_of::<uc_counts>();

impl Programs {
    /// Returns the packets that were counted under these indices of the counter map, summed.
    pub(crate) fn counted(&self, numbers: &[u32]) -> Result<Counters, PortError> {
        let mut counted = Vec::new();
        for &number in numbers {
            for counts in self.counts(number)? {
                let reasons = Direction::BOTH
                    .into_iter()
                    .flat_map(|direction| Reason::all().map(move |reason| (direction, reason)));
                let rows = reasons.zip(counts);
                counted.extend(rows.map(|((of, reason), packets)| (of, reason, packets)));
            }
        }
        Ok(counted.into_iter().collect())
    }

    fn counts(&self, number: u32) -> Result<Vec<Counts>, PortError> {
        let per_cpu = self
            .maps
            .counts
            .lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| PortError::from_libbpf("read the counters", &error))?;
        Ok(per_cpu
            .iter()
            .flatten()
            .map(|bytes| counts_of(bytes))
            .collect())
    }

    /// Adds the counts of one index to those of ports that no longer exist.
    pub(crate) fn fold_counts(&self, number: u32) -> Result<(), PortError> {
        let (past, more) = (self.counts(UC_NUMBER_PAST)?, self.counts(number)?);
        let sums = past.iter().zip(&more).map(|(past, more)| {
            let words = past.iter().zip(more).map(|(past, more)| past + more);
            words.flat_map(u64::to_ne_bytes).collect()
        });
        self.write_counts(UC_NUMBER_PAST, &sums.collect::<Vec<_>>())
    }

    pub(crate) fn clear_counts(&self, number: u32) -> Result<(), PortError> {
        let cpus = self.counts(number)?.len();
        self.write_counts(number, &vec![vec![0; COUNTS_BYTES]; cpus])
    }

    fn write_counts(&self, number: u32, per_cpu: &[Vec<u8>]) -> Result<(), PortError> {
        self.maps
            .counts
            .update_percpu(&number.to_ne_bytes(), per_cpu, MapFlags::ANY)
            .map_err(|error| PortError::from_libbpf("write the counters", &error))
    }
}
