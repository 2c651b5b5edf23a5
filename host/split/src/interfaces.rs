//! The interfaces whose packets reach this host's IP, which alone can be split.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;

use crate::error::SplitError;
use crate::programs;

/// Sysctls. If one is on, the packet filter processes a bridge's packets before IP gets them.
const BRIDGE_FILTERS: [&str; 2] = [
    "net.bridge.bridge-nf-call-iptables",
    "net.bridge.bridge-nf-call-ip6tables",
];

/// Sysctls of an interface. If both are on, the kernel drops packets of split connections: it checks their source
/// address by the route of their mark, and the route of our mark leads to this host.
const SOURCE_CHECKS: [&str; 2] = ["rp_filter", "src_valid_mark"];

/// A row of `ip -json -details address show`.
#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    ifname: String,
    master: Option<String>,
    linkinfo: Option<LinkInfo>,
    #[serde(default)]
    addr_info: Vec<Address>,
}

#[derive(Deserialize)]
struct LinkInfo {
    info_kind: Option<String>,
    info_slave_kind: Option<String>,
}

#[derive(Deserialize)]
struct Address {
    scope: Option<String>,
}

/// Returns those of the interfaces that can't be split, each with the reason.
///
/// # Errors
/// If the interfaces can't be listed.
pub fn refused(names: &[String]) -> Result<BTreeMap<String, SplitError>, SplitError> {
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let failed = |because: String| SplitError::failed("ip address show", &because);
    let text = programs::ip(&["-json", "-details", "address", "show"])?.map_err(failed)?;
    let links: Vec<Link> =
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    let refused = names.iter().filter_map(|name| {
        let checked = check(name, &links, filter).and_then(|()| check_source(name, setting));
        Some((name.clone(), checked.err()?))
    });
    Ok(refused.collect())
}

/// Returns a setting (sysctl) of IPv4 on an interface, or on `all`; 0 if it can't be read.
fn setting(interface: &str, name: &str) -> u32 {
    let path = format!("/proc/sys/net/ipv4/conf/{interface}/{name}");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Checks that the kernel does not take the packets of split connections for forged ones. The greater of
/// an interface's setting and that of `all` is in force.
fn check_source(name: &str, setting: impl Fn(&str, &str) -> u32) -> Result<(), SplitError> {
    let is_on = |what: &&str| setting(name, what).max(setting("all", what)) > 0;
    match SOURCE_CHECKS.iter().all(is_on) {
        true => Err(SplitError::Refused(format!(
            "the kernel checks where packets of interface '{name}' come from, and does so with \
             their mark, so it would drop those of split connections: set the sysctls \
             net.ipv4.conf.all.src_valid_mark and net.ipv4.conf.{name}.src_valid_mark to 0, or \
             both rp_filter"
        ))),
        false => Ok(()),
    }
}

/// Returns the first of [`BRIDGE_FILTERS`] that is on; `None` if both are off.
fn filter() -> Option<&'static str> {
    let is_on = |sysctl: &&str| {
        let path = format!("/proc/sys/{}", sysctl.replace('.', "/"));
        fs::read_to_string(path).is_ok_and(|value| value.trim() != "0")
    };
    BRIDGE_FILTERS.into_iter().find(is_on)
}

/// Checks that the interface exists, and that its packets reach this host's IP.
fn check(
    name: &str,
    links: &[Link],
    filter: impl Fn() -> Option<&'static str>,
) -> Result<(), SplitError> {
    if name.contains(['"', '\\', '*']) {
        return Err(SplitError::Refused(format!(
            "interface name '{name}' has a character that nft can't take; rename it with `ip link \
             set`"
        )));
    }
    let link = links.iter().find(|link| link.ifname == name);
    let link = link.ok_or_else(|| {
        SplitError::Refused(format!(
            "interface '{name}' does not exist in this network namespace; list them with `ip link`"
        ))
    })?;
    let info = link.linkinfo.as_ref();
    if let Some(master) = &link.master {
        let kind = info.and_then(|info| info.info_slave_kind.clone());
        return Err(match kind.unwrap_or_else(|| "unknown".into()) {
            kind if kind == "bridge" => SplitError::Refused(format!(
                "interface '{name}' is a port of bridge '{master}', which passes its frames on \
                 without routing them: name '{master}' if it has the address that is the guests' \
                 gateway; otherwise take '{name}' from the bridge and route to it"
            )),
            kind => SplitError::Refused(format!(
                "interface '{name}' belongs to '{master}' ({kind}), which takes its packets: name \
                 an interface whose packets this host routes"
            )),
        });
    }
    if info.and_then(|info| info.info_kind.as_deref()) != Some("bridge") {
        return Ok(());
    }
    // Each interface that is up has an address of its own link.
    let is_global = |address: &Address| address.scope.as_deref() != Some("link");
    if !link.addr_info.iter().any(is_global) {
        return Err(SplitError::Refused(format!(
            "bridge '{name}' has no address of this host, so its guests have another gateway and \
             IP does not see their packets: make this host the gateway (`ip address add ADDRESS \
             dev {name}`), or take the guests from the bridge and route to them"
        )));
    }
    match filter() {
        Some(sysctl) => Err(SplitError::Refused(format!(
            "the packets of bridge '{name}' pass the packet filter before IP, which then forgets \
             where they are to go: set the sysctl {sysctl} to 0"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKS: &str = r#"[
        {"ifname":"tap0","master":"br0","linkinfo":{"info_slave_kind":"bridge"}},
        {"ifname":"tap1","master":"red","linkinfo":{"info_slave_kind":"vrf"}},
        {"ifname":"tap2","addr_info":[{"scope":"global"}]},
        {"ifname":"br0","linkinfo":{"info_kind":"bridge"},"addr_info":[{"scope":"link"}]},
        {"ifname":"br1","linkinfo":{"info_kind":"bridge"},"addr_info":[{"scope":"link"},{"scope":"global"}]}
    ]"#;

    #[test]
    fn ports_of_others_and_bridges_that_are_no_gateway_are_refused() {
        let links: Vec<Link> = serde_json::from_str(LINKS).unwrap();
        let check = |name: &str, filter| check(name, &links, || filter).map_err(|e| e.to_string());
        for (name, filter, words) in [
            ("tap0", None, "port of bridge 'br0'"),
            ("tap1", None, "'red' (vrf)"),
            ("br0", None, "bridge 'br0' has no address"),
            (
                "br1",
                Some(BRIDGE_FILTERS[0]),
                "bridge-nf-call-iptables to 0",
            ),
            ("tap9", None, "'tap9' does not exist"),
            ("a\"b", None, "has a character"),
        ] {
            let error = check(name, filter).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let marked = |on: &'static [(&str, &str)]| {
            let setting = move |at: &str, what: &str| u32::from(on.contains(&(at, what)));
            check_source("tap2", setting).map_err(|error| error.to_string())
        };
        assert_eq!(marked(&[("all", "src_valid_mark")]), Ok(()));
        assert_eq!(
            marked(&[("tap2", "rp_filter"), ("tap3", "src_valid_mark")]),
            Ok(())
        );
        let error = marked(&[("tap2", "rp_filter"), ("all", "src_valid_mark")]).unwrap_err();
        assert!(error.contains("src_valid_mark"), "{error}");
        assert_eq!(check("tap2", Some(BRIDGE_FILTERS[0])), Ok(()));
        assert_eq!(check("br1", None), Ok(()));
    }
}
