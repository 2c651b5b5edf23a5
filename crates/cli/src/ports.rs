//! `uc attach`, `uc detach`, `uc flows`: by hand, on any interface.

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;
use uc_experiment::{Law, Profile};
use uc_port::{AttachVia, Attached, Counters, DEFAULT_FLOWS_MAX, FlowView, Programs, Store};

use crate::live::policy;

/// Translate the flows of these ports from now on.
///
/// PORT is the host's side of a guest's interface: a VM's tap, a container's veth. Flows that are
/// under way pass untouched; new ones are translated. The programs are pinned: they stay when this
/// command has ended, until `uc detach`.
#[derive(Args)]
pub struct Attach {
    /// Interfaces of this host
    #[arg(required = true, value_name = "PORT")]
    ports: Vec<String>,
    /// The congestion control law that the network sees
    #[arg(long, value_enum, default_value = "ecn")]
    law: LawName,
    /// Whose habits the law's shadow has
    #[arg(long, value_enum, default_value = "linux")]
    profile: ProfileName,
    /// How many SYNs of a flow ask for ECN before one goes without (RFC 3168 §6.1.1.1); 255: all
    #[arg(long, value_name = "N", default_value_t = 2)]
    ecn_syns: u8,
    /// Flows that the table has room for; settled when the first port is attached
    #[arg(long, value_name = "N", default_value_t = DEFAULT_FLOWS_MAX)]
    flows_max: u32,
    /// How to attach
    #[arg(long, value_enum, default_value = "auto")]
    via: Via,
}

#[derive(Clone, Copy, ValueEnum)]
enum LawName {
    /// NewReno that obeys ECN (RFC 3168)
    Ecn,
    /// Leave every flow alone, only count
    Pass,
}

#[derive(Clone, Copy, ValueEnum)]
enum ProfileName {
    /// As a Linux neighbour does it
    Linux,
    /// RFC 5681 and RFC 6582 to the letter
    Rfc,
}

#[derive(Clone, Copy, ValueEnum)]
enum Via {
    /// TCX where the kernel has it (6.6 on), else clsact
    Auto,
    /// TCX only
    Tcx,
    /// A filter on a clsact qdisc
    Clsact,
}

impl Attach {
    /// Attaches all of the ports, or none.
    pub fn execute(self) -> Result<bool> {
        let law = match self.law {
            LawName::Ecn => Law::Ecn,
            LawName::Pass => Law::Pass,
        };
        let profile = match self.profile {
            ProfileName::Linux => Profile::Linux,
            ProfileName::Rfc => Profile::Rfc,
        };
        let via = match self.via {
            Via::Auto => AttachVia::Auto,
            Via::Tcx => AttachVia::Tcx,
            Via::Clsact => AttachVia::Clsact,
        };
        let policy = policy(law, profile, self.ecn_syns);
        let store = Store::default();
        store.attach_all(&self.ports, &policy, via, self.flows_max)?;
        for port in &self.ports {
            println!("{port}: attached; new flows are translated, those under way pass");
        }
        Ok(true)
    }
}

/// Take the programs off these ports. Every connection lives on.
#[derive(Args)]
pub struct Detach {
    /// Interfaces of this host
    #[arg(required_unless_present = "all", value_name = "PORT")]
    ports: Vec<String>,
    /// Every port that is attached, those whose interface has gone too
    #[arg(long, conflicts_with = "ports")]
    all: bool,
}

impl Detach {
    /// Detaches.
    pub fn execute(self) -> Result<bool> {
        let store = Store::default();
        let _turn = store.lock()?;
        let Some(programs) = store.open()? else {
            if self.all {
                println!("nothing is attached");
                return Ok(true);
            }
            bail!(
                "nothing is attached on this host, so neither is '{}'",
                self.ports.join("', '")
            );
        };
        if self.all {
            for port in store.attached(&programs)? {
                store.detach_index(&programs, port.ifindex)?;
                println!("{}: detached", port_name(&port));
            }
            return Ok(true);
        }
        for port in &self.ports {
            store.detach(&programs, port)?;
            println!("{port}: detached");
        }
        Ok(true)
    }
}

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
    packets: Vec<PacketRow>,
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
        .map(|flow| flow_row(flow, &ports))
        .collect();
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

fn port_name(port: &Attached) -> String {
    port.name
        .clone()
        .unwrap_or_else(|| format!("interface {} (gone)", port.ifindex))
}

fn flow_row(flow: &FlowView, ports: &[Attached]) -> FlowRow {
    let state = &flow.state;
    let port = ports.iter().find(|port| port.ifindex == flow.ifindex);
    FlowRow {
        port: port.map_or_else(|| flow.ifindex.to_string(), port_name),
        guest: flow.guest.to_string(),
        remote: flow.remote.to_string(),
        stage: uc_core::stage_label(state),
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
        "{:<10} {:<28} {:<28} {:<12} {:>9} {:>9} {:>8} {:>6} {:>6}",
        "port", "guest", "remote", "stage", "window B", "flight B", "RTT us", "cuts", "losses"
    );
    for flow in &listing.flows {
        println!(
            "{:<10} {:<28} {:<28} {:<12} {:>9} {:>9} {:>8} {:>6} {:>6}",
            flow.port,
            flow.guest,
            flow.remote,
            flow.stage,
            flow.window_bytes,
            flow.flight_bytes,
            flow.srtt_us,
            flow.cuts,
            flow.losses
        );
    }
    println!("\n{:>12}  packets by reason", "");
    for row in listing.packets.iter().filter(|row| row.packets > 0) {
        println!("{:>12}  {}: {}", row.packets, row.reason, row.meaning);
    }
}
