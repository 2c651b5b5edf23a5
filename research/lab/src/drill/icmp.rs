//! ICMP errors of scripts as frames.

use std::net::IpAddr;

use etherparse::PacketBuilder;
use uc_drill::Stop;
use uc_drill::target::Report;

use super::frames::{Ends, GUEST_MAC, Link, PEER_MAC, begin};

/// Time to live of ICMP errors, and of the packets that they quote.
const HOPS: u8 = 64;
/// ICMP errors: name, type in IPv4 (RFC 792), type in IPv6 (RFC 4443); `None` where a version lacks the error.
const TYPES: [(&str, Option<u8>, Option<u8>); 6] = [
    ("unreachable", Some(3), Some(1)),
    ("source_quench", Some(4), None),
    ("redirect", Some(5), None),
    ("packet_too_big", None, Some(2)),
    ("time_exceeded", Some(11), Some(3)),
    ("parameter_problem", Some(12), Some(4)),
];
/// Names of the codes of `unreachable`, from code 0 on: IPv4 (RFC 1812 §5.2.7.1), then IPv6 (RFC 4443 §3.1).
const CODES_V4: [&str; 16] = [
    "net_unreachable",
    "host_unreachable",
    "protocol_unreachable",
    "port_unreachable",
    "frag_needed",
    "source_route_failed",
    "net_unknown",
    "host_unknown",
    "source_host_isolated",
    "net_prohibited",
    "host_prohibited",
    "net_unreachable_for_tos",
    "host_unreachable_for_tos",
    "packet_filtered",
    "precedence_violation",
    "precedence_cutoff",
];
const CODES_V6: [&str; 5] = [
    "no_route",
    "admin_prohibited",
    "not_neighbour",
    "address_unreachable",
    "port_unreachable",
];

/// Makes the frame in which an error about a segment of the guest arrives, after a virtio header.
pub(super) fn encode(
    report: &Report,
    link: Link,
    ends: Ends,
    ports: (u16, u16),
) -> Result<Vec<u8>, Stop> {
    let Report { kind, code, .. } = report;
    let lacks = || Stop::Lacks(format!("the ICMP error {kind} {code} is not supported"));
    let row = TYPES.iter().find(|(name, ..)| name == kind);
    let (_, v4, v6) = row.ok_or_else(lacks)?;
    let (number, codes) = if ends.is_v6() {
        (v6, &CODES_V6[..])
    } else {
        (v4, &CODES_V4[..])
    };
    let number = number.ok_or_else(lacks)?;
    let code = match codes.iter().position(|name| name == code) {
        Some(at) if kind == "unreachable" => at as u8,
        _ if code.is_empty() => 0,
        _ => return Err(lacks()),
    };
    // The MTU is in the last two bytes for IPv4, and in all four for IPv6.
    let rest = report.mtu.unwrap_or(0).to_be_bytes();
    let outer = PacketBuilder::ethernet2(PEER_MAC, GUEST_MAC);
    let (mut frame, mut quoted) = (begin(), Vec::new());
    let written = match (ends.peer, ends.guest) {
        (IpAddr::V4(peer), IpAddr::V4(guest)) => {
            let (peer, guest) = (peer.octets(), guest.octets());
            let inner = PacketBuilder::ipv4(guest, peer, HOPS);
            let inner = inner.tcp(ports.0, ports.1, report.seq, 0);
            let outer = outer.ipv4(peer, guest, HOPS);
            let outer = outer.icmpv4_raw(number, code, rest);
            let quotes = inner.write(&mut quoted, &[]);
            quotes.and_then(|()| outer.write(&mut frame, &quoted))
        }
        (IpAddr::V6(peer), IpAddr::V6(guest)) => {
            let (peer, guest) = (peer.octets(), guest.octets());
            let inner = PacketBuilder::ipv6(guest, peer, HOPS);
            let inner = inner.tcp(ports.0, ports.1, report.seq, 0);
            let outer = outer.ipv6(peer, guest, HOPS);
            let outer = outer.icmpv6_raw(number, code, rest);
            let quotes = inner.write(&mut quoted, &[]);
            quotes.and_then(|()| outer.write(&mut frame, &quoted))
        }
        _ => return Err(lacks()),
    };
    debug_assert!(written.is_ok(), "a vector takes every frame");
    link.strip(&mut frame);
    Ok(frame)
}
