//! The policy file's tables as they are written. Every key may be absent; defaults and ranges are
//! applied when the file is [resolved](crate::Policy::parse).

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use uc_core::rule::Prefix;
use uc_law::{GroupSize, Law, Parameters, Profile, Shares, Watch};

use crate::agent::AgentTable;
use crate::canary::CanaryTable;
use crate::dscp::Dscp;
use crate::dupack::DupackKey;
use crate::hold::HoldKey;
use crate::list::List;
use crate::pattern::Pattern;
use crate::range::PortRange;
use crate::required::needs;
use crate::split::SplitTable;
use crate::tune::TuneTable;

/// An operator's policy for the ports of a host: an `undercurrent.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Undercurrent's policy")]
pub struct PolicyFile {
    /// Settings that rules and tenants inherit, and the treatment of flows that no rule matches.
    #[serde(default, skip_serializing_if = "is_default")]
    pub defaults: DefaultsTable,
    /// `[[tenant]]`: the tenants of the host and their ports.
    #[serde(default, rename = "tenant", skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantTable>,
    /// Rules for flows; the first that matches a flow decides.
    #[serde(default, rename = "rule", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleTable>,
    /// How the connections of ports with `split = true` are split. If absent, by defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitTable>,
    /// Hosts of the fleet that try this policy first. If absent, all follow it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryTable>,
    /// `[agent]`: settings of the agent itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agent: AgentTable,
}

fn is_default<T: Default + PartialEq>(table: &T) -> bool {
    *table == T::default()
}

/// `[defaults]`: settings that rules and tenants inherit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DefaultsTable {
    /// Treatment of every flow for which no rule has the key.
    #[serde(flatten)]
    pub treatment: TreatmentTable,
    /// Settings of every port for which no tenant has the key.
    #[serde(flatten)]
    pub port: PortTable,
}

/// The keys about a port as a whole, of `[defaults]` and of `[[tenant]]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PortTable {
    /// Weight of the port in the groups that it is in, 1 to 255. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 255))]
    pub weight: Option<i64>,
    /// Maximum number of flows of each port that are translated at once, half-open ones apart; further
    /// flows pass. If absent, as many as the host's flow table has free places.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_777_216))]
    pub flows_max: Option<i64>,
    /// Whether none of the port's flows may go untranslated, unless its rule's law is `pass`: the
    /// parameter `strict` of each rule that does not only observe. Default `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// Whether this host ends the TCP connections of the port's guest itself and opens its own to the far
    /// ends, as `[split]` says. Default `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<bool>,
    /// Whether this host sends the port's guest duplicate ACKs when its flows go silent, and when. Implies
    /// the parameters `no_sack` and `no_timestamps` of each rule whose law acts. Default `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dupack: Option<DupackKey>,
    /// Which packets of the port's guest this host holds: ACKs, which it spreads over a round trip, or data, which it
    /// retransmits, or both. Default `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldKey>,
    /// Sum of windows that the rules' `share` divides. Default `port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum: Option<SumOf>,
    /// Position of the port's programs among those that others attach. Default `before`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// Whether other software on the host drops what the port's guest sends from addresses that are not its
    /// own, MAC and IP. Nothing checks it; `uc status` names ports with a guard without it. Default `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filtered_addresses: Option<bool>,
}

/// The position of a port's programs among those that others attach to its interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Before others, which can then hide no packet from them.
    #[default]
    Before,
    /// After the programs that other software attaches to the port.
    After,
}

/// The set of windows whose sum `share` divides among flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SumOf {
    /// The windows of each port's flows separately.
    #[default]
    Port,
    /// The windows of all ports of a tenant on a host; each port gets a part by its `weight`.
    Tenant,
}

/// `[[tenant]]`: a tenant and its ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = |schema: &mut Schema| needs(schema, &["name", "ports"]))]
pub struct TenantTable {
    /// Name and ports of the tenant.
    #[serde(flatten)]
    pub identity: IdentityTable,
    /// Settings of each of the tenant's ports.
    #[serde(flatten)]
    pub port: PortTable,
}

/// The keys that identify a tenant, its ports and its containers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IdentityTable {
    /// Name of the tenant, unique in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(pattern(r"^[A-Za-z0-9._-]{1,63}$"))]
    pub name: Option<String>,
    /// Ports of the tenant, by name or pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<List<Pattern>>,
    /// Congestion control, initial window and minimum RTO of the connections of the tenant's containers. If absent,
    /// they stay as the containers have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tune: Option<TuneTable>,
}

/// `[[rule]]`: a selection of flows and their treatment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleTable {
    /// Which flows the rule matches.
    #[serde(flatten)]
    pub selection: SelectionTable,
    /// How the rule's flows are treated.
    #[serde(flatten)]
    pub treatment: TreatmentTable,
}

/// The keys that select a rule's flows: all that are given must match. Local is the guest's end,
/// whichever end connects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SelectionTable {
    /// Matches flows of this tenant's ports. Omitted: any tenant's, and ports without a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Ports whose flows match, by name or pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<List<Pattern>>,
    /// Matches flows whose guest has one of these addresses. Omitted: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<List<Prefix>>,
    /// Matches flows whose other end has one of these addresses. Omitted: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<List<Prefix>>,
    /// Matches flows with one of these TCP ports at the guest. Omitted: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_port: Option<List<PortRange>>,
    /// Matches flows with one of these TCP ports at the other end. Omitted: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_port: Option<List<PortRange>>,
    /// Matches flows whose SYN, from either end, has one of these DSCPs: 0 to 63, or a name such as `EF`.
    /// Omitted: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<List<Dscp>>,
}

/// The keys that set the treatment of flows, of `[defaults]` and of `[[rule]]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TreatmentTable {
    /// Congestion control that the network sees; `pass` leaves the flow unmodified. Default `pass`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub law: Option<Law>,
    /// TCP sender that the law's shadow imitates. Default `linux`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Parameters of the law. An omitted parameter has the value of `[defaults]`, else the law's default.
    #[serde(skip_serializing_if = "Parameters::are_default")]
    pub parameters: Parameters,
    /// Whether flows of guests that negotiate ECN themselves pass unmodified, which is the default;
    /// if not, their offer is cleared and they are translated too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub legacy_only: Option<bool>,
    /// Number of SYNs of a flow that request ECN before one goes without, 0 to 255; 255: all.
    /// Default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 255))]
    pub ecn_syns: Option<i64>,
    /// Weight of the flow in the sum of its port's windows, 1 to 255. If absent, it takes no part.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 255))]
    pub share: Option<i64>,
    /// Coupling of the flows of law `coupled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coupling: Option<CouplingTable>,
    /// Start law of the flows. Default `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// Parameters of the start-up control `watch`.
    #[serde(skip_serializing_if = "Watch::are_default")]
    pub watch: Watch,
}

/// The start-up control of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// No start law: flows start as the guest and the law do.
    #[default]
    None,
    /// HWatch: before a flow starts, probes measure how full its path is.
    Watch,
}

/// `coupling = { … }`: the group of the flows of law `coupled`, and its rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CouplingTable {
    /// Number of the group. Ports with different numbers share nothing, ports with the same number
    /// do, whoever owns them. Default: a number of the tenant's own; ports without a tenant are in
    /// one group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub group: Option<i64>,
    /// Length of the IPv4 prefix of remote addresses that identifies a group, 0 to 32. Default 32:
    /// each remote host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32))]
    pub prefix4: Option<i64>,
    /// Length of the IPv6 prefix of remote addresses that identifies a group, 0 to 128. Default
    /// 128: each remote host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 128))]
    pub prefix6: Option<i64>,
    /// Weight of a flow within its port's share, 1 to 255, unless `priorities` has its TCP port.
    /// Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 255))]
    pub priority: Option<i64>,
    /// Weights of flows with a TCP port at either end: `{ 443 = 8 }`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub priorities: BTreeMap<String, i64>,
    /// Quantity of the group that its flows share: `window` or `rate`. Default `window`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// Aggressiveness a, 0 to 1: a group of n is as aggressive as 1 + a · (n − 1) TCPs. Default 0:
    /// as one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub aggressiveness: Option<f64>,
    /// Unit of a group's size n. Default `flows`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<GroupSize>,
    /// Segments that a flow may send at once into a share that other flows' packets still fill, 1
    /// to 65535. Default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub burst: Option<i64>,
}
