//! Samples of the commands that the agent runs for ports, `uc split`, `uc dupack` and `uc hold`; none while they have
//! nothing to do.

use std::collections::BTreeMap;

use uc_client::state::{CommandState, SplitState};
use uc_hold::dupack::Counts;
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

/// Returns samples of each port at which a command works, from its counters there.
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

/// Returns the duplicate ACKs that were sent, by port.
pub(super) fn dupack_sent(reading: &Reading) -> Vec<Row> {
    let counts = dupack_counts(reading);
    by_counts(reading, counts, |counts| [(None, counts.duplicate_acks)])
}

/// Returns the rounds of duplicate ACKs, by port and by whether they were sent.
pub(super) fn dupack_rounds(reading: &Reading) -> Vec<Row> {
    by_counts(reading, dupack_counts(reading), |counts| {
        [
            (Some("sent"), counts.rounds),
            (Some("unknown_guest"), counts.unknown_guests),
        ]
    })
}

/// Returns whether packets are held, by port.
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

/// Returns samples of these counters of each port whose packets are held, each with its label.
fn by_held<const N: usize>(
    reading: &Reading,
    counters: [(Option<&'static str>, &str); N],
) -> Vec<Row> {
    by_counts(reading, held(reading).map(|done| &done.counts), |counts| {
        counters.map(|(label, name)| (label, counts.get(name).copied().unwrap_or_default()))
    })
}

/// Returns the packets that went through `uc hold`, by port.
pub(super) fn hold_packets(reading: &Reading) -> Vec<Row> {
    by_held(reading, [(None, "packets")])
}

/// Returns the ACKs that guests got otherwise than they came, by port and by what was done.
pub(super) fn hold_acks(reading: &Reading) -> Vec<Row> {
    let results = [
        (Some("paced"), "acks_paced"),
        (Some("added"), "acks_added"),
        (Some("hidden"), "dupacks_hidden"),
    ];
    by_held(reading, results)
}

/// Returns the retransmissions of the host, by port.
pub(super) fn hold_retransmits(reading: &Reading) -> Vec<Row> {
    by_held(reading, [(None, "retransmits")])
}

/// Returns the host's expired timeouts, by port.
pub(super) fn hold_timeouts(reading: &Reading) -> Vec<Row> {
    by_held(reading, [(None, "timeouts")])
}

/// Returns the packets that were not held for lack of memory, by port.
pub(super) fn hold_unheld(reading: &Reading) -> Vec<Row> {
    by_held(reading, [(None, "packets_unheld")])
}

/// Returns the packets of held flows that passed.
pub(super) fn hold_passed(reading: &Reading) -> Vec<Row> {
    held(reading).map_or_else(Vec::new, |done| one(done.passed))
}
