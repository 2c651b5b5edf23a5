//! `uc guest` for coupled connections: their policy, groups and priorities.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use uc_guest::{CouplingPolicy, Ctrltcp, GroupState, Store, cookie, cookie_at};

/// Options of `uc guest load ctrltcp` that define groups.
#[derive(Args)]
pub struct CouplingOptions {
    /// Length in bits of the IPv4 remote prefix that identifies a group: connections to addresses with the
    /// same prefix share one window. 0: one group for all of IPv4, and for IPv6 too if --prefix6 is 0 as
    /// well [default: 32]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(0..=32))]
    prefix4: Option<u8>,
    /// Length in bits of the IPv6 remote prefix that identifies a group; 128: one group per remote host
    /// [default: 128]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(0..=128))]
    prefix6: Option<u8>,
    /// Give each network namespace groups of its own. Without the option, connections of all namespaces to
    /// one remote prefix form one group, and each namespace gets a share of it by its weight
    #[arg(long)]
    apart: bool,
    /// Aggressiveness of a group of n connections, in percent: 0 like one TCP, 100 like n TCPs [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    aggressiveness: Option<u8>,
    /// Divide the group's rate instead of its window, so that a connection with a longer round-trip time
    /// does not get a smaller share
    #[arg(long)]
    by_rate: bool,
}

impl CouplingOptions {
    /// Returns the coupling policy for the BPF programs of `ctrltcp`.
    pub fn policy(&self) -> CouplingPolicy {
        let usual = CouplingPolicy::default();
        CouplingPolicy {
            prefix4: self.prefix4.unwrap_or(usual.prefix4),
            prefix6: self.prefix6.unwrap_or(usual.prefix6),
            apart: self.apart,
            aggressiveness_q16: u32::from(self.aggressiveness.unwrap_or(0)) * 65_536 / 100,
            by_rate: self.by_rate,
            ..usual
        }
    }

    /// Returns the name of the first of these options that was given; `None` if none was.
    pub fn given(&self) -> Option<&'static str> {
        let all = [
            ("prefix4", self.prefix4.is_some()),
            ("prefix6", self.prefix6.is_some()),
            ("apart", self.apart),
            ("aggressiveness", self.aggressiveness.is_some()),
            ("by-rate", self.by_rate),
        ];
        all.iter().find(|(_, given)| *given).map(|(name, _)| *name)
    }
}

/// Give a network namespace a weight in the groups of its connections, or give a priority to its connections
/// with a TCP port.
///
/// Existing connections use the new value from their next ACK on. The default weight and priority is 1.
#[derive(Args)]
pub struct Priority {
    /// Weight of the namespace, or with --port priority of the connections: 1 to 255; twice the number gets
    /// twice the share of the group's window
    #[arg(value_parser = clap::value_parser!(u8).range(1..))]
    priority: u8,
    /// Set the priority of connections with this TCP port at either end, instead of the namespace's weight
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Network namespace: a name of `ip netns`, a process id, or a path [default: the current one]
    #[arg(long, value_name = "NETNS")]
    netns: Option<String>,
    /// Name of the congestion control: the --name that was given to `uc guest load ctrltcp`
    #[arg(long, value_name = "NAME", default_value = Ctrltcp::NAME)]
    name: String,
}

impl Priority {
    /// Sets the weight or priority, and prints what is in force.
    pub fn execute(self, store: &Store) -> Result<bool> {
        let groups = store.groups(&self.name)?;
        let (netns, whose) = match &self.netns {
            Some(name) => (cookie_at(&netns_path(name))?, name.as_str()),
            None => (cookie()?, "this namespace"),
        };
        match self.port {
            Some(port) => {
                groups.set_priority(netns, port, self.priority)?;
                outln!("port {port} of {whose}: priority {}", self.priority);
            }
            None => {
                groups.set_weight(netns, self.priority)?;
                outln!("{whose}: weight {}", self.priority);
            }
        }
        Ok(true)
    }
}

/// Returns the path of a network namespace from its name in `ip netns`, a process ID or a path.
pub fn netns_path(name: &str) -> PathBuf {
    if name.contains('/') {
        PathBuf::from(name)
    } else if name.bytes().all(|byte| byte.is_ascii_digit()) {
        Path::new("/proc").join(name).join("ns/net")
    } else {
        Path::new("/run/netns").join(name)
    }
}

/// One group of a `ctrltcp`, as `uc guest list` shows it.
#[derive(Serialize)]
pub struct CouplingRow {
    name: String,
    groups: Vec<GroupRow>,
}

#[derive(Serialize)]
struct GroupRow {
    remote: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    netns: Option<u64>,
    window_bytes: u32,
    /// Whether the window is this guest's share of a window that the host divides among guests.
    by_host: bool,
    connections: u32,
    /// Number of the group's flows that reported in this epoch or the last.
    flows: u32,
    cuts: u32,
    guests: Vec<GuestRow>,
}

#[derive(Serialize)]
struct GuestRow {
    netns: u64,
    weight: u32,
    connections: u32,
    flows: u32,
    share_bytes: u64,
}

impl From<GroupState> for GroupRow {
    fn from(group: GroupState) -> Self {
        let guests = group.guests.iter().map(|guest| GuestRow {
            netns: guest.netns,
            weight: guest.weight,
            connections: guest.connections,
            flows: guest.flows,
            share_bytes: guest.share_bytes,
        });
        Self {
            remote: group.remote.to_string(),
            netns: group.netns,
            window_bytes: group.window_bytes,
            by_host: group.by_host,
            connections: group.connections,
            flows: group.flows,
            cuts: group.cuts,
            guests: guests.collect(),
        }
    }
}

impl CouplingRow {
    /// Reads the groups of all loaded `ctrltcp` congestion controls.
    pub fn all(store: &Store) -> Result<Vec<Self>> {
        let row = |name: String| {
            let groups = store.groups(&name)?.list()?;
            let groups = groups.into_iter().map(GroupRow::from).collect();
            Ok(Self { name, groups })
        };
        store.couplings()?.into_iter().map(row).collect()
    }

    /// Prints a line for each group, and below it one for each guest.
    pub fn print(&self) {
        for group in &self.groups {
            outln!(
                "{}: to {}, window {} bytes{}, {} of {} connections send, {} cuts",
                self.name,
                group.remote,
                group.window_bytes,
                if group.by_host { " by the host" } else { "" },
                group.flows,
                group.connections,
                group.cuts
            );
            for guest in &group.guests {
                outln!(
                    "  namespace {}, weight {}: {} bytes, {} of {} connections send",
                    guest.netns,
                    guest.weight,
                    guest.share_bytes,
                    guest.flows,
                    guest.connections
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_named_as_ip_netns_does_by_process_or_by_path() {
        for (name, path) in [
            ("blue", "/run/netns/blue"),
            ("1234", "/proc/1234/ns/net"),
            ("/proc/self/ns/net", "/proc/self/ns/net"),
        ] {
            assert_eq!(netns_path(name), Path::new(path));
        }
    }
}
