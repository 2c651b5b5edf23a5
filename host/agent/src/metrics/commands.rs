//! Samples of the commands that the agent runs for ports, `uc split` and `uc dupack`; none while they have nothing
//! to do.

use uc_client::state::{CommandState, SplitState};
use uc_dupack::Counts;
use uc_split::Totals;

use super::reading::Reading;
use super::rows::{Row, labelled, one, whose};

/// Returns a sample for each port for which the policy wants the command: 1 if it works for it.
fn works<S>(reading: &Reading, state: Option<&CommandState<S>>) -> Vec<Row> {
    let Some(state) = state else {
        return Vec::new();
    };
    let runs = |name: &String| u64::from(state.process.is_some() && state.ports.contains(name));
    let wanted = |name: &String| state.ports.contains(name) || state.refused.contains_key(name);
    let ports = reading.state.ports.iter();
    ports
        .filter(|port| wanted(&port.name))
        .map(|port| Row {
            labels: whose(reading, port.ifindex),
            value: runs(&port.name),
        })
        .collect()
}

/// Returns how often the command's process was started.
fn starts<S>(state: Option<&CommandState<S>>) -> Vec<Row> {
    state.map_or_else(Vec::new, |state| one(state.starts))
}

/// Returns whether new connections are split, by port.
pub(super) fn split_ports(reading: &Reading) -> Vec<Row> {
    works(reading, reading.state.split.as_ref())
}

/// Returns how often `uc split` was started.
pub(super) fn split_starts(reading: &Reading) -> Vec<Row> {
    starts(reading.state.split.as_ref())
}

fn by_totals(reading: &Reading, rows: impl FnOnce(&Totals) -> Vec<Row>) -> Vec<Row> {
    let process = |split: &SplitState| split.process.clone();
    let process = reading.state.split.as_ref().and_then(process);
    process.map_or_else(Vec::new, |process| rows(&process.done.totals))
}

/// Returns the number of connections that are split now.
pub(super) fn split_open(reading: &Reading) -> Vec<Row> {
    by_totals(reading, |totals| one(totals.open))
}

/// Returns the connections that have ended, by how.
pub(super) fn split_ended(reading: &Reading) -> Vec<Row> {
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
pub(super) fn split_bytes(reading: &Reading) -> Vec<Row> {
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

/// Returns whether guests get duplicate ACKs, by port.
pub(super) fn dupack_ports(reading: &Reading) -> Vec<Row> {
    works(reading, reading.state.dupack.as_ref())
}

/// Returns how often `uc dupack` was started.
pub(super) fn dupack_starts(reading: &Reading) -> Vec<Row> {
    starts(reading.state.dupack.as_ref())
}

/// Returns samples of each port at which `uc dupack` sends, by what was sent there.
fn by_counts<const N: usize>(
    reading: &Reading,
    samples: impl Fn(&Counts) -> [(Option<&'static str>, u64); N],
) -> Vec<Row> {
    let dupack = reading.state.dupack.as_ref();
    let Some(process) = dupack.and_then(|dupack| dupack.process.as_ref()) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for port in &reading.state.ports {
        let counts = process.done.counts.get(&port.name);
        for (result, value) in counts.into_iter().flat_map(&samples) {
            let mut labels = whose(reading, port.ifindex);
            labels.extend(result.map(|result| ("result", result.to_owned())));
            rows.push(Row { labels, value });
        }
    }
    rows
}

/// Returns the duplicate ACKs that were sent, by port.
pub(super) fn dupack_sent(reading: &Reading) -> Vec<Row> {
    by_counts(reading, |counts| [(None, counts.duplicate_acks)])
}

/// Returns the rounds of duplicate ACKs, by port and by whether they were sent.
pub(super) fn dupack_rounds(reading: &Reading) -> Vec<Row> {
    by_counts(reading, |counts| {
        [
            (Some("sent"), counts.rounds),
            (Some("unknown_guest"), counts.unknown_guests),
        ]
    })
}
