//! The policy file's tables as they are written. Every key may be absent; what that means, and
//! which values can be, is settled when the file is [resolved](crate::Policy::parse).

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use uc_core::rule::Prefix;
use uc_law::{GroupSize, Law, Parameters, Profile, Shares, Watch};

use crate::agent::AgentTable;
use crate::dscp::Dscp;
use crate::list::List;
use crate::pattern::Pattern;
use crate::range::PortRange;

/// What an operator wants of this host's ports: an `undercurrent.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Undercurrent's policy")]
pub struct PolicyFile {
    /// What holds where a rule or a tenant says nothing, and for flows that no rule is about.
    #[serde(default, skip_serializing_if = "is_default")]
    pub defaults: DefaultsTable,
    /// Who has which ports.
    #[serde(default, rename = "tenant", skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantTable>,
    /// Which flows get what; of those that match a flow, the first holds.
    #[serde(default, rename = "rule", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleTable>,
    /// The agent's own settings.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agent: AgentTable,
}

fn is_default<T: Default + PartialEq>(table: &T) -> bool {
    *table == T::default()
}

/// `[defaults]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DefaultsTable {
    /// Of every flow.
    #[serde(flatten)]
    pub treatment: TreatmentTable,
    /// Of every port.
    #[serde(flatten)]
    pub port: PortTable,
}

/// Keys about a port as a whole, of `[defaults]` and of `[[tenant]]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PortTable {
    /// The port's part of the windows of groups that it is in, 1 to 255. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 255))]
    pub weight: Option<i64>,
    /// So many flows of each port may be translated at once; further ones pass. Absent: as many as
    /// the host's table has room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_777_216))]
    pub flows_max: Option<i64>,
    /// Whose windows make the sum that rules' `share` divides. Default `port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum: Option<SumOf>,
}

/// Whose windows make one sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SumOf {
    /// Those of each port by itself.
    #[default]
    Port,
    /// Those of all ports of a tenant on a host; a port has its `weight` of them.
    Tenant,
}

/// `[[tenant]]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = |schema: &mut Schema| needs(schema, &["name", "ports"]))]
pub struct TenantTable {
    /// Who.
    #[serde(flatten)]
    pub identity: IdentityTable,
    /// Of each of its ports.
    #[serde(flatten)]
    pub port: PortTable,
}

/// Says in a schema that these keys can't be absent, though reading goes on where they are.
pub(crate) fn needs(schema: &mut Schema, keys: &[&str]) {
    schema.insert("required".to_owned(), keys.into());
}

/// Keys that say who a tenant is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IdentityTable {
    /// A name of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(pattern(r"^[A-Za-z0-9._-]{1,63}$"))]
    pub name: Option<String>,
    /// Its ports, by name or pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<List<Pattern>>,
}

/// `[[rule]]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleTable {
    /// Which flows.
    #[serde(flatten)]
    pub selection: SelectionTable,
    /// What becomes of them.
    #[serde(flatten)]
    pub treatment: TreatmentTable,
}

/// Keys that say which flows a rule is about: all that are given must match. Local is the guest's
/// end, whoever connects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SelectionTable {
    /// Flows of this tenant's ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Flows of these ports, by name or pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<List<Pattern>>,
    /// Where the guest's end is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<List<Prefix>>,
    /// Where the other end is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<List<Prefix>>,
    /// The guest's TCP port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_port: Option<List<PortRange>>,
    /// The other end's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_port: Option<List<PortRange>>,
    /// The DSCP of the flow's SYN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<List<Dscp>>,
}

/// Keys that say what becomes of flows, of `[defaults]` and of `[[rule]]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TreatmentTable {
    /// The congestion control that the network sees; `pass` leaves the flow alone. Default `pass`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub law: Option<Law>,
    /// Whose habits the law's shadow has. Default `linux`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The law's parameters.
    #[serde(skip_serializing_if = "Parameters::are_default")]
    pub parameters: Parameters,
    /// Whether guests that speak ECN themselves are left alone, which is the default; if not, their
    /// offer is taken off and they are translated too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub legacy_only: Option<bool>,
    /// How many SYNs of a flow ask for ECN before one goes without, 0 to 255; 255: all. Default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 255))]
    pub ecn_syns: Option<i64>,
    /// The flow's weight in the sum of its port's windows, 1 to 255. Absent: it takes no part.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 255))]
    pub share: Option<i64>,
    /// Law `coupled`: whose window the flows share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coupling: Option<CouplingTable>,
    /// How flows start. Default `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// The parameters of the start `watch`.
    #[serde(skip_serializing_if = "Watch::are_default")]
    pub watch: Watch,
}

/// How flows start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// As the guest and the law have it.
    #[default]
    None,
    /// HWatch: probes measure the path first.
    Watch,
}

/// `coupling = { … }`: whose window the flows of law `coupled` share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CouplingTable {
    /// Ports of different numbers share nothing, ports of one number do, whosever they are. Default:
    /// a number of the tenant's own; ports that no tenant has are in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub group: Option<i64>,
    /// Bits of an IPv4 remote address that name a group, 0 to 32. Default 32: each remote host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32))]
    pub prefix4: Option<i64>,
    /// The same for IPv6, 0 to 128. Default 128.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 128))]
    pub prefix6: Option<i64>,
    /// A flow's part of its port's, 1 to 255, where its TCP ports have none. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 255))]
    pub priority: Option<i64>,
    /// The part of flows with this TCP port at either end: `{ 443 = 8 }`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub priorities: BTreeMap<String, i64>,
    /// What is shared. Default `window`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// A group of n is as aggressive as 1 + this · (n − 1) TCPs, 0 to 1. Default 0: as one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub aggressiveness: Option<f64>,
    /// What n counts. Default `flows`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<GroupSize>,
    /// Segments that a flow may send at once into a share that others' packets still fill, 1 to
    /// 65535. Default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub burst: Option<i64>,
}
