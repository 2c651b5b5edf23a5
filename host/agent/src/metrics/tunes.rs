//! Samples of tuned containers. There are none while the policy names no control groups.

use std::collections::BTreeMap;

use uc_client::state::TunedGroup;

use super::reading::Reading;
use super::rows::{Row, labelled, one};

/// Returns for each tenant the sum of `value` over its tuned control groups.
fn by_tenant(reading: &Reading, value: fn(&TunedGroup) -> u64) -> Vec<Row> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    let groups = reading.state.tune.iter().flat_map(|tune| &tune.groups);
    for group in groups {
        *sums.entry(&group.tenant).or_default() += value(group);
    }
    let sums = sums.into_iter();
    sums.map(|(tenant, sum)| labelled("tenant", tenant, sum))
        .collect()
}

/// Returns the number of tuned control groups, by tenant.
pub(super) fn groups(reading: &Reading) -> Vec<Row> {
    by_tenant(reading, |_| 1)
}

/// Returns the number of connections of the tuned control groups, by tenant.
pub(super) fn connections(reading: &Reading) -> Vec<Row> {
    by_tenant(reading, |group| group.connections)
}

/// Returns how many settings the kernel refused to connections of tuned control groups, by tenant.
pub(super) fn refused(reading: &Reading) -> Vec<Row> {
    by_tenant(reading, |group| group.refused)
}

/// Returns the number of control groups that the policy wants tuned and that can't be.
pub(super) fn failed(reading: &Reading) -> Vec<Row> {
    let tune = reading.state.tune.as_ref();
    tune.map_or_else(Vec::new, |tune| one(tune.refused.len() as u64))
}
