//! The packet filter's table and the route that bring split connections' packets to this process. They
//! are the same names at each start, so that a start removes what a killed process left.
//!
//! - A guest's SYN goes to a listener (`tproxy`), and a SYN from elsewhere to an address behind one of the
//!   interfaces to another one. A SYN to this host itself does not.
//! - Every packet of a split connection gets a mark, by which a rule of ip(8) delivers it here, although
//!   its address is not this host's. `socket transparent` finds these packets by their sockets, so other
//!   connections, also older ones of the guests, are routed as before.
//! - The inner connections are not tracked (conntrack): they have the addresses and ports of the outer
//!   ones, which are tracked and translated (NAT) as the guests' own connections were.
//!
//! If the process is killed, the table finds no listener and no socket (`tproxy` ends the rule then): new
//! connections pass unsplit, and are tracked.

use crate::error::SplitError;
use crate::programs;
use crate::setup::{PortRange, Setup};

/// Name of the table, of family `inet`.
pub const TABLE: &str = "undercurrent_split";
/// Bit of the packets' mark that is ours.
pub const MARK: u32 = 1 << 28;
/// Number of the routing table whose only route is local delivery.
pub const ROUTES: &str = "29545";
/// Priority of the chain for packets of far ends: after the translation of addresses (dstnat, -100), which
/// restores the guests'.
const AFTER_NAT: i32 = -90;
/// Preference of the rule that selects the routing table: after `local` (0), before rules of tunnels.
pub const PREFERENCE: &str = "29";

/// The rules in force. Dropping them removes them.
#[derive(Debug)]
pub struct Rules {
    has_ipv6: bool,
}

impl Rules {
    /// Installs the rules for listeners on these ports of 127.0.0.1 and ::1: for connections that guests
    /// open, and for those of others.
    ///
    /// # Errors
    /// [`SplitError::Table`] or [`SplitError::Failed`]; nothing is left then.
    pub fn install(setup: &Setup, listeners: [u16; 2], has_ipv6: bool) -> Result<Self, SplitError> {
        clean()?;
        // From here on a failure drops what was installed.
        let rules = Self { has_ipv6 };
        for family in rules.families() {
            let arguments = [
                "route", "add", "local", "default", "dev", "lo", "table", ROUTES,
            ];
            ip(family, &arguments)?;
            ip(family, &rule("add", &mark()))?;
        }
        let text = table(setup, listeners);
        programs::nft(&text)?.map_err(|because| SplitError::Table {
            table: TABLE,
            because,
        })?;
        Ok(rules)
    }

    /// Lets new connections pass unsplit; those that are split go on.
    ///
    /// # Errors
    /// [`SplitError::Table`].
    pub fn admit_no_more(&self) -> Result<(), SplitError> {
        let flush = format!("flush chain inet {TABLE} new\nflush chain inet {TABLE} open\n");
        programs::nft(&flush)?.map_err(|because| SplitError::Table {
            table: TABLE,
            because,
        })?;
        Ok(())
    }

    fn families(&self) -> impl Iterator<Item = &'static str> + use<> {
        ["-4", "-6"]
            .into_iter()
            .take(1 + usize::from(self.has_ipv6))
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        // `uc split --clean` and the next start remove what is left.
        let _left = clean();
    }
}

/// Removes the rules of this network namespace, whoever installed them. Returns whether there were any.
///
/// # Errors
/// [`SplitError::Program`], or [`SplitError::Failed`] if the table can't be removed.
pub fn clean() -> Result<bool, SplitError> {
    let listed = programs::nft(&format!("list table inet {TABLE}\n"))?;
    let mut found = listed.is_ok();
    if found {
        let delete = format!("delete table inet {TABLE}\n");
        programs::nft(&delete)?.map_err(|because| SplitError::Failed {
            program: "nft delete table".into(),
            because,
        })?;
    }
    for family in ["-4", "-6"] {
        let mark = mark();
        let mut delete = vec![family];
        delete.extend(rule("del", &mark));
        while programs::ip(&delete)?.is_ok() {
            found = true;
        }
        // Fails if the table has no route.
        let _empty = programs::ip(&[family, "route", "flush", "table", ROUTES])?;
    }
    Ok(found)
}

fn mark() -> String {
    format!("{MARK:#x}/{MARK:#x}")
}

fn rule<'a>(action: &'a str, mark: &'a str) -> [&'a str; 8] {
    [
        "rule", action, "pref", PREFERENCE, "fwmark", mark, "lookup", ROUTES,
    ]
}

fn ip(family: &'static str, arguments: &[&str]) -> Result<(), SplitError> {
    let all: Vec<&str> = [family]
        .into_iter()
        .chain(arguments.iter().copied())
        .collect();
    let done = programs::ip(&all)?;
    done.map(drop).map_err(|because| SplitError::Failed {
        program: format!("ip {}", all.join(" ")),
        because,
    })
}

/// Returns the table, as text for nft(8).
fn table(setup: &Setup, [guests, others]: [u16; 2]) -> String {
    let quoted = setup.interfaces.iter().map(|name| format!("\"{name}\""));
    let interfaces = quoted.collect::<Vec<_>>().join(", ");
    let (to, from) = match setup.tcp_ports.as_slice() {
        [] => (String::new(), String::new()),
        ports => {
            let ports: Vec<String> = ports.iter().map(PortRange::to_string).collect();
            let ports = ports.join(", ");
            (
                format!("tcp dport {{ {ports} }} "),
                format!("tcp sport {{ {ports} }} "),
            )
        }
    };
    let syn = "tcp flags & (fin | syn | rst | ack) == syn fib daddr type unicast";
    let ours = "meta l4proto tcp socket transparent 1";
    let here = format!("meta mark set meta mark | {MARK:#x}");
    let new = "meta l4proto tcp tproxy";
    // Connections of others: their listener, and each rule's opposite direction.
    let (mut open, mut inner, mut answers, mut outer) = Default::default();
    if setup.inbound {
        open = format!(
            "meta nfproto ipv4 {new} ip to 127.0.0.1:{others} {here} accept
            meta nfproto ipv6 {new} ip6 to [::1]:{others} {here} accept"
        );
        inner = format!("iifname @guests {from}{ours} {here} notrack accept");
        answers = format!("oifname @guests {to}{ours} notrack");
        outer = format!(
            "iifname != @guests {to}{syn} fib daddr oifname {{ {interfaces} }} jump open
            {to}{ours} {here}"
        );
    }
    format!(
        "table inet {TABLE} {{
        set guests {{ type ifname; elements = {{ {interfaces} }}; }}
        chain new {{
            meta nfproto ipv4 {new} ip to 127.0.0.1:{guests} {here} notrack accept
            meta nfproto ipv6 {new} ip6 to [::1]:{guests} {here} notrack accept
        }}
        chain open {{
            {open}
        }}
        chain inner {{
            type filter hook prerouting priority raw; policy accept;
            iifname @guests {to}{syn} jump new
            iifname @guests {to}{ours} {here} notrack accept
            {inner}
        }}
        chain answers {{
            type filter hook output priority raw; policy accept;
            oifname @guests {from}{ours} notrack
            {answers}
        }}
        chain outer {{
            type filter hook prerouting priority {AFTER_NAT}; policy accept;
            {from}{ours} {here}
            {outer}
        }}
        }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(ports: &[&str], inbound: bool) -> Setup {
        Setup {
            interfaces: vec!["tap0".into(), "tap1".into()],
            tcp_ports: ports.iter().map(|text| text.parse().unwrap()).collect(),
            inbound,
            congestion_control: None,
            mptcp: false,
            connections_max: 1,
            guest_max: 1,
            threads: 1,
        }
    }

    #[test]
    fn the_table_names_interfaces_ports_and_the_listeners() {
        let text = table(&setup(&["80", "8000-8999"], false), [4321, 0]);
        assert!(text.contains(r#"elements = { "tap0", "tap1" }"#), "{text}");
        assert!(
            text.contains("tcp dport { 80, 8000-8999 } tcp flags"),
            "{text}"
        );
        assert!(
            text.contains("tcp sport { 80, 8000-8999 } meta l4proto"),
            "{text}"
        );
        assert!(text.contains("tproxy ip6 to [::1]:4321"), "{text}");
        assert!(!text.contains("jump open"), "{text}");
        let all = table(&setup(&[], true), [1, 2]);
        assert!(!all.contains("dport") && !all.contains("sport"), "{all}");
        assert!(all.contains("tproxy ip to 127.0.0.1:2"), "{all}");
        assert!(
            all.contains("fib daddr oifname { \"tap0\", \"tap1\" } jump open"),
            "{all}"
        );
    }
}
