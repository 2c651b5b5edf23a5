//! Flows that share windows: `coupling = { group = "trunk", weight = 2 }` (ctrlTCP) or `share` of the
//! same form (vCC) of a group of guests, and how a case's coupled groups behave.

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// `coupling` and `share` of `[[case.guests]]`: whose window the flows share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coupling {
    /// Flows that name the same group share one window.
    pub group: String,
    /// Guests that name the same are one to the group: for one whose flows differ and stand in
    /// several `[[case.guests]]`. Each is one by itself where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<String>,
    /// Each guest's part of the window among the group's guests, 1 to 255. Default 1.
    #[serde(default = "one")]
    pub weight: u8,
    /// Each flow's part of its guest's, among the guest's flows, 1 to 255. Default 1.
    #[serde(default = "one")]
    pub priority: u8,
}

fn one() -> u8 {
    1
}

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
