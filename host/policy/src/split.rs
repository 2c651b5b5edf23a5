//! `[split]`: how the connections of ports with `split = true` are split.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control;
use crate::fault::Faults;
use crate::list::List;
use crate::range::PortRange;

/// `[split]`: how connections are split. A host has one process for all of its ports, so a policy has one
/// such table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SplitTable {
    /// Congestion control towards the far end, as in the sysctl net.ipv4.tcp_available_congestion_control.
    /// Default: the host's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(pattern(r"^[A-Za-z0-9_-]{1,15}$"))]
    pub congestion_control: Option<String>,
    /// Whether the far end is asked for Multipath TCP. Default `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mptcp: Option<bool>,
    /// Whether connections that others open to the guests are split, too. Default `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inbound: Option<bool>,
    /// TCP ports: only connections that are opened to one of them are split. Default: all connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_ports: Option<List<PortRange>>,
}

/// How connections of split ports are split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Congestion control towards the far end; `None`: the host's.
    pub congestion_control: Option<String>,
    /// Whether the far end is asked for Multipath TCP.
    pub mptcp: bool,
    /// Whether connections that others open to the guests are split, too.
    pub inbound: bool,
    /// TCP ports, in ascending order: only connections that are opened to one of them are split. Empty: all
    /// connections.
    pub tcp_ports: Vec<PortRange>,
}

impl SplitTable {
    /// Resolves the table; `is_used`: some ports are split.
    pub(crate) fn resolve(&self, is_used: bool, faults: &mut Faults<'_>) -> Split {
        if !is_used {
            let message = "changes nothing, because no port is split; add split = true to a [[tenant]] or \
                           to [defaults], or leave it out";
            faults.add("split", message);
        }
        if let Some(name) = &self.congestion_control {
            control::check("split.congestion_control", name, faults);
        }
        let ports = self.tcp_ports.as_ref();
        let ports = ports.map(|ports| ports.read("split.tcp_ports", faults));
        Split {
            congestion_control: self.congestion_control.clone(),
            mptcp: self.mptcp.unwrap_or(false),
            inbound: self.inbound.unwrap_or(false),
            tcp_ports: PortRange::merged(ports.unwrap_or_default()),
        }
    }
}
