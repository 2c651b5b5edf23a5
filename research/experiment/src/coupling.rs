//! Sharing of windows by the flows of a group of guests: `coupling = { group = "trunk", weight = 2
//! }` (ctrlTCP), or `share` of the same form (vCC).

use serde::{Deserialize, Serialize};

/// `coupling` and `share` of `[[case.guests]]`: the group whose window the flows share, and their
/// weights in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coupling {
    /// Name of the group; flows that name the same group share one window.
    pub group: String,
    /// Name of the guest. Groups of guests that give the same name are one guest, whose flows
    /// differ and are described in several `[[case.guests]]`. If absent, each guest counts by
    /// itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<String>,
    /// Weight of each guest among the group's guests, 1 to 255. Default 1.
    #[serde(default = "one")]
    pub weight: u8,
    /// Weight of each flow among its guest's flows, 1 to 255. Default 1.
    #[serde(default = "one")]
    pub priority: u8,
}

fn one() -> u8 {
    1
}
