//! Segments of scripts as Ethernet frames, and back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{
    IpDscp, IpEcn, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, NetSlice, PacketBuilder,
    SlicedPacket, TcpHeader, TcpOptionElement, TransportSlice,
};
use uc_drill::target::Datagram;
use uc_net::Ecn;
use uc_tcp::{Options, SackBlocks, Segment, flags};

/// The guest's address on Ethernet, and the script's.
pub(super) const GUEST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(super) const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The port that a guest binds, and the port that its peer connects to.
pub(super) const GUEST_PORT: u16 = 8080;
/// The port from which the peer connects.
pub(super) const PEER_PORT: u16 = 45_000;

/// The version of IP between script and guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V4,
    V6,
}

impl Version {
    /// Returns the guest's address and the peer's, of the ranges for documentation.
    pub(super) fn addresses(self) -> (IpAddr, IpAddr) {
        match self {
            Version::V4 => (
                Ipv4Addr::new(192, 0, 2, 1).into(),
                Ipv4Addr::new(192, 0, 2, 2).into(),
            ),
            Version::V6 => (
                Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
                Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).into(),
            ),
        }
    }
}

/// Returns whether a segment opens a connection.
pub(super) fn is_syn(datagram: &Datagram) -> bool {
    datagram.segment.has(flags::SYN) && !datagram.segment.has(flags::ACK)
}

/// Makes the frame in which a segment of the peer arrives; `ports` are the guest's and the peer's.
pub(super) fn encode(datagram: &Datagram, version: Version, ports: (u16, u16)) -> Vec<u8> {
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
    let options = elements(&segment.options);
    // A script's options fit, or its SACK blocks are too many: the last are left out then.
    let fits = (0..=options.len())
        .rev()
        .find(|&count| tcp.set_options(&options[..count]).is_ok());
    debug_assert!(fits.is_some(), "no options always fit");
    let dscp = IpDscp::try_new(datagram.class >> 2).unwrap_or_default();
    let ecn = IpEcn::try_new(segment.ecn.bits()).unwrap_or_default();
    let builder = PacketBuilder::ethernet2(PEER_MAC, GUEST_MAC);
    let (guest, peer) = version.addresses();
    let builder = match (peer, guest) {
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
    let mut bytes = Vec::new();
    let written = builder.tcp_header(tcp).write(&mut bytes, &payload);
    debug_assert!(written.is_ok(), "a vector takes every frame");
    bytes
}

fn elements(options: &Options) -> Vec<TcpOptionElement> {
    let mut elements = Vec::new();
    if options.mss_bytes > 0 {
        elements.push(TcpOptionElement::MaximumSegmentSize(options.mss_bytes));
    }
    if options.sack_permitted {
        elements.push(TcpOptionElement::SelectiveAcknowledgementPermitted);
    }
    if let Some((value, echo)) = options.timestamps {
        elements.push(TcpOptionElement::Timestamp(value, echo));
    }
    if let Some(scale) = options.wscale {
        elements.push(TcpOptionElement::WindowScale(scale));
    }
    if let [first, rest @ ..] = options.sack.as_slice() {
        let mut others = [None; 3];
        others
            .iter_mut()
            .zip(rest)
            .for_each(|(place, block)| *place = Some(*block));
        elements.push(TcpOptionElement::SelectiveAcknowledgement(*first, others));
    }
    elements
}

/// Reads a frame of the guest: a segment, and the guest's and the peer's port.
pub(super) fn decode(frame: &[u8]) -> Option<(Datagram, (u16, u16))> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
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
    let segment = Segment {
        seq: tcp.sequence_number(),
        ack: tcp.acknowledgment_number(),
        window: tcp.window_size(),
        payload_bytes: tcp.payload().len() as u16,
        flags: set.fold(0, |all, (_, bit)| all | bit),
        ecn: Ecn::from_bits(ecn),
        options: options(tcp.options_iterator()),
    };
    let datagram = Datagram {
        segment,
        hops,
        class,
    };
    Some((datagram, (tcp.source_port(), tcp.destination_port())))
}

/// Reads the options that scripts can name; others are skipped.
fn options(elements: etherparse::TcpOptionsIterator<'_>) -> Options {
    let mut options = Options::default();
    for element in elements.flatten() {
        match element {
            TcpOptionElement::MaximumSegmentSize(bytes) => options.mss_bytes = bytes,
            TcpOptionElement::WindowScale(scale) => options.wscale = Some(scale),
            TcpOptionElement::SelectiveAcknowledgementPermitted => options.sack_permitted = true,
            TcpOptionElement::Timestamp(value, echo) => options.timestamps = Some((value, echo)),
            TcpOptionElement::SelectiveAcknowledgement(first, rest) => {
                let mut sack = SackBlocks::default();
                for (from, to) in std::iter::once(first).chain(rest.into_iter().flatten()) {
                    sack.push(from, to);
                }
                options.sack = sack;
            }
            TcpOptionElement::Noop => {}
        }
    }
    options
}
