//! What is split, and the preconditions on this host, checked before anything is changed.

use std::fmt;
use std::fs;
use std::str::FromStr;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::error::SplitError;
use crate::programs;
use crate::sockets;

/// Usual maximum number of connections.
const USUAL_MAX: usize = 65_536;
/// Descriptors of a connection: its sockets.
const DESCRIPTORS_EACH: u64 = 2;
/// Descriptors beside: standard streams, listeners, event queues, and pipes. A direction whose reader is
/// slow holds a pipe; if the descriptors are used up, other directions wait for one.
const DESCRIPTORS_BESIDE: u64 = 512;

/// A range of TCP ports, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

/// What is split, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Interfaces from which guests' packets come: routed taps and veths, or bridges with an address.
    pub interfaces: Vec<String>,
    /// TCP ports to which the connections are opened that are split; empty: all.
    pub tcp_ports: Vec<PortRange>,
    /// Whether connections are split, too, that others open to the guests' TCP ports.
    pub inbound: bool,
    /// Congestion control towards the far end; `None`: the host's default.
    pub congestion_control: Option<String>,
    /// Whether connections to the far end ask for Multipath TCP.
    pub mptcp: bool,
    /// Maximum number of connections at once; more are reset.
    pub connections_max: usize,
    /// Maximum number of connections of one guest address, or of one IPv6 prefix of 64 bits.
    pub guest_max: usize,
    /// Number of threads that move bytes, at least 1; no part of a status.
    #[serde(skip)]
    pub threads: usize,
}

impl Setup {
    /// Checks whether this host can split so, without changing anything. Returns whether it has IPv6.
    ///
    /// # Errors
    /// The first precondition that does not hold.
    pub fn check(&self) -> Result<bool, SplitError> {
        sockets::check_transparent()?;
        programs::find("nft", "nftables")?;
        for name in &self.interfaces {
            check_interface(name)?;
        }
        if let Some(name) = &self.congestion_control {
            sockets::check_congestion_control(name)?;
        }
        if self.mptcp {
            sockets::check_mptcp()?;
        }
        let off = fs::read_to_string("/proc/sys/net/ipv6/conf/lo/disable_ipv6");
        Ok(off.is_ok_and(|off| off.trim() == "0"))
    }
}

/// Raises this process's limit of descriptors to what this many connections need; `None`: as many as the
/// limit allows, 65,536 at most. Returns the number of connections.
///
/// # Errors
/// [`SplitError::Descriptors`] if the limit can't be raised as far as asked.
pub fn connections_max(asked: Option<usize>) -> Result<usize, SplitError> {
    let wanted = asked.unwrap_or(USUAL_MAX);
    let needed = wanted as u64 * DESCRIPTORS_EACH + DESCRIPTORS_BESIDE;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)
        .map_err(|errno| SplitError::resource("read the limit of descriptors", errno))?;
    if soft >= needed || setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).is_ok() {
        return Ok(wanted);
    }
    let limit = hard;
    // Raising the soft limit to the hard one needs no right.
    let _as_it_was = setrlimit(Resource::RLIMIT_NOFILE, limit, limit);
    let possible = limit.saturating_sub(DESCRIPTORS_BESIDE) / DESCRIPTORS_EACH;
    match asked {
        None if possible > 0 => Ok(possible as usize),
        _ => Err(SplitError::Descriptors {
            wanted,
            needed,
            limit,
        }),
    }
}

/// A row of `ip -json -details link show`.
#[derive(Deserialize)]
struct Link {
    master: Option<String>,
    linkinfo: Option<LinkInfo>,
}

#[derive(Deserialize)]
struct LinkInfo {
    info_kind: Option<String>,
    info_slave_kind: Option<String>,
}

/// Checks that the interface exists and that its packets reach this host's IP.
fn check_interface(name: &str) -> Result<(), SplitError> {
    if name.contains(['"', '\\', '*']) {
        return Err(SplitError::Name { name: name.into() });
    }
    let shown = programs::ip(&["-json", "-details", "link", "show", "dev", name])?;
    let missing = || SplitError::Interface { name: name.into() };
    let text = shown.map_err(|_| missing())?;
    if check_link(name, &text, missing)? {
        check_bridge(name)?;
    }
    Ok(())
}

/// Checks that no filter takes a bridge's packets before IP gets them.
fn check_bridge(name: &str) -> Result<(), SplitError> {
    let sysctls = [
        "net.bridge.bridge-nf-call-iptables",
        "net.bridge.bridge-nf-call-ip6tables",
    ];
    let is_on = |sysctl: &&str| {
        let path = format!("/proc/sys/{}", sysctl.replace('.', "/"));
        fs::read_to_string(path).is_ok_and(|value| value.trim() != "0")
    };
    match sysctls.into_iter().find(is_on) {
        Some(sysctl) => Err(SplitError::BridgeFilter {
            name: name.into(),
            sysctl,
        }),
        None => Ok(()),
    }
}

/// Checks that an interface belongs to no other. Returns whether it is a bridge.
fn check_link(
    name: &str,
    json: &str,
    missing: impl Fn() -> SplitError,
) -> Result<bool, SplitError> {
    let links: Vec<Link> = serde_json::from_str(json).map_err(|_| missing())?;
    let link = links.into_iter().next().ok_or_else(missing)?;
    let info = link.linkinfo;
    let Some(master) = link.master else {
        let kind = info.and_then(|info| info.info_kind);
        return Ok(kind.as_deref() == Some("bridge"));
    };
    let (name, kind) = (name.to_owned(), info.and_then(|info| info.info_slave_kind));
    Err(match kind.unwrap_or_else(|| "unknown".into()) {
        kind if kind == "bridge" => SplitError::Bridged {
            name,
            bridge: master,
        },
        kind => SplitError::Enslaved { name, master, kind },
    })
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

    #[test]
    fn ports_of_bridges_are_refused_and_bridges_are_not() {
        let missing = || SplitError::Interface { name: "x".into() };
        let port = r#"[{"ifname":"tap0","master":"br0","linkinfo":{"info_slave_kind":"bridge"}}]"#;
        let error = check_link("tap0", port, missing).unwrap_err().to_string();
        assert!(error.contains("port of bridge 'br0'"), "{error}");
        let vrf = r#"[{"ifname":"tap0","master":"red","linkinfo":{"info_slave_kind":"vrf"}}]"#;
        let error = check_link("tap0", vrf, missing).unwrap_err().to_string();
        assert!(error.contains("'red' (vrf)"), "{error}");
        let bridge = r#"[{"ifname":"br0","linkinfo":{"info_kind":"bridge"}}]"#;
        assert!(check_link("br0", bridge, missing).unwrap());
        assert!(check_link("br0", "[]", missing).is_err());
    }
}
