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
//! connections pass unsplit, and are tracked. The kernel resets both ends of each split one. A reset that is
//! lost, or that an end does not take since it waits for a segment before it (RFC 5961 §3.2), is made up
//! for: conntrack's entry of the outer connection keeps that it was split, and a packet of it for which
//! there is no socket is answered by a reset instead of being routed. The guest's packets belong to that
//! entry only where their numbers fit it; others are routed, and the far end, if it has the connection
//! still, answers with such a packet, otherwise with a reset, which is routed.

use nix::net::if_::if_nametoindex;

use crate::error::SplitError;
use crate::programs;
use uc_service::commands::split::Setup;

/// Name of the nftables table, of family `inet`.
pub const TABLE: &str = "undercurrent_split";
/// Bit of the packets' mark by which packets of split connections are delivered to this host.
pub const MARK: u32 = 1 << 28;
/// Bit of conntrack's mark that notes that a connection was split. It is not the packets' bit: a host whose rules copy
/// the whole mark from conntrack to packets would bring its own packets here.
const SPLIT: u32 = 1 << 29;
/// Number of the routing table whose only route is local delivery.
pub const ROUTES: &str = "29545";
/// Priority of the chain for packets of far ends: after the translation of addresses (dstnat, -100), which
/// restores the guests'.
const AFTER_NAT: i32 = -90;
/// Preference of the rule that selects the routing table: after `local` (0), before rules of tunnels.
pub const PREFERENCE: &str = "29";

/// The nftables table and the routing rule of split connections. Dropping the value removes both.
#[derive(Debug)]
pub struct Rules {
    has_ipv6: bool,
    /// Ports of the listeners: for connections that guests open, and for those of others.
    listeners: [u16; 2],
    /// All setups so far, joined: packets of connections that an earlier setup split still need their mark.
    ever: Setup,
}

impl Rules {
    /// Installs the rules for listeners on these ports of 127.0.0.1 and ::1: for connections that guests
    /// open, and for those of others.
    ///
    /// # Errors
    /// If nft or ip fails; nothing is left then.
    pub fn install(setup: Setup, listeners: [u16; 2], has_ipv6: bool) -> Result<Self, SplitError> {
        clean()?;
        // From here on a failure drops what was installed.
        let mut rules = Self {
            has_ipv6,
            listeners,
            ever: setup.clone(),
        };
        for family in rules.families() {
            let arguments = [
                "route", "add", "local", "default", "dev", "lo", "table", ROUTES,
            ];
            ip(family, &arguments)?;
            ip(family, &rule("add", &mark()))?;
        }
        rules.change(&setup)?;
        Ok(rules)
    }

    /// Applies this setup to new connections, in one step; connections that are split go on.
    ///
    /// # Errors
    /// If nft fails; then nothing has changed.
    pub fn change(&mut self, setup: &Setup) -> Result<(), SplitError> {
        let mut ever = joined(&self.ever, setup);
        // What is gone receives nothing any more; veths of containers come and go.
        let exists = |name: &String| if_nametoindex(name.as_str()).is_ok();
        ever.interfaces
            .retain(|name| setup.interfaces.contains(name) || exists(name));
        programs::nft(&table(setup, &ever, self.listeners))?.map_err(refused)?;
        self.ever = ever;
        Ok(())
    }

    fn families(&self) -> impl Iterator<Item = &'static str> + use<> {
        ["-4", "-6"]
            .into_iter()
            .take(1 + usize::from(self.has_ipv6))
    }
}

/// Checks that the kernel takes the rules of this setup, without changing anything.
///
/// # Errors
/// If nft or the kernel refuses the rules, or nft is missing.
pub fn check(setup: &Setup) -> Result<(), SplitError> {
    programs::nft_check(&table(setup, setup, [1, 2]))?.map_err(refused)?;
    Ok(())
}

fn refused(because: String) -> SplitError {
    SplitError::Refused(format!(
        "nft refuses the table {TABLE}: {because}; the kernel must be Linux 5.9 or newer, with \
         CONFIG_NFT_TPROXY, CONFIG_NFT_SOCKET, CONFIG_NFT_FIB_INET, CONFIG_NFT_CT, \
         CONFIG_NFT_REJECT and CONFIG_NF_CONNTRACK_MARK, as modules or built in"
    ))
}

/// Returns a setup that selects the packets of all connections that either setup splits.
fn joined(one: &Setup, other: &Setup) -> Setup {
    let splits_all = |setup: &&Setup| !setup.interfaces.is_empty() && setup.tcp_ports.is_empty();
    Setup {
        interfaces: both(&one.interfaces, &other.interfaces),
        tcp_ports: match [one, other].iter().any(splits_all) {
            true => Vec::new(),
            false => both(&one.tcp_ports, &other.tcp_ports),
        },
        inbound: one.inbound || other.inbound,
        ..Setup::default()
    }
}

/// Returns the members of both lists, each once.
fn both<T: Clone + Ord>(one: &[T], other: &[T]) -> Vec<T> {
    let mut all = [one, other].concat();
    all.sort();
    all.dedup();
    all
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
/// If nft or ip is missing, or the table can't be removed.
pub fn clean() -> Result<bool, SplitError> {
    let listed = programs::nft(&format!("list table inet {TABLE}\n"))?;
    let mut found = listed.is_ok();
    if found {
        let delete = format!("delete table inet {TABLE}\n");
        programs::nft(&delete)?
            .map_err(|because| SplitError::failed("nft delete table", &because))?;
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
    done.map(drop)
        .map_err(|because| SplitError::failed(&format!("ip {}", all.join(" ")), &because))
}

/// Returns a set's members as nft(8) writes them; nothing for an empty set.
fn elements(of: &[impl ToString]) -> String {
    match of {
        [] => String::new(),
        of => {
            let texts: Vec<String> = of.iter().map(ToString::to_string).collect();
            format!("elements = {{ {} }};", texts.join(", "))
        }
    }
}

/// Returns nft(8) commands that replace the table. Its rules redirect new connections that `now` selects
/// to the sockets at the port numbers `guests` and `others`. Packets of connections that an earlier setup
/// selected (`ever` has all of them) still reach the host's TCP.
fn table(now: &Setup, ever: &Setup, [guests, others]: [u16; 2]) -> String {
    let quoted = |setup: &Setup| -> Vec<String> {
        let names = setup.interfaces.iter();
        names.map(|name| format!("\"{name}\"")).collect()
    };
    let (interfaces, known) = (quoted(now), elements(&quoted(ever)));
    let (ports, known_ports) = (elements(&now.tcp_ports), elements(&ever.tcp_ports));
    let on = |setup: &Setup, condition: &'static str| match setup.tcp_ports.is_empty() {
        true => "",
        false => condition,
    };
    let to = on(ever, "tcp dport @known_ports ");
    let from = on(ever, "tcp sport @known_ports ");
    let syn = format!(
        "{}tcp flags & (fin | syn | rst | ack) == syn fib daddr type unicast",
        on(now, "tcp dport @ports ")
    );
    // Only an address that is routed back to where it came from is the guest's own. Others pass unsplit,
    // and filters in the hook `forward` see them: the host answers no forged address.
    let own = "fib saddr . iif oif exists";
    let ours = "meta l4proto tcp socket transparent 1";
    let here = format!("meta mark set meta mark | {MARK:#x}");
    let remember = format!("ct mark set ct mark | {SPLIT:#x}");
    // A new connection with the addresses and ports of one that was split; a split one is marked again.
    let forget = format!(
        "tcp flags & (fin | syn | rst | ack) == syn ct mark & {SPLIT:#x} != 0 ct mark set ct mark & {:#x}",
        !SPLIT
    );
    // Packets to the host's own addresses reach its TCP, which answers itself.
    let orphan = format!(
        "ct mark & {SPLIT:#x} != 0 meta mark & {MARK:#x} == 0 fib daddr type != local \
         tcp flags & rst == 0"
    );
    let new = "meta l4proto tcp tproxy";
    // Connections of others: their listener, and each rule's opposite direction.
    let (mut opened, mut inner, mut answers, mut outer) = Default::default();
    if ever.inbound {
        inner = format!("iifname @known {from}{ours} {here} notrack accept");
        answers = format!("oifname @known {to}{ours} notrack");
        outer = format!("{to}{ours} {here} {remember}");
    }
    if now.inbound && !interfaces.is_empty() {
        let interfaces = interfaces.join(", ");
        opened = format!("iifname != @guests {syn} fib daddr oifname {{ {interfaces} }} jump open");
    }
    let current = elements(&interfaces);
    format!(
        "table inet {TABLE}
        delete table inet {TABLE}
        table inet {TABLE} {{
        set guests {{ type ifname; {current} }}
        set known {{ type ifname; {known} }}
        set ports {{ type inet_service; flags interval; auto-merge; {ports} }}
        set known_ports {{ type inet_service; flags interval; auto-merge; {known_ports} }}
        chain new {{
            meta nfproto ipv4 {new} ip to 127.0.0.1:{guests} {here} notrack accept
            meta nfproto ipv6 {new} ip6 to [::1]:{guests} {here} notrack accept
        }}
        chain open {{
            meta nfproto ipv4 {new} ip to 127.0.0.1:{others} {here} accept
            meta nfproto ipv6 {new} ip6 to [::1]:{others} {here} accept
        }}
        chain inner {{
            type filter hook prerouting priority raw; policy accept;
            iifname @guests {syn} {own} jump new
            iifname @known {to}{ours} {here} notrack accept
            {inner}
        }}
        chain answers {{
            type filter hook output priority raw; policy accept;
            oifname @known {from}{ours} notrack
            {answers}
        }}
        chain outer {{
            type filter hook prerouting priority {AFTER_NAT}; policy accept;
            {from}{ours} {here} {remember}
            {opened}
            {outer}
            {forget}
            {orphan} reject with tcp reset
        }}
        }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(names: &[&str], ports: &[&str], inbound: bool) -> Setup {
        Setup {
            interfaces: names.iter().map(|name| (*name).into()).collect(),
            tcp_ports: ports.iter().map(|text| text.parse().unwrap()).collect(),
            inbound,
            ..Setup::default()
        }
    }

    const TAPS: [&str; 2] = ["tap0", "tap1"];

    #[test]
    fn the_table_names_interfaces_ports_and_the_listeners() {
        let ports = setup(&TAPS, &["80", "8000-8999"], false);
        let text = table(&ports, &ports, [4321, 0]);
        assert!(text.contains(r#"elements = { "tap0", "tap1" }"#), "{text}");
        assert!(text.contains("elements = { 80, 8000-8999 }"), "{text}");
        assert!(text.contains("tcp dport @ports tcp flags"), "{text}");
        assert!(text.contains("tproxy ip6 to [::1]:4321"), "{text}");
        assert!(!text.contains("jump open"), "{text}");
        let all = setup(&TAPS, &[], true);
        let all = table(&all, &all, [1, 2]);
        assert!(!all.contains("tcp dport") && !all.contains("tcp sport"));
        assert!(all.contains("tproxy ip to 127.0.0.1:2"), "{all}");
        assert!(
            all.contains("fib daddr oifname { \"tap0\", \"tap1\" } jump open"),
            "{all}"
        );
    }

    #[test]
    fn packets_of_connections_that_are_split_are_found_after_every_change() {
        let first = setup(&["tap0"], &["80-90"], true);
        let second = setup(&["tap1"], &["85-100"], false);
        let ever = joined(&first, &second);
        assert_eq!(ever, setup(&TAPS, &["80-90", "85-100"], true));
        let text = table(&second, &ever, [1, 2]);
        for part in [
            "set guests { type ifname; elements = { \"tap1\" }; }",
            "auto-merge; elements = { 85-100 }; }",
            "auto-merge; elements = { 80-90, 85-100 }; }",
            "iifname @guests tcp dport @ports tcp flags",
            "iifname @known tcp dport @known_ports meta",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("jump open"), "{text}");
        // A setup without interfaces splits nothing, so that it has no ports does not mean all.
        let none = Setup::default();
        assert_eq!(joined(&ever, &none), ever);
        assert!(table(&none, &ever, [1, 2]).contains("set guests { type ifname;  }"));
        assert!(
            joined(&ever, &setup(&TAPS, &[], false))
                .tcp_ports
                .is_empty()
        );
    }
}
