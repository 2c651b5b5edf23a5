//! Which connections are split, and the limits of descriptors and threads.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::error::SplitError;

/// Usual maximum number of connections.
const USUAL_MAX: usize = 65_536;
/// Descriptors of a connection: its sockets.
const DESCRIPTORS_EACH: u64 = 2;
/// Descriptors of a connection whose readers are slow: each direction holds a pipe, too. Unless a number of
/// connections is asked for, there are as many descriptors as all connections can need so, since those of one
/// guest that are used up would be missing to the others.
const DESCRIPTORS_MOST: u64 = 6;
/// Descriptors beside: standard streams, listeners, and event queues.
const DESCRIPTORS_BESIDE: u64 = 512;
/// Most threads if nobody says how many: more move no more bytes, and the service's unit allows 64 tasks.
const THREADS_USUAL_MAX: usize = 16;

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

/// The setup for new connections, which threads share.
#[derive(Debug)]
pub(crate) struct Current(RwLock<Arc<Setup>>);

impl Current {
    /// Creates it with the first setup.
    pub(crate) fn new(setup: Setup) -> Self {
        Self(RwLock::new(Arc::new(setup)))
    }

    /// Returns the setup as it is now.
    pub(crate) fn get(&self) -> Arc<Setup> {
        let setup = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&setup)
    }

    /// Replaces the setup.
    pub(crate) fn set(&self, setup: Setup) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(setup);
    }
}

impl Limits {
    /// Returns the limits for this many connections in all, of each guest, and threads; `None`: as many as
    /// the limit of descriptors allows, half of all, and one for each processor, 16 at most.
    ///
    /// # Errors
    /// As [`connections_max`].
    pub fn new(
        connections: Option<usize>,
        guest: Option<usize>,
        threads: Option<usize>,
    ) -> Result<Self, SplitError> {
        let processors = || {
            let all = thread::available_parallelism().map_or(1, usize::from);
            all.min(THREADS_USUAL_MAX)
        };
        let connections_max = connections_max(connections)?;
        Ok(Self {
            connections_max,
            guest_max: guest.unwrap_or(connections_max.div_ceil(2)),
            threads: threads.unwrap_or_else(processors),
        })
    }
}

/// Raises this process's limit of descriptors to what this many connections need; `None`: as many as the
/// limit allows, 65,536 at most. Returns the number of connections.
///
/// # Errors
/// [`SplitError::Descriptors`] if the limit can't be raised as far as asked.
fn connections_max(asked: Option<usize>) -> Result<usize, SplitError> {
    let wanted = asked.unwrap_or(USUAL_MAX);
    let needed_for = |each: u64| wanted as u64 * each + DESCRIPTORS_BESIDE;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)
        .map_err(|errno| SplitError::resource("read the limit of descriptors", errno))?;
    let most = needed_for(DESCRIPTORS_MOST);
    if soft >= most || setrlimit(Resource::RLIMIT_NOFILE, most, hard.max(most)).is_ok() {
        return Ok(wanted);
    }
    let limit = hard;
    // Raising the soft limit to the hard one needs no right.
    let _as_it_was = setrlimit(Resource::RLIMIT_NOFILE, limit, limit);
    let needed = needed_for(DESCRIPTORS_EACH);
    let possible = limit.saturating_sub(DESCRIPTORS_BESIDE) / DESCRIPTORS_MOST;
    match asked {
        Some(_) if limit >= needed => Ok(wanted),
        None if possible > 0 => Ok(possible as usize),
        _ => Err(SplitError::Descriptors {
            wanted,
            needed,
            limit,
        }),
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
