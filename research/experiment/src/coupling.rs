//! Flows that share windows: `coupling = { group = "trunk", weight = 2 }` (ctrlTCP) or `share` of the
//! same form (vCC) of a group of guests.

use serde::{Deserialize, Serialize};

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
