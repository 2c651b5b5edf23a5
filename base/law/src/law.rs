//! The laws of a port, and how literally each is emulated.

use serde::{Deserialize, Serialize};

/// The congestion control that the operator runs under a guest's own.
#[derive(schemars::JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Law {
    /// The programs are on the port and leave its flows alone.
    Pass,
    /// NewReno with ECN, RFC 3168.
    Ecn,
    /// DCTCP, RFC 8257.
    Dctcp,
    /// Swift's target delay (SIGCOMM 2020), on the round trip that the host measures.
    Delay,
    /// ctrlTCP on the host: each flow's window is its share of its group's.
    Coupled,
}

impl Law {
    /// Its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Law::Pass => "pass",
            Law::Ecn => "ecn",
            Law::Dctcp => "dctcp",
            Law::Delay => "delay",
            Law::Coupled => "coupled",
        }
    }
}

/// How literally a law is emulated.
#[derive(
    schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// RFC 5681 and 6582 to the letter, in bytes.
    Rfc,
    /// As a Linux neighbour does it: whole packets, no growth while the window is being reduced.
    #[default]
    Linux,
}
