//! `uc guest` for coupled connections: their policy, groups and priorities.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use uc_guest::{CouplingPolicy, Ctrltcp, GroupState, Store, cookie, cookie_at};

/// Options of `load ctrltcp` for its groups.
#[derive(Args)]
pub struct CouplingOptions {
    /// Bits of an IPv4 remote address that identify a group: connections to addresses that agree in
    /// them share one window; 32 by default. 0: one group for all of IPv4, and for IPv6 too if both
    /// are 0
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(0..=32))]
    prefix4: Option<u8>,
    /// Bits of an IPv6 remote address that identify a group; 128 by default: one group per remote
    /// host
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(0..=128))]
    prefix6: Option<u8>,
    /// Give each network namespace groups of its own; by default connections of all namespaces to
    /// one remote prefix form one group, of which each namespace is a guest
    #[arg(long)]
    apart: bool,
    /// Aggressiveness of a group of n: 0, the default, like one TCP; 100 like n TCPs
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    aggressiveness: Option<u8>,
    /// Divide the rate, not the window: a longer round trip does not mean a smaller share
    #[arg(long)]
    by_rate: bool,
}

impl CouplingOptions {
    /// Returns the policy for the programs.
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

    /// Returns the name of the first option that was given.
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

/// Give a network namespace a weight in its groups, or its flows with a TCP port a priority.
///
/// Existing connections follow at their next ACK. The default weight and priority is 1.
#[derive(Args)]
pub struct Priority {
    /// The weight of the namespace, or with --port the priority of the flows, 1 to 255; twice the
    /// number is twice the share
    #[arg(value_parser = clap::value_parser!(u8).range(1..))]
    priority: u8,
    /// Set the priority of flows with this TCP port at either end, instead of the namespace's
    /// weight
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// A network namespace: a name of `ip netns`, a process id, or a path; by default the current
    /// one
    #[arg(long, value_name = "NETNS")]
    netns: Option<String>,
    /// The --name that was given to `uc guest load ctrltcp`
    #[arg(long, value_name = "NAME", default_value = Ctrltcp::NAME)]
    name: String,
}

impl Priority {
    /// Sets the weight and prints what is in force.
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

/// Returns the path of a network namespace, named as in ip-netns(8) and ip-link(8).
pub fn netns_path(name: &str) -> PathBuf {
    if name.contains('/') {
        PathBuf::from(name)
    } else if name.bytes().all(|byte| byte.is_ascii_digit()) {
        Path::new("/proc").join(name).join("ns/net")
    } else {
        Path::new("/run/netns").join(name)
    }
}

/// The groups of one `ctrltcp`, as `list` shows them.
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
    /// Whether the window is this guest's share of one that the host divides among guests.
    by_host: bool,
    connections: u32,
    /// Flows that reported in this epoch or the last.
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
    /// Reads the groups of everything that is loaded.
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
