//! `uc split`: which connections are split; and what the process answers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Task;

/// A range of TCP ports, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PortRange {
    /// The first port, at least 1.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

impl FromStr for PortRange {
    type Err = String;

    /// Parses `443` or `8000-8999`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| match text.parse() {
            Ok(0) | Err(_) => Err(format!(
                "'{text}' is not a port: write a number from 1 to 65535, or a range as 8000-8999"
            )),
            Ok(port) => Ok(port),
        };
        let (first, last) = (port(first)?, port(last)?);
        if first > last {
            return Err(format!("{first} is above {last}: write {last}-{first}"));
        }
        Ok(Self { first, last })
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

/// What is split, and how; it may change while the process runs, for new connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Interfaces from which guests' packets come: routed taps and veths, or bridges with an address;
    /// empty: new connections pass unsplit.
    pub interfaces: Vec<String>,
    /// TCP ports to which the connections are opened that are split; empty: all.
    pub tcp_ports: Vec<PortRange>,
    /// Whether connections are split, too, that others open to the guests' TCP ports.
    pub inbound: bool,
    /// Congestion control towards the far end; `None`: the host's default.
    pub congestion_control: Option<String>,
    /// Whether connections to the far end ask for Multipath TCP.
    pub mptcp: bool,
}

impl Setup {
    /// Keeps these of its interfaces; without one left, it is the setup that splits nothing.
    pub fn keep(&mut self, is_kept: impl Fn(&String) -> bool) {
        self.interfaces.retain(is_kept);
        if self.interfaces.is_empty() {
            *self = Self::default();
        }
    }
}

/// Limits of one process, fixed when it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum number of connections at once; more are reset.
    pub connections_max: usize,
    /// Maximum number of connections of one guest address, or of one IPv6 prefix of 64 bits.
    pub guest_max: usize,
    /// Number of threads that move bytes, at least 1; no part of a status.
    #[serde(skip)]
    pub threads: usize,
}

/// The numbers of connections and bytes since the process began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Connections that are split now.
    pub open: u64,
    /// Connections that were split since the start.
    pub split: u64,
    /// Split connections whose far end speaks Multipath TCP.
    pub multipath: u64,
    /// Connections that both ends closed.
    pub orderly: u64,
    /// Connections that an end reset, or that was lost.
    pub reset: u64,
    /// Connections that the second end refused or did not answer; the first got a reset.
    pub refused: u64,
    /// Connections that were reset at once, as there were the maximum number of all or of
    /// the guest's already.
    pub too_many: u64,
    /// Bytes that the far ends' sockets took.
    pub bytes_to_far_ends: u64,
    /// Bytes that the guests' sockets took.
    pub bytes_to_guests: u64,
}

/// The setup of `uc split` and the counters of its connections.
pub type Status = crate::Status<Setup, Done>;

/// What the process may take, and how much it has split.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// What the process may take; in JSON its fields stand beside the others.
    #[serde(flatten)]
    pub limits: Limits,
    /// Numbers of connections and bytes.
    pub totals: Totals,
}

impl Task for Setup {
    const COMMAND: &'static str = "uc split";
    const PLACE: &'static str = "split";
    type Done = Done;

    fn is_idle(done: &Done) -> bool {
        done.totals.open == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_a_number_or_a_range() {
        assert_eq!(
            "443".parse(),
            Ok(PortRange {
                first: 443,
                last: 443
            })
        );
        let range: PortRange = "8000-8999".parse().unwrap();
        assert_eq!((range.first, range.last), (8000, 8999));
        assert_eq!(range.to_string(), "8000-8999");
        for refused in ["", "0", "65536", "-", "80-", "90-80", "http", "1-2-3"] {
            assert!(refused.parse::<PortRange>().is_err(), "{refused}");
        }
    }
}
