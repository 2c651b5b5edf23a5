//! One network with its guests, run by itself: `[[case]]` and `[[case.guests]]`.

use serde::{Deserialize, Serialize};

/// `[[case]]`: which guests send through the network. Cases of an experiment share nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name, unique in the file.
    pub name: String,
    /// One line for people; its name where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The groups of guests, each guest a sender.
    pub guests: Vec<Guests>,
}

impl Case {
    /// The line for people.
    pub fn title(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// The group of that name.
    pub fn group(&self, name: &str) -> Option<&Guests> {
        self.guests.iter().find(|guests| guests.name == name)
    }
}

/// `[[case.guests]]`: a group of equal guests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guests {
    /// The group's name, unique in its case.
    pub name: String,
    /// How many guests; one where absent.
    #[serde(default = "one")]
    pub count: u32,
    /// The name of their `[stack.NAME]`.
    pub stack: String,
    /// The law on their ports; no program on them where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub law: Option<Law>,
    /// How literally the law is emulated.
    #[serde(default)]
    pub profile: Profile,
    /// Parallel flows of each guest; one where absent.
    #[serde(default = "one")]
    pub flows: u32,
    /// What the flows carry.
    #[serde(default)]
    pub application: Application,
    /// Guests that name the same host share its uplink; each has a host of its own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl Guests {
    /// How many flows the whole group has.
    pub fn total_flows(&self) -> u32 {
        self.count.saturating_mul(self.flows)
    }
}

fn one() -> u32 {
    1
}

/// The congestion control that the operator runs under a guest's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Law {
    /// The programs are on the port and leave its flows alone.
    Pass,
    /// NewReno with ECN, RFC 3168.
    Ecn,
}

/// How literally a law is emulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// RFC 5681 and 6582 to the letter, in bytes.
    Rfc,
    /// As a Linux neighbour does it: whole packets, no growth while the window is being reduced.
    #[default]
    Linux,
}

/// What a flow carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Application {
    /// As much as TCP takes, from the start of the run to its end.
    #[default]
    Bulk,
}
