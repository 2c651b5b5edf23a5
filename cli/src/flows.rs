//! `uc flows`: the state of the attached ports and their flows.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use uc_port::{PortCoupling, Store};

use crate::seen::{Filter, FlowRow, GroupRow, Order, Seen, rates};
use crate::truth;

/// Show ports, translated flows and packet counters.
#[derive(Args)]
pub struct Flows {
    /// Column by which flows are sorted
    #[arg(long, value_enum, default_value = "name")]
    sort: Order,
    /// Show only flows that meet all conditions, separated by spaces: 'law=dctcp port=vnet*'. Keys:
    /// law; port, with *; stage: syn-sent, syn-received, translating; limit: law, handshake, closed,
    /// repair, receiver, guest; guest and remote: an address, prefix, ADDRESS:PORT or :PORT
    #[arg(long, value_name = "CONDITIONS")]
    filter: Vec<Filter>,
    /// Maximum number of flows to print [default: no limit]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Measure each flow's goodput over this many milliseconds (1000 if no number follows), by reading the flow table
    /// twice
    #[arg(long, value_name = "MILLISECONDS", num_args = 0..=1, default_missing_value = "1000",
          value_parser = clap::value_parser!(u64).range(10..=60_000))]
    rates: Option<u64>,
    /// Show the kernel's own congestion window, slow-start threshold and round-trip time of each
    /// guest's socket beside those of the flow's shadow, where the guest is a container: a port that
    /// is a veth, whose other end is in a network namespace of this host
    #[arg(long)]
    truth: bool,
    /// Print ports, flows and counters as one JSON object
    #[arg(long)]
    json: bool,
}

/// Time between two reads of the flow table, in milliseconds, if the sort order needs goodput and --rates is not given.
const RATES_MS: u64 = 1000;

impl Flows {
    /// Prints ports, flows and counters. Returns false, for exit status 1, if no port is attached.
    pub fn execute(self) -> Result<bool> {
        let store = Store::default();
        let by_rate = self.sort.needs_rates().then_some(RATES_MS);
        let mut seen = match self.rates.or(by_rate) {
            Some(milliseconds) => read_twice(&store, Duration::from_millis(milliseconds))?,
            None => Seen::read(&store)?,
        };
        let filter = self.filter.into_iter().fold(Filter::default(), Filter::and);
        seen.flows.retain(|flow| filter.shows(flow));
        self.sort.sort(&mut seen.flows);
        seen.flows.truncate(self.limit.unwrap_or(usize::MAX));
        if self.truth {
            truth::read(&store, &mut seen)?;
        }
        if self.json {
            outln!("{}", serde_json::to_string_pretty(&seen)?);
        } else {
            print_seen(&seen);
        }
        Ok(!seen.ports.is_empty())
    }
}

fn read_twice(store: &Store, apart: Duration) -> Result<Seen> {
    let (first, since) = (Seen::read(store)?, Instant::now());
    std::thread::sleep(apart);
    let mut seen = Seen::read(store)?;
    rates::measure(&first.flows, &mut seen.flows, since.elapsed());
    Ok(seen)
}

fn print_seen(seen: &Seen) {
    if seen.ports.is_empty() {
        outln!("no port is attached; `uc attach PORT` attaches one");
        return;
    }
    let name = |port: &crate::seen::PortRow| {
        let index = || port.ifindex.to_string();
        port.name.clone().unwrap_or_else(index)
    };
    let names: Vec<String> = seen.ports.iter().map(name).collect();
    outln!("ports: {}\n", names.join(", "));
    if let Some(summary) = &seen.truth {
        truth::print(&seen.flows, summary);
        return;
    }
    print_flows(&seen.flows);
    print_groups(&seen.groups);
    outln!("\n{:>12}  packets by reason", "");
    for row in seen.packets.iter().filter(|row| row.packets > 0) {
        outln!("{:>12}  {}: {}", row.packets, row.reason, row.meaning);
    }
}

fn print_flows(flows: &[FlowRow]) {
    let rates = flows.iter().any(|flow| flow.sent_bits_per_s.is_some());
    outln!(
        "{:<10} {:<28} {:<28} {:<12} {:<7} {:<9} {:>7} {:>9} {:>9} {:>9} {:>8} {:>6} {:>6}{}",
        "port",
        "guest",
        "remote",
        "stage",
        "law",
        "limit",
        "alpha %",
        "share B",
        "window B",
        "flight B",
        "RTT us",
        "cuts",
        "losses",
        if rates {
            "         sent     received"
        } else {
            ""
        }
    );
    for flow in flows {
        print_flow(flow, rates);
    }
}

fn print_flow(flow: &FlowRow, rates: bool) {
    let alpha = flow
        .alpha
        .map_or_else(String::new, |alpha| format!("{:.2}", 100.0 * alpha));
    let share = flow
        .share_bytes
        .map_or_else(String::new, |share| share.to_string());
    let rate = |rate: Option<u64>| rate.map_or_else(String::new, rates::in_words);
    let rates = if rates {
        format!(
            " {:>12} {:>12}",
            rate(flow.sent_bits_per_s),
            rate(flow.received_bits_per_s)
        )
    } else {
        String::new()
    };
    outln!(
        "{:<10} {:<28} {:<28} {:<12} {:<7} {:<9} {:>7} {:>9} {:>9} {:>9} {:>8} {:>6} {:>6}{rates}",
        flow.port_and_vlan(),
        flow.guest,
        flow.remote,
        if flow.observed {
            "observed"
        } else {
            &flow.stage
        },
        flow.law,
        flow.limit.label(),
        alpha,
        share,
        flow.window_bytes,
        flow.flight_bytes,
        flow.srtt_us,
        flow.cuts,
        flow.losses
    );
}

fn print_groups(groups: &[GroupRow]) {
    for group in groups {
        outln!(
            "\n{}: window {} bytes, {} flows send, {} cuts",
            group_name(group),
            group.window_bytes,
            group.flows,
            group.cuts
        );
        for guest in &group.guests {
            outln!(
                "  {}, weight {}: {} bytes, {} flows send",
                guest.port,
                guest.weight,
                guest.share_bytes,
                guest.flows
            );
        }
    }
}

/// Returns a name for a group: the operator's number, the tenant or the port that its flows share, and the prefix of
/// their remote hosts.
fn group_name(group: &GroupRow) -> String {
    let whose = match group.group {
        PortCoupling::TENANT.. => "group of a tenant".to_owned(),
        PortCoupling::OWN.. => match group.guests.first() {
            Some(guest) => format!("group of port {}", guest.port),
            None => "group of a port".to_owned(),
        },
        number => format!("group {number}"),
    };
    let any = ["::", "0.0.0.0"].contains(&group.remote.as_str());
    let remote = if any { "all hosts" } else { &group.remote };
    format!("{whose}, to {remote}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::GuestRow;

    #[test]
    fn groups_are_named_after_the_operators_number_the_tenant_or_the_port() {
        let group = |number, remote: &str| GroupRow {
            group: number,
            remote: remote.to_owned(),
            window_bytes: 1,
            flows: 1,
            cuts: 0,
            guests: vec![GuestRow {
                port: "vnet3".to_owned(),
                weight: 1,
                flows: 1,
                share_bytes: 1,
            }],
        };
        let port = PortCoupling::OWN | 3;
        let tenant = PortCoupling::of_tenant(9);
        for (number, remote, name) in [
            (1, "10.0.0.0", "group 1, to 10.0.0.0"),
            (port, "::", "group of port vnet3, to all hosts"),
            (tenant, "10.0.0.9", "group of a tenant, to 10.0.0.9"),
        ] {
            assert_eq!(group_name(&group(number, remote)), name);
        }
    }
}
