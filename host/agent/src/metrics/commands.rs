//! Samples of the commands that the agent runs for ports: `uc split`, `uc dupack` and `uc hold`. A command that has
//! nothing to do has no samples.

use std::collections::BTreeMap;

use uc_client::state::{CommandState, SplitState};
use uc_hold::dupack::Counts;
use uc_split::Totals;

use super::reading::Reading;
use super::rows::{Row, labelled, one, whose};

/// Returns a sample for each port for which the policy wants the command: 1 if the command's process runs and serves
/// the port, otherwise 0.
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

/// Returns how often the command's process was started; no sample if `state` is `None`.
fn starts<S>(state: Option<&CommandState<S>>) -> Vec<Row> {
    state.map_or_else(Vec::new, |state| one(state.starts))
}

/// Returns for each port that the policy wants split: 1 if new connections are split, otherwise 0.
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

/// Returns the number of split connections that have ended, by how they ended.
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

/// Returns the bytes that split connections have moved, by direction.
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

/// Returns for each port whose guest should get duplicate ACKs of the host: 1 if `uc dupack` sends them, otherwise 0.
pub(super) fn dupack_ports(reading: &Reading) -> Vec<Row> {
    works(reading, reading.state.dupack.as_ref())
}

/// Returns how often `uc dupack` was started.
pub(super) fn dupack_starts(reading: &Reading) -> Vec<Row> {
    starts(reading.state.dupack.as_ref())
}

/// Returns the samples that `samples` makes of each port's counters; its label is the value of `result`, or `None` for
/// a sample without that label. A port without counters has no sample.
fn by_counts<C, const N: usize>(
    reading: &Reading,
    of_ports: Option<&BTreeMap<String, C>>,
    samples: impl Fn(&C) -> [(Option<&'static str>, u64); N],
) -> Vec<Row> {
    let mut rows = Vec::new();
    for port in &reading.state.ports {
        let counts = of_ports.and_then(|of_ports| of_ports.get(&port.name));
        for (result, value) in counts.into_iter().flat_map(&samples) {
            let mut labels = whose(reading, port.ifindex);
            labels.extend(result.map(|result| ("result", result.to_owned())));
            rows.push(Row { labels, value });
        }
    }
    rows
}

fn dupack_counts(reading: &Reading) -> Option<&BTreeMap<String, Counts>> {
    let process = reading.state.dupack.as_ref()?.process.as_ref()?;
    Some(&process.done.counts)
}

/// Returns the number of duplicate ACKs that `uc dupack` sent, by port.
pub(super) fn dupack_sent(reading: &Reading) -> Vec<Row> {
    let counts = dupack_counts(reading);
    by_counts(reading, counts, |counts| [(None, counts.duplicate_acks)])
}

/// Returns the rounds of duplicate ACKs by port: those that were sent, and those that were not because the guest's
/// address is unknown.
pub(super) fn dupack_rounds(reading: &Reading) -> Vec<Row> {
    by_counts(reading, dupack_counts(reading), |counts| {
        [
            (Some("sent"), counts.rounds),
            (Some("unknown_guest"), counts.unknown_guests),
        ]
    })
}

/// Returns for each port whose packets should be held: 1 if `uc hold` holds them, otherwise 0.
pub(super) fn hold_ports(reading: &Reading) -> Vec<Row> {
    works(reading, reading.state.hold.as_ref())
}

/// Returns how often `uc hold` was started.
pub(super) fn hold_starts(reading: &Reading) -> Vec<Row> {
    starts(reading.state.hold.as_ref())
}

fn held(reading: &Reading) -> Option<&uc_hold::Done> {
    let process = reading.state.hold.as_ref()?.process.as_ref()?;
    Some(&process.done)
}

/// Returns samples of these counters for each port whose packets are held. Each counter has its label's value (`None`:
/// no label) and its name.
fn by_held<const N: usize>(
    reading: &Reading,
    counters: [(Option<&'static str>, &str); N],
) -> Vec<Row> {
    by_counts(reading, held(reading).map(|done| &done.counts), |counts| {
        counters.map(|(label, name)| (label, counts.get(name).copied().unwrap_or_default()))
    })
}

/// Returns the number of packets that went through `uc hold`, by port.
pub(super) fn hold_packets(reading: &Reading) -> Vec<Row> {
    by_held(reading, [(None, "packets")])
}

/// Returns the number of ACKs to guests that `uc hold` treated, by port and by treatment: delayed, added or removed.
pub(super) fn hold_acks(reading: &Reading) -> Vec<Row> {
    let results = [
        (Some("paced"), "acks_paced"),
        (Some("added"), "acks_added"),
        (Some("hidden"), "dupacks_hidden"),
    ];
    by_held(reading, results)
}

/// Returns the number of retransmissions by `uc hold`, by port.
pub(super) fn hold_retransmits(reading: &Reading) -> Vec<Row> {
    by_held(reading, [(None, "retransmits")])
}

/// Returns the number of expired retransmission timeouts of `uc hold`, by port.
pub(super) fn hold_timeouts(reading: &Reading) -> Vec<Row> {
    by_held(reading, [(None, "timeouts")])
}

/// Returns the number of packets that were not held for lack of memory, by port.
pub(super) fn hold_unheld(reading: &Reading) -> Vec<Row> {
    by_held(reading, [(None, "packets_unheld")])
}

/// Returns the number of packets of held flows that passed because `uc hold` was too slow or the packet too large.
pub(super) fn hold_passed(reading: &Reading) -> Vec<Row> {
    held(reading).map_or_else(Vec::new, |done| one(done.passed))
}
