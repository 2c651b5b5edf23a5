//! What an operator says of a port: which flows get which policy, and how many there may be.

use uc_core::Policy;
use uc_core::rule::Rule;

use crate::coupling::PortCoupling;

/// Default number of entries of the flow table, at about 300 bytes each. A flow under law `delay` or
/// `coupled`, or with `share`, takes two entries; each flow has 400 bytes more for its events.
pub const DEFAULT_FLOWS_MAX: u32 = 65536;

/// Default number of flows whose events are stored, at 400 bytes each: 26 MB.
pub const RINGS_MAX: u32 = 65536;

/// The operator's configuration of one port: rules and settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortPlan {
    /// The port's rules, tried in their order at a flow's SYN: the first that matches decides the flow's policy. If
    /// none matches, the flow passes. At most [`uc_core::rule::RULES_MAX`].
    pub rules: Vec<Rule>,
    /// What the port's flows share: one window (flows of law `coupled`), or the sum of their
    /// windows (flows whose rule has a share). `None`: each flow has its own window.
    pub coupling: Option<PortCoupling>,
    /// Maximum number of flows that are translated at once, half-open ones apart; further flows pass.
    /// 0: as many as the flow table has free places.
    pub flows_max: u32,
    /// The number of the tenant that owns the port, chosen by the operator; 0: none.
    pub tenant: u32,
    /// Whether the port's programs run after the programs that other software attached; false: before them.
    pub after_others: bool,
}

impl PortPlan {
    /// Returns a plan with one policy for every flow. If `coupling` divides a sum of windows, its
    /// priority is the weight of each flow whose TCP ports have no priority of their own.
    pub fn of_all(policy: Policy, coupling: Option<PortCoupling>) -> PortPlan {
        let sum = coupling.as_ref().filter(|coupling| coupling.is_sum());
        let share = sum.map_or(0, |coupling| coupling.priority);
        PortPlan {
            rules: vec![Rule {
                share,
                ..Rule::all(policy)
            }],
            coupling,
            ..PortPlan::default()
        }
    }
}

impl From<Policy> for PortPlan {
    /// Returns a plan with one policy for every flow, in which no flows share a window.
    fn from(policy: Policy) -> PortPlan {
        PortPlan::of_all(policy, None)
    }
}
