//! `uc flows`: what the attached ports know.

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use uc_core::consts;
use uc_port::{Attached, Counters, FlowView, GroupView, MemberView, Programs, Store};

use crate::ports::port_name;

/// Show the ports, their translated flows and what was counted.
#[derive(Args)]
pub struct Flows {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listing {
    ports: Vec<PortRow>,
    flows: Vec<FlowRow>,
    /// Law `coupled`: who shares which window.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<GroupRow>,
    packets: Vec<PacketRow>,
}

#[derive(Serialize)]
struct GroupRow {
    group: u32,
    remote: String,
    window_bytes: u32,
    /// Those that were heard lately.
    flows: u32,
    cuts: u32,
    guests: Vec<GuestRow>,
}

#[derive(Serialize)]
struct GuestRow {
    port: String,
    weight: u32,
    flows: u32,
    share_bytes: u64,
}

#[derive(Serialize)]
struct PortRow {
    ifindex: u32,
    name: Option<String>,
}

#[derive(Serialize)]
struct FlowRow {
    port: String,
    guest: String,
    remote: String,
    stage: &'static str,
    /// Whether the law's state is kept and nothing written.
    observed: bool,
    law: &'static str,
    /// Law `dctcp`: the marked fraction of bytes, as estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    alpha: Option<f64>,
    /// Law `coupled`: the flow's part of its group's window, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    share_bytes: Option<u64>,
    window_bytes: u32,
    flight_bytes: u32,
    mss_bytes: u16,
    srtt_us: u32,
    cuts: u32,
    losses: u32,
    marks: u32,
}

#[derive(Serialize)]
struct PacketRow {
    reason: &'static str,
    packets: u64,
    meaning: &'static str,
}

impl Flows {
    /// Prints; exit status 1 if nothing is attached.
    pub fn execute(self) -> Result<bool> {
        let store = Store::default();
        let listing = match store.open()? {
            Some(programs) => {
                listing(&store, &programs).context("could not read the flow table")?
            }
            None => Listing {
                ports: Vec::new(),
                flows: Vec::new(),
                groups: Vec::new(),
                packets: Vec::new(),
            },
        };
        if self.json {
            println!("{}", serde_json::to_string_pretty(&listing)?);
        } else {
            print_listing(&listing);
        }
        Ok(!listing.ports.is_empty())
    }
}

fn listing(store: &Store, programs: &Programs) -> Result<Listing> {
    let ports = store.attached(programs)?;
    let flows = programs
        .flows()?
        .iter()
        .map(|flow| Ok(flow_row(flow, programs.member(flow)?, &ports)))
        .collect::<Result<_>>()?;
    let groups = programs.groups()?;
    let groups = groups.iter().map(|group| group_row(group, &ports));
    let groups = groups.collect();
    let packets = packet_rows(&programs.counters()?);
    let ports = ports
        .into_iter()
        .map(|port| PortRow {
            ifindex: port.ifindex,
            name: port.name,
        })
        .collect();
    Ok(Listing {
        ports,
        flows,
        groups,
        packets,
    })
}

fn packet_rows(counters: &Counters) -> Vec<PacketRow> {
    counters
        .iter()
        .map(|(reason, packets)| PacketRow {
            reason: reason.label(),
            packets,
            meaning: reason.meaning(),
        })
        .collect()
}

fn name_of(ifindex: u32, ports: &[Attached]) -> String {
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

fn flow_row(flow: &FlowView, member: Option<MemberView>, ports: &[Attached]) -> FlowRow {
    let state = &flow.state;
    let is_dctcp = u32::from(state.policy.law) == consts::LAW_DCTCP;
    FlowRow {
        port: name_of(flow.ifindex, ports),
        guest: flow.guest.to_string(),
        remote: flow.remote.to_string(),
        stage: uc_core::stage_label(state),
        observed: state.policy.observe != 0,
        law: uc_core::law_label(state),
        alpha: is_dctcp.then(|| f64::from(state.dctcp.alpha_q30) / f64::from(1 << 30)),
        share_bytes: member.map(|member| member.share_bytes),
        window_bytes: uc_core::window_bytes(state),
        flight_bytes: state.snd_nxt.wrapping_sub(state.snd_una),
        mss_bytes: state.mss_bytes,
        srtt_us: state.srtt_us >> 3,
        cuts: state.cuts,
        losses: state.losses,
        marks: state.marks,
    }
}

fn print_listing(listing: &Listing) {
    if listing.ports.is_empty() {
        println!("no port is attached; `uc attach PORT` attaches one");
        return;
    }
    let names: Vec<String> = listing
        .ports
        .iter()
        .map(|port| {
            port.name
                .clone()
                .unwrap_or_else(|| port.ifindex.to_string())
        })
        .collect();
    println!("ports: {}\n", names.join(", "));
    println!(
        "{:<10} {:<28} {:<28} {:<12} {:<7} {:>7} {:>9} {:>9} {:>9} {:>8} {:>6} {:>6}",
        "port",
        "guest",
        "remote",
        "stage",
        "law",
        "alpha %",
        "share B",
        "window B",
        "flight B",
        "RTT us",
        "cuts",
        "losses"
    );
    for flow in &listing.flows {
        let alpha = flow
            .alpha
            .map_or_else(String::new, |alpha| format!("{:.2}", 100.0 * alpha));
        println!(
            "{:<10} {:<28} {:<28} {:<12} {:<7} {:>7} {:>9} {:>9} {:>9} {:>8} {:>6} {:>6}",
            flow.port,
            flow.guest,
            flow.remote,
            if flow.observed {
                "observed"
            } else {
                flow.stage
            },
            flow.law,
            alpha,
            flow.share_bytes
                .map_or_else(String::new, |share| share.to_string()),
            flow.window_bytes,
            flow.flight_bytes,
            flow.srtt_us,
            flow.cuts,
            flow.losses
        );
    }
    print_groups(&listing.groups);
    println!("\n{:>12}  packets by reason", "");
    for row in listing.packets.iter().filter(|row| row.packets > 0) {
        println!("{:>12}  {}: {}", row.packets, row.reason, row.meaning);
    }
}

fn print_groups(groups: &[GroupRow]) {
    for group in groups {
        println!(
            "\ngroup {} to {}: window {} bytes, {} flows send, {} cuts",
            group.group, group.remote, group.window_bytes, group.flows, group.cuts
        );
        for guest in &group.guests {
            println!(
                "  {}, weight {}: {} bytes, {} flows send",
                guest.port, guest.weight, guest.share_bytes, guest.flows
            );
        }
    }
}
