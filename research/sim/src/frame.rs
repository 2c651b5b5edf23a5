//! The headers of a packet as they would be on a wire.
//!
//! Hosts and connections have no addresses in the simulator: here a host's number becomes an address,
//! and an end's index and generation become ports. The payload, which is not part of the headers, is of
//! zeros in the checksum.

use etherparse::{
    EtherType, Ethernet2Header, IpEcn, IpNumber, Ipv4Header, Ipv6Header, TcpHeader,
    TcpOptionElement,
};
use uc_net::HostId;
use uc_tcp::{Segment, flags};

use crate::packet::{Address, CONNECTIONS_MAX, Packet};

/// First port that IANA assigns to nobody (RFC 6335 §6), so that no analyser expects a protocol there.
const PORT_FIRST: usize = 49_152;
/// Number of ports from [`PORT_FIRST`] on.
const PORTS: usize = (1 << 16) - PORT_FIRST;
/// Size of an IPv4 header without options.
const IPV4_HEADER_BYTES: u32 = 20;
/// Time to live of packets, in routers.
const HOPS: u8 = 64;
/// IP protocol of packets without a TCP header, which stand for probes and turns: for experiments
/// (RFC 3692 §2.1).
const NOT_TCP: IpNumber = IpNumber::EXPERIMENTAL_AND_TESTING_0;
/// Bytes of a packet without a TCP header, after its IP header.
const NOT_TCP_BYTES: usize = 20;
/// Payload of all captured segments: zeros.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Returns the Ethernet, IP and TCP headers of a packet between two hosts, with checksums.
pub(crate) fn headers(packet: &Packet, ip_header_bytes: u32, from: HostId, to: HostId) -> Vec<u8> {
    let segment = &packet.segment;
    let is_ipv4 = ip_header_bytes == IPV4_HEADER_BYTES;
    let mut bytes = Ethernet2Header {
        source: mac(from),
        destination: mac(to),
        ether_type: if is_ipv4 {
            EtherType::IPV4
        } else {
            EtherType::IPV6
        },
    }
    .to_bytes()
    .to_vec();
    let inner = inner(packet, is_ipv4, from, to);
    let (protocol, payload_bytes) = match segment.flags {
        0 => (NOT_TCP, 0),
        _ => (IpNumber::TCP, usize::from(segment.payload_bytes)),
    };
    // The frame of a jumbo segment is capped, too.
    let length = u16::try_from(inner.len() + payload_bytes).unwrap_or(u16::MAX - 60);
    let ecn = IpEcn::try_new(segment.ecn.bits()).unwrap_or_default();
    if is_ipv4 {
        let mut header = Ipv4Header {
            ecn,
            dont_fragment: true,
            time_to_live: HOPS,
            protocol,
            source: ipv4(from),
            destination: ipv4(to),
            total_len: length.saturating_add(IPV4_HEADER_BYTES as u16),
            ..Ipv4Header::default()
        };
        header.header_checksum = header.calc_header_checksum();
        bytes.extend_from_slice(&header.to_bytes());
    } else {
        let mut header = Ipv6Header {
            payload_length: length,
            next_header: protocol,
            hop_limit: HOPS,
            source: ipv6(from),
            destination: ipv6(to),
            ..Ipv6Header::default()
        };
        header.set_ecn(ecn);
        bytes.extend_from_slice(&header.to_bytes());
    }
    bytes.extend_from_slice(&inner);
    bytes
}

/// Returns the bytes after the IP header: the TCP header, or the content of a packet without one.
fn inner(packet: &Packet, is_ipv4: bool, from: HostId, to: HostId) -> Vec<u8> {
    let segment = &packet.segment;
    if segment.flags == 0 {
        return vec![0; NOT_TCP_BYTES];
    }
    let mut header = tcp(segment, packet.to);
    let payload = &ZEROS[..usize::from(segment.payload_bytes)];
    let checksum = if is_ipv4 {
        header.calc_checksum_ipv4_raw(ipv4(from), ipv4(to), payload)
    } else {
        header.calc_checksum_ipv6_raw(ipv6(from), ipv6(to), payload)
    };
    // It fails for payloads of more than 16 bits only, for which IP has no length either.
    header.checksum = checksum.unwrap_or_default();
    header.to_bytes().to_vec()
}

fn tcp(segment: &Segment, to: Address) -> TcpHeader {
    let has = |flag: u8| segment.flags & flag != 0;
    let mut header = TcpHeader {
        source_port: port(to.peer()),
        destination_port: port(to),
        sequence_number: segment.seq,
        acknowledgment_number: if has(flags::ACK) { segment.ack } else { 0 },
        fin: has(flags::FIN),
        syn: has(flags::SYN),
        rst: has(flags::RST),
        psh: has(flags::PSH),
        ack: has(flags::ACK),
        ece: has(flags::ECE),
        cwr: has(flags::CWR),
        window_size: segment.window,
        ..TcpHeader::default()
    };
    let laid = header.set_options(&options(segment));
    debug_assert!(laid.is_ok(), "{laid:?}");
    debug_assert_eq!(header.header_len() as u32, segment.header_bytes());
    header
}

/// Returns the options with the padding that [`Segment::header_bytes`] counts.
fn options(segment: &Segment) -> Vec<TcpOptionElement> {
    use TcpOptionElement::{
        MaximumSegmentSize, Noop, SelectiveAcknowledgement, SelectiveAcknowledgementPermitted,
        Timestamp, WindowScale,
    };
    let options = &segment.options;
    let mut laid = Vec::new();
    if options.mss_bytes > 0 {
        laid.push(MaximumSegmentSize(options.mss_bytes));
    }
    match (options.timestamps, options.sack_permitted) {
        (Some((value, echo)), true) => {
            laid.extend([SelectiveAcknowledgementPermitted, Timestamp(value, echo)]);
        }
        (Some((value, echo)), false) => laid.extend([Noop, Noop, Timestamp(value, echo)]),
        (None, true) => laid.extend([Noop, Noop, SelectiveAcknowledgementPermitted]),
        (None, false) => {}
    }
    if let Some(scale) = options.wscale {
        laid.extend([Noop, WindowScale(scale)]);
    }
    if let [first, rest @ ..] = options.sack.as_slice() {
        let mut more = [None; 3];
        for (place, block) in more.iter_mut().zip(rest) {
            *place = Some(*block);
        }
        laid.extend([Noop, Noop, SelectiveAcknowledgement(*first, more)]);
    }
    laid
}

/// Returns an end's TCP port. The guest's port stands for the connection's index, the receiver's for its generation. No
/// two connections of a run have the same pair, up to the 4,096th at one index.
fn port(end: Address) -> u16 {
    let (connection, is_receiver) = (end.place() / 2, end.place() % 2 == 1);
    let number = if is_receiver {
        connection / PORTS + CONNECTIONS_MAX as usize / PORTS * end.life()
    } else {
        connection
    };
    (PORT_FIRST + number % PORTS) as u16
}

fn mac(host: HostId) -> [u8; 6] {
    let [a, b, c, d] = host.0.to_be_bytes();
    // A locally administered address.
    [0x02, 0, a, b, c, d]
}

/// Returns an address of 10.0.0.0/8; the first host has 10.0.0.1.
fn ipv4(host: HostId) -> [u8; 4] {
    let [_, b, c, d] = (host.0 + 1).to_be_bytes();
    [10, b, c, d]
}

/// Returns a unique local address (RFC 4193).
fn ipv6(host: HostId) -> [u8; 16] {
    let mut address = [0; 16];
    address[0] = 0xfd;
    address[12..].copy_from_slice(&(host.0 + 1).to_be_bytes());
    address
}
