//! `uc split`: the connections that are split, and the status of the process.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Task;

/// A range of TCP ports, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PortRange {
    /// First TCP port of the range, at least 1.
    pub first: u16,
    /// Last TCP port of the range.
    pub last: u16,
}

impl FromStr for PortRange {
    type Err = String;

    /// Parses a TCP port or a range, such as `443` or `8000-8999`.
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

/// The connections that are split, and how. It may change while the process runs, for new connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Interfaces from which guests' packets come: routed taps and veths, or bridges with an address;
    /// empty: new connections pass unsplit.
    pub interfaces: Vec<String>,
    /// TCP ports: only connections that are opened to one of them are split. Empty: all connections.
    pub tcp_ports: Vec<PortRange>,
    /// Whether connections that others open to the guests' TCP ports are split, too.
    pub inbound: bool,
    /// Congestion control towards the far end; `None`: the host's default.
    pub congestion_control: Option<String>,
    /// Whether connections to the far end ask for Multipath TCP.
    pub mptcp: bool,
}

impl Setup {
    /// Removes the interfaces for which `is_kept` returns false. If no interface is left, the setup becomes the
    /// default one, which splits nothing.
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
    /// Number of threads that move bytes, at least 1; not part of a status in JSON.
    #[serde(skip)]
    pub threads: usize,
}

/// The numbers of connections and bytes since the process began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of connections that are split now.
    pub open: u64,
    /// Number of connections that were split since the start.
    pub split: u64,
    /// Number of split connections that use Multipath TCP with the far end.
    pub multipath: u64,
    /// Number of split connections that both ends closed.
    pub orderly: u64,
    /// Number of split connections that an end reset, or that were lost.
    pub reset: u64,
    /// Number of connections that the second end refused or did not answer; the first end got a reset.
    pub refused: u64,
    /// Number of connections that were reset at once, because the maximum number of all connections, or of the
    /// guest's, was reached.
    pub too_many: u64,
    /// Number of bytes that the far ends' sockets took.
    pub bytes_to_far_ends: u64,
    /// Number of bytes that were written to the guests' sockets.
    pub bytes_to_guests: u64,
}

/// The setup of `uc split` and the counters of its connections.
pub type Status = crate::Status<Setup, Done>;

/// The limits of the process, and its counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Limits of the process; in JSON its fields stand beside `totals`.
    #[serde(flatten)]
    pub limits: Limits,
    /// Counters of connections and bytes since the process started.
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
