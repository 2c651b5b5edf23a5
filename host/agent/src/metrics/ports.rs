//! Samples of ports: what the agent and the kernel know of each.

use uc_client::state::PortState;
use uc_core::Reason;
use uc_port::{Direction, PortView};

use super::reading::Reading;
use super::rows::{Row, whose};

/// Returns a sample for each port of the policy.
pub(super) fn by_port(reading: &Reading, value: fn(&PortState) -> u64) -> Vec<Row> {
    let row = |port: &PortState| Row {
        labels: vec![
            ("port", port.name.clone()),
            ("tenant", port.tenant.clone().unwrap_or_default()),
        ],
        value: value(port),
    };
    reading.state.ports.iter().map(row).collect()
}

/// Returns a sample for each port that has a plan, labelled by the name and the tenant that the agent knows for the
/// port.
pub(super) fn by_plan(reading: &Reading, value: fn(&PortView) -> u64) -> Vec<Row> {
    let ports = reading.kernel.iter().flat_map(|kernel| &kernel.ports);
    ports
        .map(|port| Row {
            labels: whose(reading, port.ifindex),
            value: value(port),
        })
        .collect()
}

/// Returns the outcome of packets that are counted under this reason: `translated`, `dropped` or `passed`.
fn outcome(reason: Reason) -> &'static str {
    match reason {
        reason if reason.is_under_law() => "translated",
        reason if reason.drops() => "dropped",
        _ => "passed",
    }
}

/// Returns the number of packets of each port, by outcome.
pub(super) fn port_packets(reading: &Reading) -> Vec<Row> {
    let mut rows = Vec::new();
    for port in reading.kernel.iter().flat_map(|kernel| &kernel.ports) {
        for what in ["translated", "passed", "dropped"] {
            let counted = port.counters.iter();
            let own = counted.filter(|(reason, _)| outcome(*reason) == what);
            let mut labels = whose(reading, port.ifindex);
            labels.push(("outcome", what.to_owned()));
            rows.push(Row {
                labels,
                value: own.map(|(_, packets)| packets).sum(),
            });
        }
    }
    rows
}

/// Returns the number of packets that each port's programs processed, by direction.
pub(super) fn port_seen(reading: &Reading) -> Vec<Row> {
    let ports = reading.kernel.iter().flat_map(|kernel| &kernel.ports);
    let row = |port: &PortView, direction: Direction| {
        let mut labels = whose(reading, port.ifindex);
        labels.push(("direction", direction.label().to_owned()));
        Row {
            labels,
            value: port.counters.seen(direction),
        }
    };
    ports
        .flat_map(|port| Direction::BOTH.map(|direction| row(port, direction)))
        .collect()
}
