//! Flows that share windows: what their groups are like, and whose window a port's flows share.

use serde::{Deserialize, Serialize};
use uc_core::coupling::{GroupPolicy, consts};
use uc_words::Bytes;

/// `coupling` of `[[case]]`: the properties of the case's groups of coupled flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CouplingRules {
    /// Quantity of a group that its flows share. Default `window`.
    pub shares: Shares,
    /// Factor a from 0 to 1: a group of n is as aggressive as 1 + a · (n − 1) TCPs. Default 0: as one TCP.
    pub aggressiveness: f64,
    /// What n counts in a group's aggressiveness. Default `flows`.
    pub size: GroupSize,
    /// Number of segments that a flow may send at once into a share that packets of other flows still fill:
    /// 1 to 65535 (all of it). Default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u16>,
    /// Upper limit of the sum of a group's windows; 1 GiB where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Bytes>,
}

impl CouplingRules {
    /// Returns whether no rule was chosen: all have their default.
    pub fn are_default(&self) -> bool {
        *self == CouplingRules::default()
    }
}

/// The quantity of a coupled group that is divided by weight.
#[derive(
    schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Shares {
    /// The window: of two flows the one with the shorter path has the higher rate.
    #[default]
    Window,
    /// The group's rate: a flow with a longer round-trip time gets a larger window.
    Rate,
}

/// The unit in which the size of a coupled group is counted.
#[derive(
    schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum GroupSize {
    /// The number of the group's flows.
    #[default]
    Flows,
    /// The number of the group's guests.
    Guests,
}

/// Returns the controller's policy for the rules of an experiment file. `is_sum`: the group's window is the
/// sum of the windows that its flows' own laws compute.
pub fn group_policy(rules: &CouplingRules, is_sum: bool) -> GroupPolicy {
    let shares = match rules.shares {
        Shares::Window => consts::BY_WINDOW,
        Shares::Rate => consts::BY_RATE,
    };
    let size = match rules.size {
        _ if is_sum => consts::SIZE_LAWS,
        GroupSize::Flows => consts::SIZE_FLOWS,
        GroupSize::Guests => consts::SIZE_GUESTS,
    };
    GroupPolicy {
        aggressiveness_q16: (rules.aggressiveness * 65_536.0).round() as u32,
        burst_segments: rules.burst.unwrap_or(consts::BURST_SEGMENTS as u16),
        shares: shares as _,
        window_max_bytes: rules.total.map_or(0, |total| total.0),
        size: size as _,
        ..GroupPolicy::default()
    }
}

/// What a port's flows share: with law `coupled`, the window of one controller; with any other law,
/// the sum of the windows of the flows' own laws (`rules.size` is then [`consts::SIZE_LAWS`]). The
/// port is one guest in each of its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortCoupling {
    /// Number of the group; ports with different numbers share nothing. It is an operator's number, below 2^31; that of
    /// a tenant ([`PortCoupling::of_tenant`]); or [`PortCoupling::OWN`].
    pub group: u32,
    /// Bits of an IPv4 remote address that name a group, 0 to 32.
    pub prefix4: u8,
    /// Bits of an IPv6 remote address that name a group, 0 to 128.
    pub prefix6: u8,
    /// Weight of the port's guest among the guests of each group, 1 to 255.
    pub weight: u8,
    /// Priority of a flow among the flows of its guest, 1 to 255, if its TCP ports have no priority of
    /// their own.
    pub priority: u8,
    /// Priorities of flows by TCP port: a port at either end, and the priority of its flows, 1 to 255.
    pub priorities: Vec<(u16, u8)>,
    /// Properties of each group that this port is the first to use.
    pub rules: GroupPolicy,
}

impl PortCoupling {
    /// Group number that gives each port a group of its own. Operators' numbers are below it.
    pub const OWN: u32 = 1 << 31;

    /// Group number that the ports of a tenant share: this constant plus the low 30 bits of the
    /// tenant's number; tenant 0 is no tenant. A port's own group is [`PortCoupling::OWN`] plus its
    /// interface index, which is below 2^30, so the two ranges are disjoint.
    pub const TENANT: u32 = 3 << 30;

    /// Returns the group number that all ports of this tenant share.
    pub fn of_tenant(number: u32) -> u32 {
        PortCoupling::TENANT | number
    }

    /// Returns the coupling that the key `share` sets: all flows of the port divide the sum of their laws'
    /// windows, whatever their remote hosts are. Ports with the same group number divide one sum.
    pub fn share(group: Option<u32>) -> PortCoupling {
        PortCoupling {
            group: group.unwrap_or(PortCoupling::OWN),
            prefix4: 0,
            prefix6: 0,
            rules: GroupPolicy {
                size: consts::SIZE_LAWS as u8,
                ..GroupPolicy::default()
            },
            ..PortCoupling::default()
        }
    }

    /// Returns whether the group divides the sum of the windows that the flows' own laws compute.
    pub fn is_sum(&self) -> bool {
        u32::from(self.rules.size) == consts::SIZE_LAWS
    }
}

impl Default for PortCoupling {
    /// Returns one group for each remote host; all guests and flows in it have weight 1.
    fn default() -> PortCoupling {
        PortCoupling {
            group: 0,
            prefix4: 32,
            prefix6: 128,
            weight: 1,
            priority: 1,
            priorities: Vec::new(),
            rules: GroupPolicy::default(),
        }
    }
}
