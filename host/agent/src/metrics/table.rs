//! The table of metrics. docs/metrics.md, the dashboard and the exposition must agree with it.

use uc_client::AgentState;
use uc_client::state::{CanaryStage, EtcdState, PolicySource};
use uc_port::PortView;

use super::commands;
use super::ports::{by_plan, by_port, port_packets, port_seen};
use super::reading::{Kernel, Reading};
use super::rows::{Row, labelled, one};
use super::tunes;

/// The Prometheus type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A counter, which only increases until its source restarts. Its samples' names end in
    /// `_total`.
    Counter,
    /// A gauge, which increases and decreases.
    Gauge,
}

/// A metric and the function that computes its samples.
pub struct Metric {
    /// Name of the metric, without the suffix `_total` of counters.
    pub name: &'static str,
    /// Description: one sentence without its full stop.
    pub help: &'static str,
    /// Prometheus type of the metric.
    pub kind: Kind,
    /// Names of the metric's labels.
    pub labels: &'static [&'static str],
    /// Computes the metric's samples from what one scrape read.
    pub rows: fn(&Reading) -> Vec<Row>,
}

fn by_kernel(reading: &Reading, value: fn(&Kernel) -> u64) -> Vec<Row> {
    let kernel = reading.kernel.as_ref();
    kernel.map_or_else(Vec::new, |kernel| one(value(kernel)))
}

fn by_etcd(reading: &Reading, value: fn(&EtcdState) -> u64) -> Vec<Row> {
    let etcd = reading.state.etcd.as_ref();
    etcd.map_or_else(Vec::new, |etcd| one(value(etcd)))
}

fn info(reading: &Reading) -> Vec<Row> {
    let state = &reading.state;
    let source = match state.policy.source {
        PolicySource::None => "none",
        PolicySource::File => "file",
        PolicySource::Etcd => "etcd",
        PolicySource::Kept => "kept",
    };
    vec![Row {
        labels: vec![
            ("version", state.version.clone()),
            ("source", source.to_owned()),
            ("hash", state.policy.hash.clone()),
        ],
        value: 1,
    }]
}

fn packets(reading: &Reading) -> Vec<Row> {
    let counted = reading
        .kernel
        .iter()
        .flat_map(|kernel| kernel.counters.iter());
    counted
        .map(|(reason, packets)| labelled("reason", reason.label(), packets))
        .collect()
}

fn waits(state: &AgentState) -> bool {
    let canary = state.canary.as_ref();
    canary.is_some_and(|canary| canary.stage == CanaryStage::Waits)
}

fn reloads(reading: &Reading) -> Vec<Row> {
    let counts = &reading.state.counts;
    vec![
        labelled("result", "accepted", counts.reloads),
        labelled("result", "refused", counts.reloads_refused),
    ]
}

fn changes(reading: &Reading) -> Vec<Row> {
    let counts = &reading.state.counts;
    vec![
        labelled("change", "attached", counts.attached),
        labelled("change", "detached", counts.detached),
        labelled("change", "failed", counts.failures),
    ]
}

const PORT: &[&str] = &["port", "tenant"];

/// All metrics, in the order of the exposition.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "uc_agent_info",
        help: "Always 1; the labels are the agent's version, and the policy's source and checksum",
        kind: Kind::Gauge,
        labels: &["version", "source", "hash"],
        rows: info,
    },
    Metric {
        name: "uc_agent_start_time_seconds",
        help: "When the agent started, in seconds of Unix time",
        kind: Kind::Gauge,
        labels: &[],
        rows: |reading| one(reading.state.started_unix_s),
    },
    Metric {
        name: "uc_in_force",
        help: "1 if everything that the policy wants is in force",
        kind: Kind::Gauge,
        labels: &[],
        rows: |reading| one(reading.state.is_in_force().into()),
    },
    Metric {
        name: "uc_policy_generation",
        help: "Policies that were put into force in this agent's life",
        kind: Kind::Gauge,
        labels: &[],
        rows: |reading| one(reading.state.policy.generation),
    },
    Metric {
        name: "uc_policy_accepted",
        help: "1 if the policies that were read last are in force, 0 if one was refused",
        kind: Kind::Gauge,
        labels: &[],
        rows: |reading| one(reading.state.reads().all(|read| read.accepted).into()),
    },
    Metric {
        name: "uc_policy_waits",
        help: "1 if a policy waits until the fleet's canaries have tried it",
        kind: Kind::Gauge,
        labels: &[],
        rows: |reading| one(waits(&reading.state).into()),
    },
    Metric {
        name: "uc_policy_reads",
        help: "Policies that were read, by result",
        kind: Kind::Counter,
        labels: &["result"],
        rows: reloads,
    },
    Metric {
        name: "uc_etcd_connected",
        help: "1 if the agent follows etcd at this moment; missing without etcd",
        kind: Kind::Gauge,
        labels: &[],
        rows: |reading| by_etcd(reading, |etcd| etcd.connected.into()),
    },
    Metric {
        name: "uc_etcd_revision",
        help: "The newest revision of etcd that the agent has received; missing without etcd",
        kind: Kind::Gauge,
        labels: &[],
        rows: |reading| by_etcd(reading, |etcd| etcd.revision.max(0).unsigned_abs()),
    },
    Metric {
        name: "uc_etcd_losses",
        help: "Connections to etcd that were lost or could not be made",
        kind: Kind::Counter,
        labels: &[],
        rows: |reading| one(reading.state.counts.etcd_losses),
    },
    Metric {
        name: "uc_reconciles",
        help: "Times that the ports were compared with the policy",
        kind: Kind::Counter,
        labels: &[],
        rows: |reading| one(reading.state.counts.reconciles),
    },
    Metric {
        name: "uc_netlink_overruns",
        help: "Times that notifications of interfaces were lost and all interfaces were read again",
        kind: Kind::Counter,
        labels: &[],
        rows: |reading| one(reading.state.counts.netlink_overruns),
    },
    Metric {
        name: "uc_port_changes",
        help: "Ports attached and detached, and attempts that failed",
        kind: Kind::Counter,
        labels: &["change"],
        rows: changes,
    },
    Metric {
        name: "uc_port_attached",
        help: "1 if the programs are on the port",
        kind: Kind::Gauge,
        labels: PORT,
        rows: |reading| by_port(reading, |port| port.attached.into()),
    },
    Metric {
        name: "uc_port_in_force",
        help: "1 if the port is as the policy wants it, or an operator holds it",
        kind: Kind::Gauge,
        labels: PORT,
        rows: |reading| {
            by_port(reading, |port| {
                (port.withdrawn || port.attached && port.error.is_none()).into()
            })
        },
    },
    Metric {
        name: "uc_port_rules",
        help: "Rules of the policy that are about the port",
        kind: Kind::Gauge,
        labels: PORT,
        rows: |reading| by_port(reading, |port| port.rules.into()),
    },
    Metric {
        name: "uc_port_flows_max",
        help: "Flows that the port may have, half-open ones apart; 0: as many as the table has free places",
        kind: Kind::Gauge,
        labels: PORT,
        rows: |reading| by_port(reading, |port| port.flows_max.into()),
    },
    Metric {
        name: "uc_port_flows",
        help: "Flows of the port in the table",
        kind: Kind::Gauge,
        labels: PORT,
        rows: |reading| by_plan(reading, |port| port.flows.into()),
    },
    Metric {
        name: "uc_port_flows_half_open",
        help: "Of the port's flows those whose peer has not acknowledged the guest's SYN or SYN-ACK",
        kind: Kind::Gauge,
        labels: PORT,
        rows: |reading| by_plan(reading, |port| port.half_open.into()),
    },
    Metric {
        name: "uc_port_flows_draining",
        help: "While the port drains, its flows whose peers may send ECT",
        kind: Kind::Gauge,
        labels: PORT,
        rows: |reading| by_plan(reading, |port| port.draining.unwrap_or(0) as u64),
    },
    Metric {
        name: "uc_port_flows_displaced",
        help: "Half-open flows of the port that lost their places to newer ones",
        kind: Kind::Counter,
        labels: PORT,
        rows: |reading| by_plan(reading, |port| port.displaced),
    },
    Metric {
        name: "uc_port_flows_refused",
        help: "New flows of the port that passed because its quota or the table was full",
        kind: Kind::Counter,
        labels: PORT,
        rows: |reading| by_plan(reading, PortView::refused),
    },
    Metric {
        name: "uc_port_packets",
        help: "Packets of the port, by outcome: translated, passed unmodified, dropped",
        kind: Kind::Counter,
        labels: &["port", "tenant", "outcome"],
        rows: port_packets,
    },
    Metric {
        name: "uc_port_seen_packets",
        help: "Packets that the port's two programs saw, by direction: from_guest, to_guest",
        kind: Kind::Counter,
        labels: &["port", "tenant", "direction"],
        rows: port_seen,
    },
    Metric {
        name: "uc_port_half_blind",
        help: "1 if one of the port's two programs does not see its packets",
        kind: Kind::Gauge,
        labels: PORT,
        rows: |reading| by_plan(reading, |port| port.half_blind().is_some().into()),
    },
    Metric {
        name: "uc_port_split",
        help: "1 if the port's new connections are split; missing unless the policy splits them",
        kind: Kind::Gauge,
        labels: PORT,
        rows: commands::split_ports,
    },
    Metric {
        name: "uc_split_starts",
        help: "Times that `uc split` was started; missing while nothing is split, as what follows",
        kind: Kind::Counter,
        labels: &[],
        rows: commands::split_starts,
    },
    Metric {
        name: "uc_split_open",
        help: "Connections that are split",
        kind: Kind::Gauge,
        labels: &[],
        rows: commands::split_open,
    },
    Metric {
        name: "uc_split_ended",
        help: "Split connections that ended, by result: orderly, reset, refused, too_many",
        kind: Kind::Counter,
        labels: &["result"],
        rows: commands::split_ended,
    },
    Metric {
        name: "uc_split_bytes",
        help: "Bytes of split connections, by direction: from_guest, to_guest",
        kind: Kind::Counter,
        labels: &["direction"],
        rows: commands::split_bytes,
    },
    Metric {
        name: "uc_port_dupack",
        help: "1 if the port's guest gets duplicate ACKs of the host; missing unless the policy wants them",
        kind: Kind::Gauge,
        labels: PORT,
        rows: commands::dupack_ports,
    },
    Metric {
        name: "uc_dupack_starts",
        help: "Times that `uc dupack` was started; missing while no port has duplicate ACKs, as what follows",
        kind: Kind::Counter,
        labels: &[],
        rows: commands::dupack_starts,
    },
    Metric {
        name: "uc_dupack_sent",
        help: "Duplicate ACKs that the host sent to the port's guest",
        kind: Kind::Counter,
        labels: PORT,
        rows: commands::dupack_sent,
    },
    Metric {
        name: "uc_dupack_rounds",
        help: "Rounds of duplicate ACKs, by result: sent, unknown_guest (the guest's Ethernet address is unknown)",
        kind: Kind::Counter,
        labels: &["port", "tenant", "result"],
        rows: commands::dupack_rounds,
    },
    Metric {
        name: "uc_port_hold",
        help: "1 if the host holds packets of the port's guest; missing unless the policy wants it",
        kind: Kind::Gauge,
        labels: PORT,
        rows: commands::hold_ports,
    },
    Metric {
        name: "uc_hold_starts",
        help: "Times that `uc hold` was started; missing while no port's packets are held, as what follows",
        kind: Kind::Counter,
        labels: &[],
        rows: commands::hold_starts,
    },
    Metric {
        name: "uc_hold_packets",
        help: "Packets of the port that went through `uc hold`",
        kind: Kind::Counter,
        labels: PORT,
        rows: commands::hold_packets,
    },
    Metric {
        name: "uc_hold_acks",
        help: "ACKs that the guest got later, additionally or not at all, by result: paced, added, hidden",
        kind: Kind::Counter,
        labels: &["port", "tenant", "result"],
        rows: commands::hold_acks,
    },
    Metric {
        name: "uc_hold_retransmits",
        help: "Segments of the port's guest that the host retransmitted",
        kind: Kind::Counter,
        labels: PORT,
        rows: commands::hold_retransmits,
    },
    Metric {
        name: "uc_hold_timeouts",
        help: "Expired timeouts of the host for flows of the port",
        kind: Kind::Counter,
        labels: PORT,
        rows: commands::hold_timeouts,
    },
    Metric {
        name: "uc_hold_unheld",
        help: "Packets of the port that were not held for lack of memory",
        kind: Kind::Counter,
        labels: PORT,
        rows: commands::hold_unheld,
    },
    Metric {
        name: "uc_hold_passed",
        help: "Packets of held flows that passed, because the process was too slow or the packet too large",
        kind: Kind::Counter,
        labels: &[],
        rows: commands::hold_passed,
    },
    Metric {
        name: "uc_tuned_groups",
        help: "Control groups of the tenant's containers that are tuned; missing unless the policy tunes some, as what follows",
        kind: Kind::Gauge,
        labels: &["tenant"],
        rows: tunes::groups,
    },
    Metric {
        name: "uc_tuned_connections",
        help: "Connections so far of the tenant's tuned control groups that exist",
        kind: Kind::Gauge,
        labels: &["tenant"],
        rows: tunes::connections,
    },
    Metric {
        name: "uc_tuned_refused",
        help: "Settings that the kernel refused to these connections",
        kind: Kind::Gauge,
        labels: &["tenant"],
        rows: tunes::refused,
    },
    Metric {
        name: "uc_tune_failed",
        help: "Control groups that the policy tunes and that can't be tuned",
        kind: Kind::Gauge,
        labels: &[],
        rows: tunes::failed,
    },
    Metric {
        name: "uc_flows_max",
        help: "Places of the flow table: a flow takes one, or two under law delay or coupled, or with share",
        kind: Kind::Gauge,
        labels: &[],
        rows: |reading| by_kernel(reading, |kernel| kernel.flows_max.into()),
    },
    Metric {
        name: "uc_places_taken",
        help: "Places of the flow table that are taken",
        kind: Kind::Gauge,
        labels: &[],
        rows: |reading| by_kernel(reading, |kernel| kernel.places_taken.into()),
    },
    Metric {
        name: "uc_maps_bytes",
        help: "Memory of the kernel that the programs' maps take",
        kind: Kind::Gauge,
        labels: &[],
        rows: |reading| by_kernel(reading, |kernel| kernel.memory_bytes),
    },
    Metric {
        name: "uc_packets",
        help: "Packets that the programs processed, by reason",
        kind: Kind::Counter,
        labels: &["reason"],
        rows: packets,
    },
    Metric {
        name: "uc_counters_failed",
        help: "1 if the programs' counters could not be read",
        kind: Kind::Gauge,
        labels: &[],
        rows: |reading| one(reading.failed.into()),
    },
];
