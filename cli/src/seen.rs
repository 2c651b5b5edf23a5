//! The state of the programs on this host's ports at one moment. `uc flows` lists it, `uc status` summarizes it, `uc
//! top` draws it, and `uc explain` gives details.

pub mod clock;
pub mod filter;
pub mod flow;
pub mod order;
pub mod rates;
pub mod shadow;
pub mod truth;

use std::borrow::Cow;
use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use uc_core::Law;
use uc_core::law::Trait;
use uc_port::{Attached, Counters, FlowView, GroupView, Programs, Store};

use crate::ports::port_name;
pub use filter::Filter;
pub use flow::{FlowRow, Limit};
pub use order::Order;
pub use truth::TruthSummary;

/// What `uc flows --json` prints. The form is stable: fields are added, none is renamed or removed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// The ports that have the programs.
    pub ports: Vec<PortRow>,
    /// The flows of all attached ports in the flow table.
    pub flows: Vec<FlowRow>,
    /// The groups of flows that share windows, by law `coupled` or --share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupRow>,
    /// Packets since the programs were loaded, by reason.
    pub packets: Vec<PacketRow>,
    /// Differences between the flows' shadows and the kernel's values of guests' sockets; `None` unless --truth asks
    /// for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truth: Option<TruthSummary>,
}

/// A port that has the programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PortRow {
    /// Index of the port's interface.
    pub ifindex: u32,
    /// Name of the port's interface; `None` if the interface is gone.
    pub name: Option<String>,
    /// Number of the port's flows in the table.
    pub flows: u64,
    /// Packets that the port has dropped since the programs were loaded.
    #[serde(default)]
    pub dropped: u64,
}

/// A group of flows that share a window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupRow {
    /// Number that identifies the ports of the group: the operator's (`--group`), or a number that stands for a tenant
    /// or a single port.
    pub group: u32,
    /// Prefix of the remote addresses that belong to the group.
    pub remote: String,
    /// The window that the group's flows share, in bytes.
    pub window_bytes: u32,
    /// Number of the group's flows that reported in this epoch or the last.
    pub flows: u32,
    /// Number of times that the group's window was reduced.
    pub cuts: u32,
    /// The guests that share the group's window.
    pub guests: Vec<GuestRow>,
}

/// A guest of a group, with its share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuestRow {
    /// Name of the guest's port.
    pub port: String,
    /// Weight of the guest relative to the group's other guests, 1 to 255.
    pub weight: u32,
    /// Number of the guest's flows that reported in this epoch or the last.
    pub flows: u32,
    /// The guest's part of the group's window, in bytes.
    pub share_bytes: u64,
}

/// The number of packets with one reason.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PacketRow {
    /// The reason of the packets' treatment, spelled as in metrics.
    pub reason: Cow<'static, str>,
    /// Number of packets, summed over all ports and CPUs.
    pub packets: u64,
    /// What the reason means, in words.
    pub meaning: Cow<'static, str>,
}

impl Seen {
    /// Reads ports, flows, groups and counters through the store's pins; empty if nothing is pinned.
    pub fn read(store: &Store) -> Result<Seen> {
        let Some(programs) = store.open()? else {
            return Ok(Seen::default());
        };
        Self::read_programs(store, &programs).context("could not read the ports' flow table")
    }

    /// Reads ports and flows through programs that are open already.
    pub fn read_programs(store: &Store, programs: &Programs) -> Result<Seen> {
        let attached = store.attached(programs)?;
        let flows: Vec<FlowRow> = programs
            .flows()?
            .iter()
            .map(|flow| flow_row(programs, flow, &attached))
            .collect::<Result<_>>()?;
        let groups = programs.groups()?;
        let views = programs.ports()?.into_iter();
        let dropped: BTreeMap<u32, u64> = views
            .map(|view| (view.ifindex, drops(&view.counters)))
            .collect();
        Ok(Seen {
            groups: groups
                .iter()
                .map(|group| group_row(group, &attached))
                .collect(),
            packets: packet_rows(&programs.counters()?),
            truth: None,
            ports: attached
                .into_iter()
                .map(|port| {
                    let dropped = dropped.get(&port.ifindex).copied();
                    port_row(port, &flows, dropped.unwrap_or(0))
                })
                .collect(),
            flows,
        })
    }
}

/// Returns a flow's row, with its share of a group's window if it has one.
pub fn flow_row(programs: &Programs, flow: &FlowView, ports: &[Attached]) -> Result<FlowRow> {
    // a group's weight makes a flow of any law a member (uc_is_coupled() in core/laws/coupled.h)
    let coupled = Law::of(&flow.state.policy).has(Trait::GROUPED) || flow.state.share != 0;
    let member = if coupled {
        programs.member(flow)?
    } else {
        None
    };
    let share_bytes = member.map(|member| member.share_bytes);
    Ok(FlowRow::new(
        flow,
        name_of(flow.ifindex, ports),
        share_bytes,
    ))
}

fn drops(counters: &Counters) -> u64 {
    let dropped = counters.iter().filter(|(reason, _)| reason.drops());
    dropped.map(|(_, packets)| packets).sum()
}

fn port_row(port: Attached, flows: &[FlowRow], dropped: u64) -> PortRow {
    let own = flows.iter().filter(|flow| flow.ifindex == port.ifindex);
    PortRow {
        ifindex: port.ifindex,
        name: port.name,
        flows: own.count() as u64,
        dropped,
    }
}

pub(crate) fn packet_rows(counters: &Counters) -> Vec<PacketRow> {
    counters
        .iter()
        .map(|(reason, packets)| PacketRow {
            reason: reason.label().into(),
            packets,
            meaning: reason.meaning().into(),
        })
        .collect()
}

/// Returns the port's name for rows; the interface's index if the port is no longer attached.
pub fn name_of(ifindex: u32, ports: &[Attached]) -> String {
    let port = ports.iter().find(|port| port.ifindex == ifindex);
    port.map_or_else(|| ifindex.to_string(), port_name)
}

fn group_row(group: &GroupView, ports: &[Attached]) -> GroupRow {
    let guests = group.guests.iter().map(|guest| GuestRow {
        port: name_of(guest.ifindex, ports),
        weight: guest.weight,
        flows: guest.flows,
        share_bytes: guest.share_bytes,
    });
    GroupRow {
        group: group.number,
        remote: group.remote.to_string(),
        window_bytes: group.window_bytes,
        flows: group.flows,
        cuts: group.cuts,
        guests: guests.collect(),
    }
}
