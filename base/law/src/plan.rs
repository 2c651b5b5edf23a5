//! What an operator says of a port: which flows get which policy, and how many there may be.

use uc_core::Policy;
use uc_core::rule::Rule;

use crate::coupling::PortCoupling;

/// The flow table's size where none is asked for; about 450 bytes a flow, the kernel's own
/// included, and 400 for its ring of events.
pub const DEFAULT_FLOWS_MAX: u32 = 65536;

/// Flows whose events are remembered where no number is asked for, at 400 bytes each: 26 MB.
pub const RINGS_MAX: u32 = 65536;

/// All that an operator says of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortPlan {
    /// Tried in their order at a flow's SYN: the first that matches says its policy. Where none
    /// does, the flow passes. At most [`uc_core::rule::RULES_MAX`].
    pub rules: Vec<Rule>,
    /// Whose window the port's flows share: those of law `coupled`, or, of a sum of windows, those
    /// whose rule gives them a share. Without it each flow has its own.
    pub coupling: Option<PortCoupling>,
    /// So many flows may be translated at once, further ones pass; 0: as many as the table holds.
    pub flows_max: u32,
    /// Whose port it is: a number of the operator's.
    pub tenant: u32,
}

impl PortPlan {
    /// One policy for every flow, and whose window they share: in a sum each has the coupling's
    /// priority, where its TCP ports have none.
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
    /// One policy for every flow.
    fn from(policy: Policy) -> PortPlan {
        PortPlan::of_all(policy, None)
    }
}
