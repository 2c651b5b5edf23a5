//! The policy as a whole.

use crate::agent::Agent;
use crate::canary::Canary;
use crate::file::PolicyFile;
use crate::rule::Rule;
use crate::split::Split;
use crate::tenant::{PortSettings, Tenant};

/// An operator's policy for the ports of a host, with defaults applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The tables of the file, without defaults.
    pub file: PolicyFile,
    /// The tenants of the host and their ports.
    pub tenants: Vec<Tenant>,
    /// Rules in the order in which they are tried: those of the file, then that of `[defaults]` for
    /// all other flows.
    pub rules: Vec<Rule>,
    /// Settings of ports that belong to no tenant.
    pub port: PortSettings,
    /// How the connections of split ports are split.
    pub split: Split,
    /// Hosts of the fleet that try this policy first; `None`: all hosts follow it at once.
    pub canary: Option<Canary>,
    /// Settings of the agent.
    pub agent: Agent,
}
