//! Segments of scripts as Ethernet frames, and back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{
    IpDscp, IpEcn, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, NetSlice, PacketBuilder,
    SlicedPacket, TcpHeader, TransportSlice,
};
use uc_drill::syntax::OtherOption;
use uc_drill::target::Datagram;
use uc_net::Ecn;
use uc_tcp::{Options, Segment, flags};

/// Link-layer addresses: the guest's, then the script's.
pub(super) const GUEST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(super) const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// TCP port that the guest binds or connects to.
pub(super) const GUEST_PORT: u16 = 8080;
/// First TCP port from which the peer connects.
pub(super) const PEER_PORT: u16 = 45_000;
/// Length of the virtio header before each frame of the tap.
pub(super) const VIRTIO_HEADER_BYTES: usize = 10;
const ETHERNET_HEADER_BYTES: usize = 14;
/// Offset of the checksum in the TCP header, in bytes.
const CHECKSUM_AT: usize = 16;
/// Maximum length of the options in a TCP header, in bytes. The next constants are kinds of options.
const OPTION_BYTES_MAX: usize = 40;
const PADDING_MAX: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// The link-layer header of a frame, between the virtio header and the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// Ethernet's header.
    Ethernet,
    /// Nothing.
    None,
}

impl Link {
    /// Removes Ethernet's header from a new frame if the link has none.
    pub(super) fn strip(self, frame: &mut Vec<u8>) {
        if self == Link::None {
            frame.drain(VIRTIO_HEADER_BYTES..VIRTIO_HEADER_BYTES + ETHERNET_HEADER_BYTES);
        }
    }
}

/// Begins a frame with a virtio header of zeros, which asks for no offload.
pub(super) fn begin() -> Vec<u8> {
    vec![0; VIRTIO_HEADER_BYTES]
}

/// The addresses of the guest and of the script, of one version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) guest: IpAddr,
    pub(super) peer: IpAddr,
}

impl Ends {
    /// Returns packetdrill's own addresses: cookies of TCP Fast Open depend on them.
    pub(super) fn new(is_v6: bool) -> Ends {
        let v6 = |second, third| Ipv6Addr::new(0xfd3d, second, third, 0, 0, 0, 0, 1).into();
        if is_v6 {
            return Ends {
                guest: v6(0x0a0b, 0x17d6),
                peer: v6(0xfa7b, 0xd17d),
            };
        }
        Ends {
            guest: Ipv4Addr::new(192, 168, 0, 1).into(),
            peer: Ipv4Addr::new(192, 0, 2, 1).into(),
        }
    }

    pub(super) fn is_v6(self) -> bool {
        self.guest.is_ipv6()
    }
}

/// Returns whether a segment opens a connection.
pub(super) fn is_syn(datagram: &Datagram) -> bool {
    datagram.segment.has(flags::SYN) && !datagram.segment.has(flags::ACK)
}

/// Makes the frame in which a segment of the peer arrives, after a virtio header; `ports` are the
/// guest's and the peer's. More than `segment_bytes` of payload arrive as one super-segment of segments
/// of this size.
pub(super) fn encode(
    datagram: &Datagram,
    link: Link,
    ends: Ends,
    ports: (u16, u16),
    segment_bytes: u16,
) -> Vec<u8> {
    let segment = &datagram.segment;
    let mut tcp = TcpHeader::new(ports.1, ports.0, segment.seq, segment.window);
    tcp.acknowledgment_number = segment.ack;
    tcp.fin = segment.has(flags::FIN);
    tcp.syn = segment.has(flags::SYN);
    tcp.rst = segment.has(flags::RST);
    tcp.psh = segment.has(flags::PSH);
    tcp.ack = segment.has(flags::ACK);
    tcp.ece = segment.has(flags::ECE);
    tcp.cwr = segment.has(flags::CWR);
    tcp.urg = datagram.urgent.is_some();
    tcp.urgent_pointer = datagram.urgent.unwrap_or(0);
    let written = tcp.set_options_raw(&option_bytes(datagram));
    debug_assert!(written.is_ok(), "40 bytes of options always fit");
    let dscp = IpDscp::try_new(datagram.class >> 2).unwrap_or_default();
    let ecn = IpEcn::try_new(segment.ecn.bits()).unwrap_or_default();
    let builder = PacketBuilder::ethernet2(PEER_MAC, GUEST_MAC);
    let builder = match (ends.peer, ends.guest) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let header = Ipv4Header {
                dscp,
                ecn,
                time_to_live: datagram.hops,
                protocol: IpNumber::TCP,
                source: from.octets(),
                destination: to.octets(),
                dont_fragment: true,
                ..Ipv4Header::default()
            };
            builder.ip(etherparse::IpHeaders::Ipv4(header, Default::default()))
        }
        (from, to) => {
            let octets = |address| match address {
                IpAddr::V6(address) => address.octets(),
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            };
            let header = Ipv6Header {
                traffic_class: datagram.class | segment.ecn.bits(),
                flow_label: Ipv6FlowLabel::ZERO,
                payload_length: 0,
                next_header: IpNumber::TCP,
                hop_limit: datagram.hops,
                source: octets(from),
                destination: octets(to),
            };
            builder.ip(etherparse::IpHeaders::Ipv6(header, Default::default()))
        }
    };
    let payload = vec![0; usize::from(segment.payload_bytes)];
    let mut bytes = begin();
    let header_bytes = tcp.header_len();
    let written = builder.tcp_header(tcp).write(&mut bytes, &payload);
    debug_assert!(written.is_ok(), "a vector takes every frame");
    link.strip(&mut bytes);
    if segment.payload_bytes > segment_bytes {
        let transport_bytes = header_bytes + payload.len();
        offload(&mut bytes, link, ends, transport_bytes, segment_bytes);
    }
    bytes
}

/// Marks a frame as a super-segment, in its virtio header: the kernel takes it for segments of `segment_bytes` that
/// hardware merged. On Ethernet, where further devices follow, the TCP checksum becomes that of the pseudo header.
fn offload(bytes: &mut [u8], link: Link, ends: Ends, transport_bytes: usize, segment_bytes: u16) {
    let is_v6 = ends.is_v6();
    // struct virtio_net_hdr of linux/virtio_net.h
    bytes[1] = if is_v6 { 4 } else { 1 };
    bytes[4..6].copy_from_slice(&segment_bytes.to_ne_bytes());
    if link == Link::None {
        // As packetdrill: a length of headers here would change the memory that the kernel counts.
        return;
    }
    let start = bytes.len() - transport_bytes;
    let address_bytes = if is_v6 { 32 } else { 8 };
    let addresses = &bytes[start - address_bytes..start];
    let words = addresses.chunks_exact(2);
    let words = words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum = words.sum::<u32>() + u32::from(IpNumber::TCP.0) + transport_bytes as u32;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let field = start + CHECKSUM_AT;
    bytes[field..field + 2].copy_from_slice(&(sum as u16).to_be_bytes());
    let header_end = (start - VIRTIO_HEADER_BYTES) as u16;
    bytes[0] = 1;
    bytes[2..4].copy_from_slice(&header_end.to_ne_bytes());
    bytes[6..8].copy_from_slice(&header_end.to_ne_bytes());
    bytes[8..10].copy_from_slice(&(CHECKSUM_AT as u16).to_ne_bytes());
}

/// Returns the options of a segment as bytes. If they are too many, the last are left out.
fn option_bytes(datagram: &Datagram) -> Vec<u8> {
    let options = &datagram.segment.options;
    let mut all: Vec<Vec<u8>> = Vec::new();
    let mut add = |kind: u8, parts: &[&[u8]]| {
        let value = parts.concat();
        all.push([&[kind, value.len() as u8 + 2], value.as_slice()].concat());
    };
    if options.mss_bytes > 0 {
        add(MSS, &[&options.mss_bytes.to_be_bytes()]);
    }
    if options.sack_permitted {
        add(SACK_PERMITTED, &[]);
    }
    if let Some((value, echo)) = options.timestamps {
        add(TIMESTAMPS, &[&value.to_be_bytes(), &echo.to_be_bytes()]);
    }
    if let Some(scale) = options.wscale {
        add(WINDOW_SCALE, &[&[scale]]);
    }
    for other in &datagram.others {
        add(other.kind, &[&other.bytes]);
    }
    let blocks = options.sack.as_slice().iter();
    let blocks = blocks.flat_map(|(from, to)| [from.to_be_bytes(), to.to_be_bytes()]);
    let blocks: Vec<_> = blocks.collect();
    if !blocks.is_empty() {
        add(SACK, &[blocks.as_flattened()]);
    }
    while all.iter().map(Vec::len).sum::<usize>() > OPTION_BYTES_MAX {
        all.pop();
    }
    all.concat()
}

/// Reads a frame of the guest: a segment, and the guest's and the peer's TCP port. `None` if it holds no TCP segment.
pub(super) fn decode(frame: &[u8], link: Link) -> Option<(Datagram, (u16, u16))> {
    let packet = match link {
        Link::Ethernet => SlicedPacket::from_ethernet(frame),
        Link::None => SlicedPacket::from_ip(frame),
    };
    let packet = packet.ok()?;
    let (hops, class, ecn) = match packet.net.as_ref()? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            (
                header.ttl(),
                header.dcp().value() << 2,
                header.ecn().value(),
            )
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            let class = header.traffic_class();
            (header.hop_limit(), class & !3, class & 3)
        }
        NetSlice::Arp(_) => return None,
    };
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else {
        return None;
    };
    let bits = [
        (tcp.fin(), flags::FIN),
        (tcp.syn(), flags::SYN),
        (tcp.rst(), flags::RST),
        (tcp.psh(), flags::PSH),
        (tcp.ack(), flags::ACK),
        (tcp.ece(), flags::ECE),
        (tcp.cwr(), flags::CWR),
    ];
    let set = bits.iter().filter(|(is_set, _)| *is_set);
    let (options, others) = options(tcp.options());
    let segment = Segment {
        seq: tcp.sequence_number(),
        ack: tcp.acknowledgment_number(),
        window: tcp.window_size(),
        payload_bytes: tcp.payload().len() as u16,
        flags: set.fold(0, |all, (_, bit)| all | bit),
        ecn: Ecn::from_bits(ecn),
        options,
    };
    let datagram = Datagram {
        segment,
        hops,
        class,
        urgent: tcp.urg().then(|| tcp.urgent_pointer()),
        others,
    };
    Some((datagram, (tcp.source_port(), tcp.destination_port())))
}

/// Reads the options: those that `uc_tcp` knows, and the others.
fn options(mut bytes: &[u8]) -> (Options, Vec<OtherOption>) {
    let (mut options, mut others) = (Options::default(), Vec::new());
    while let [kind, rest @ ..] = bytes {
        if *kind <= PADDING_MAX {
            bytes = rest;
            continue;
        }
        let length = usize::from(rest.first().copied().unwrap_or(0));
        let Some((value, after)) = bytes.split_at_checked(length).filter(|_| length >= 2) else {
            break;
        };
        let value = &value[2..];
        let words = value.chunks_exact(4);
        let words: Vec<_> = words
            .map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        match (*kind, value, words.as_slice()) {
            (MSS, &[high, low], _) => options.mss_bytes = u16::from_be_bytes([high, low]),
            (WINDOW_SCALE, &[scale], _) => options.wscale = Some(scale),
            (SACK_PERMITTED, [], _) => options.sack_permitted = true,
            (TIMESTAMPS, _, &[value, echo]) => options.timestamps = Some((value, echo)),
            (SACK, _, blocks) => {
                for block in blocks.chunks_exact(2) {
                    options.sack.push(block[0], block[1]);
                }
            }
            (kind, value, _) => others.push(OtherOption {
                kind,
                bytes: value.to_vec(),
            }),
        }
        bytes = after;
    }
    (options, others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_made_with_and_without_ethernet() {
        let segment = Segment {
            seq: 7,
            ack: 9,
            window: 100,
            payload_bytes: 3000,
            flags: flags::ACK | flags::PSH,
            ecn: Ecn::Ect0,
            options: Options::default(),
        };
        let made = Datagram {
            segment,
            hops: 64,
            class: 32,
            urgent: None,
            others: Vec::new(),
        };
        for is_v6 in [false, true] {
            for (link, head) in [
                // Packetdrill gives the type and the size of segments only.
                (Link::None, [0, 0, 0, 232, 3, 0, 0, 0, 0]),
                (Link::Ethernet, [1, 0, 0, 232, 3, 0, 0, 16, 0]),
            ] {
                let mut frame = encode(&made, link, Ends::new(is_v6), (80, 90), 1000);
                let read = decode(&frame[VIRTIO_HEADER_BYTES..], link);
                assert_eq!(read, Some((made.clone(), (90, 80))), "{link:?}");
                assert_eq!(frame.remove(1), if is_v6 { 4 } else { 1 });
                if link == Link::Ethernet {
                    // Where the headers end, and where that of TCP begins.
                    let start = if is_v6 { 54 } else { 34 };
                    assert_eq!((frame[1], frame[5]), (start, start));
                    (frame[1], frame[5]) = (0, 0);
                }
                assert_eq!(frame[..head.len()], head, "{link:?}");
            }
        }
    }
}
