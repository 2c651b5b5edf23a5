//! Samples of split connections; none while nothing is split.

use uc_client::state::SplitState;
use uc_split::Totals;

use super::reading::Reading;
use super::rows::{Row, labelled, one, whose};

/// Returns a sample for each port that the policy splits: 1 if its new connections are split.
pub(super) fn ports(reading: &Reading) -> Vec<Row> {
    let Some(split) = &reading.state.split else {
        return Vec::new();
    };
    let runs = |name: &String| u64::from(split.process.is_some() && split.ports.contains(name));
    let wanted = |name: &String| split.ports.contains(name) || split.refused.contains_key(name);
    let ports = reading.state.ports.iter();
    ports
        .filter(|port| wanted(&port.name))
        .map(|port| Row {
            labels: whose(reading, port.ifindex),
            value: runs(&port.name),
        })
        .collect()
}

/// Returns how often the process was started.
pub(super) fn starts(reading: &Reading) -> Vec<Row> {
    let split = reading.state.split.as_ref();
    split.map_or_else(Vec::new, |split| one(split.starts))
}

fn by_totals(reading: &Reading, rows: impl FnOnce(&Totals) -> Vec<Row>) -> Vec<Row> {
    let process = |split: &SplitState| split.process.clone();
    let process = reading.state.split.as_ref().and_then(process);
    process.map_or_else(Vec::new, |process| rows(&process.totals))
}

/// Returns the number of connections that are split now.
pub(super) fn open(reading: &Reading) -> Vec<Row> {
    by_totals(reading, |totals| one(totals.open))
}

/// Returns the connections that have ended, by how.
pub(super) fn ended(reading: &Reading) -> Vec<Row> {
    by_totals(reading, |totals| {
        let ends = [
            ("orderly", totals.orderly),
            ("reset", totals.reset),
            ("refused", totals.refused),
            ("too_many", totals.too_many),
        ];
        ends.map(|(end, count)| labelled("result", end, count))
            .into()
    })
}

/// Returns the bytes that were moved, by direction.
pub(super) fn bytes(reading: &Reading) -> Vec<Row> {
    by_totals(reading, |totals| {
        let moved = [
            ("from_guest", totals.bytes_to_far_ends),
            ("to_guest", totals.bytes_to_guests),
        ];
        moved
            .map(|(way, bytes)| labelled("direction", way, bytes))
            .into()
    })
}
