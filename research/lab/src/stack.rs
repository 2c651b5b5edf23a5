//! Conversion of an experiment's stack into sysctls. Every namespace sets all of them: a new
//! namespace inherits some from the host (congestion control, memory) and has defaults for the
//! rest, and both differ between hosts and kernels. Read first:
//! Documentation/networking/ip-sysctl.rst.

use std::path::Path;

use uc_experiment::{Family, Frto, Stack};

/// Range of a socket's receive memory in bytes: from Linux's default to 2^30. Within the range the window scale
/// decides, so that memory never limits a sender, unless the stack has a receive buffer.
const RECEIVE_BYTES: std::ops::RangeInclusive<u64> = 6 << 20..=1 << 30;

/// Returns the maximum receive window of a route for a stack with this scale, in bytes.
///
/// Linux announces scale = ⌊log2(space)⌋ − 15 with space = min(max(tcp_rmem[2], rmem_max), clamp)
/// (`tcp_select_initial_window`). rmem_max belongs to the host and can't be set in a namespace, so
/// the clamp decides, and it comes from the route's `window`. The value is the largest of its
/// scale: it does not narrow the 16 bits of the header.
pub fn window_clamp_bytes(wscale: u8) -> u64 {
    (1 << (16 + u32::from(wscale))) - 1
}

/// Returns the maximum receive window of a stack, in bytes: its scale's, or its buffer.
pub fn window_bytes(stack: &Stack) -> u64 {
    let buffer = stack
        .receive_buffer
        .map_or(u64::MAX, |buffer| buffer.0.into());
    window_clamp_bytes(stack.wscale).min(buffer)
}

/// Returns the maximum receive window of a stack that has a buffer. Linux since 6.10 replaces the
/// route's limit at the first full segment; so a receiver's sockets set this limit again.
pub fn buffer_bytes(stack: &Stack) -> Option<u32> {
    let bytes = stack.receive_buffer.map(|_| window_bytes(stack));
    bytes.and_then(|bytes| u32::try_from(bytes).ok())
}

/// Returns the sysctls of a namespace that runs `stack`, in the order in which they are to be
/// written.
pub fn sysctls(family: Family, stack: &Stack) -> Vec<(&'static str, String)> {
    let flag = |on: bool| u8::from(on).to_string();
    // Half of a socket's memory counts as window until the kernel has measured the packets'
    // overhead; twice the clamp makes the whole window available from the first segment on.
    let least = match stack.receive_buffer {
        Some(_) => 0,
        None => *RECEIVE_BYTES.start(),
    };
    let receive_bytes = (2 * window_bytes(stack)).clamp(least, *RECEIVE_BYTES.end());
    let mut list = vec![
        ("net.ipv4.tcp_ecn", flag(stack.ecn)),
        // RFC 3168 §6.1.1.1 allows retrying a lost ECN SYN without ECN; the flow would then not be
        // what the experiment describes.
        ("net.ipv4.tcp_ecn_fallback", "0".into()),
        ("net.ipv4.tcp_sack", flag(stack.sack)),
        ("net.ipv4.tcp_timestamps", flag(stack.timestamps)),
        ("net.ipv4.tcp_recovery", flag(stack.rack)),
        (
            "net.ipv4.tcp_early_retrans",
            if stack.early_retransmit { "3" } else { "0" }.into(),
        ),
        (
            "net.ipv4.tcp_frto",
            if stack.frto == Some(Frto::Off) {
                "0"
            } else {
                "2"
            }
            .into(),
        ),
        ("net.ipv4.tcp_window_scaling", "1".into()),
        // Otherwise a flow starts with the ssthresh of the flow before it.
        ("net.ipv4.tcp_no_metrics_save", "1".into()),
        (
            "net.ipv4.tcp_slow_start_after_idle",
            flag(stack.restart_after_idle.unwrap_or(true)),
        ),
        ("net.ipv4.tcp_mtu_probing", "0".into()),
        // The buffer has its full size from the start: nothing to tune.
        ("net.ipv4.tcp_moderate_rcvbuf", "0".into()),
        (
            "net.ipv4.tcp_rmem",
            format!("4096 {receive_bytes} {receive_bytes}"),
        ),
        ("net.ipv4.tcp_wmem", "4096 65536 16777216".into()),
    ];
    if kernel_has_ipv6() {
        list.extend(ipv6_sysctls(family));
    }
    list
}

/// Returns the sysctls of the hosts' namespace: no IP, and no packet filter on bridges.
pub fn bridge_sysctls() -> Vec<(&'static str, String)> {
    let mut list = Vec::new();
    if kernel_has_ipv6() {
        list.push(("net.ipv6.conf.all.disable_ipv6", "1".into()));
        list.push(("net.ipv6.conf.default.disable_ipv6", "1".into()));
    }
    if Path::new("/proc/sys/net/bridge/bridge-nf-call-iptables").exists() {
        list.push(("net.bridge.bridge-nf-call-iptables", "0".into()));
        list.push(("net.bridge.bridge-nf-call-ip6tables", "0".into()));
        list.push(("net.bridge.bridge-nf-call-arptables", "0".into()));
    }
    list
}

/// Returns sysctls for the IP version. IPv6: addresses are usable at once and interfaces send
/// nothing by themselves; IPv4: no IPv6 at all.
fn ipv6_sysctls(family: Family) -> Vec<(&'static str, String)> {
    match family {
        Family::Ipv4 => vec![
            ("net.ipv6.conf.all.disable_ipv6", "1".into()),
            ("net.ipv6.conf.default.disable_ipv6", "1".into()),
        ],
        Family::Ipv6 => vec![
            ("net.ipv6.conf.all.disable_ipv6", "0".into()),
            ("net.ipv6.conf.default.disable_ipv6", "0".into()),
            ("net.ipv6.conf.default.accept_dad", "0".into()),
            ("net.ipv6.conf.default.dad_transmits", "0".into()),
            ("net.ipv6.conf.default.accept_ra", "0".into()),
            ("net.ipv6.conf.default.autoconf", "0".into()),
            ("net.ipv6.conf.default.router_solicitations", "0".into()),
            // 1: no link-local address.
            ("net.ipv6.conf.default.addr_gen_mode", "1".into()),
        ],
    }
}

/// First kernel that detects losses by RACK in every flow with SACK, whatever `tcp_recovery` says: it
/// has no other way (RFC 6675) any more.
const RACK_ALWAYS_SINCE: (u32, u32) = (6, 17);

/// Returns whether these settings ask for SACK without RACK, and the kernel has RACK in every flow with SACK. `release`
/// is what `uname -r` prints.
pub fn asks_for_less_than_rack(settings: &[(&str, String)], release: &str) -> bool {
    let has = |key, wanted| {
        let mut values = settings.iter().filter(|(name, _)| *name == key);
        values.any(|(_, value)| value == wanted)
    };
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse().ok());
    let version = next().zip(next());
    has("net.ipv4.tcp_sack", "1")
        && has("net.ipv4.tcp_recovery", "0")
        && version.is_some_and(|version| version >= RACK_ALWAYS_SINCE)
}

fn kernel_has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6/conf/default").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clamp_is_the_largest_space_with_its_scale() {
        for wscale in 0..=14_u8 {
            let announced = |space: u64| space.ilog2().saturating_sub(15);
            assert_eq!(announced(window_clamp_bytes(wscale)), u32::from(wscale));
            assert!(announced(window_clamp_bytes(wscale) + 1) > u32::from(wscale));
            assert!(window_clamp_bytes(wscale) >= 65_535 << wscale);
        }
    }

    #[test]
    fn sack_without_rack_is_asked_of_older_kernels_only() {
        let asks = |lines: &[(&str, bool)], release| {
            let mut stack = Stack::default();
            for &(key, on) in lines {
                match key {
                    "sack" => stack.sack = on,
                    _ => stack.rack = on,
                }
            }
            asks_for_less_than_rack(&sysctls(Family::Ipv4, &stack), release)
        };
        for release in ["6.17.0", "6.18.44-fc", "7.0-rc1", "10.1"] {
            assert!(asks(&[("rack", false)], release), "{release}");
            assert!(!asks(&[("rack", false), ("sack", false)], release));
            assert!(!asks(&[], release), "{release}");
        }
        for release in ["6.16.9", "6.12-kasan", "5.10.0-32-amd64", ""] {
            assert!(!asks(&[("rack", false)], release), "{release}");
        }
    }

    #[test]
    fn no_key_is_written_twice() {
        for family in [Family::Ipv4, Family::Ipv6] {
            let mut keys: Vec<_> = sysctls(family, &Stack::default())
                .into_iter()
                .map(|(key, _)| key)
                .collect();
            let count = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), count);
        }
    }
}
