//! Flows that share windows: what their groups are like, and whose window a port's flows share.

use serde::{Deserialize, Serialize};
use uc_core::coupling::{GroupPolicy, consts};
use uc_words::Bytes;

/// `coupling` of `[[case]]`: what its groups are like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CouplingRules {
    /// What is shared. Default `window`.
    pub shares: Shares,
    /// A group of n is as aggressive as 1 + this · (n − 1) TCPs, 0 to 1. Default 0: as one.
    pub aggressiveness: f64,
    /// What n counts. Default `flows`.
    pub size: GroupSize,
    /// Segments that a flow may send at once into a share that others' packets still fill, 1 to
    /// 65535 (all of it). Default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u16>,
    /// The most that a group's windows make together; 1 GiB where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Bytes>,
}

impl CouplingRules {
    /// Whether nothing was chosen.
    pub fn are_default(&self) -> bool {
        *self == CouplingRules::default()
    }
}

/// What a coupled group divides.
#[derive(
    schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Shares {
    /// The window: of two flows the one with the shorter path has the higher rate.
    #[default]
    Window,
    /// The rate.
    Rate,
}

/// What a coupled group's size is counted in.
#[derive(
    schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum GroupSize {
    /// Flows.
    #[default]
    Flows,
    /// Guests.
    Guests,
}

/// The controller's policy for the rules of an experiment file.
/// `is_sum`: the group's window is what its flows' own laws make.
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
