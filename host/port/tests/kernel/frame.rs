//! A segment as an Ethernet frame, plain or odd.

use std::net::{IpAddr, SocketAddr};

use etherparse::checksum::Sum16BitWords;
use etherparse::{
    EtherType, Ethernet2Header, IpDscp, IpEcn, IpNumber, Ipv4Header, Ipv4Options, Ipv6Header,
    TcpHeader,
};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use uc_core::{Segment, consts};

/// Maximum payload that always fits into test_run, which takes little more than a page.
pub const PAYLOAD_MAX: u32 = 2400;
pub const ETHERNET: usize = 14;

/// An oddity of a frame.
#[derive(Clone, Debug)]
pub enum Oddity {
    None,
    /// An 802.1Q tag in the frame, with this control information: priority and VLAN ID.
    Vlan(u16),
    /// Two tags.
    VlanStack,
    EtherType(u16),
    /// An IPv4 fragment: more fragments, or an offset. IPv6: a fragment header.
    Fragment(u16),
    /// IPv6: an extension header of this kind. IPv4: another protocol.
    NextHeader(u8),
    /// Only this many bytes of the frame.
    Truncate(u16),
    /// One byte of the headers is changed; the checksums are wrong then.
    Flip {
        at: u8,
        xor: u8,
    },
    WrongChecksum(u16),
    /// The IP header gives no length, as of super-segments above 64 KiB (BIG TCP).
    NoLength,
}

/// How a segment becomes a frame.
#[derive(Clone, Debug)]
pub struct Shape {
    pub dscp: u8,
    /// IPv4 options, in 32-bit words.
    pub ip_option_words: u8,
    /// Options placed before the segment's own: kind, and bytes of value.
    pub options: Vec<(u8, u8)>,
    /// Bytes after the IP packet, as in a frame of minimum size.
    pub padding: u8,
    /// Whether the number of segments is known; for a super-segment from a tap it isn't yet.
    pub gso_segs_known: bool,
    /// Whether a SACK option has the block of the segment's mark, instead of drawn ones.
    pub marks_kept: bool,
    /// The payload is cut to this many bytes.
    pub payload_max: u32,
    pub oddity: Oddity,
}

/// A frame without DSCP, IP options, padding and oddity: Ethernet, IP, TCP.
pub const PLAIN: Shape = Shape {
    dscp: 0,
    ip_option_words: 0,
    options: Vec::new(),
    padding: 0,
    gso_segs_known: true,
    payload_max: PAYLOAD_MAX,
    marks_kept: false,
    oddity: Oddity::None,
};

fn oddities() -> impl Strategy<Value = Oddity> {
    prop_oneof![
        40 => Just(Oddity::None),
        2 => prop_oneof![any::<u16>(), Just(0), Just(0xe000), 1u16..3].prop_map(Oddity::Vlan),
        1 => Just(Oddity::VlanStack),
        1 => any::<u16>().prop_map(Oddity::EtherType),
        1 => (1u16..0x4000).prop_map(Oddity::Fragment),
        1 => prop_oneof![any::<u8>(), Just(0), Just(43), Just(60), Just(51), Just(44), Just(17)]
            .prop_map(Oddity::NextHeader),
        1 => (14u16..120).prop_map(Oddity::Truncate),
        2 => (any::<u8>(), 1u8..=255).prop_map(|(at, xor)| Oddity::Flip { at, xor }),
        1 => (1u16..=0xffff).prop_map(Oddity::WrongChecksum),
        2 => Just(Oddity::NoLength),
    ]
}

/// Returns the control information of the tag that all frames of a flow have: none in most flows, or
/// priorities without a VLAN, or a VLAN's ID.
pub fn tags() -> impl Strategy<Value = Option<u16>> {
    prop_oneof![4 => Just(None), 1 => Just(Some(0)), 1 => Just(Some(0xe000)), 1 => Just(Some(7))]
}

pub fn shapes() -> impl Strategy<Value = Shape> {
    let kinds = prop_oneof![Just(1u8), Just(5), Just(34), Just(254), 9u8..19];
    (
        (0u8..64, prop_oneof![4 => Just(0u8), 1 => 1u8..=10]),
        vec((kinds, 0u8..6), 0..3),
        (prop_oneof![2 => Just(0u8), 1 => 1u8..40], any::<bool>()),
        oddities(),
    )
        .prop_map(|(ip, options, (padding, gso_segs_known), oddity)| Shape {
            dscp: ip.0,
            ip_option_words: ip.1,
            options,
            padding,
            gso_segs_known,
            payload_max: PAYLOAD_MAX,
            marks_kept: false,
            oddity,
        })
}

/// Returns a SACK option of one block, some 100 kB beyond the ACK number, from which the core computes the segment's
/// mark (`uc_sack_mark()` in `core/sack.h`).
fn sack_of_mark(segment: &Segment) -> Vec<u8> {
    let left = segment.ack.wrapping_add(1);
    let mixed = left.wrapping_mul(0x9e37_79b1);
    let high = (segment.ack.wrapping_add(2 << 16) ^ mixed) >> 16;
    let right = (high << 16 | high ^ u32::from(segment.mss_bytes)) ^ mixed;
    let mut option = vec![5, 10];
    option.extend(left.to_be_bytes());
    option.extend(right.to_be_bytes());
    option
}

/// Returns a SACK option of up to three blocks, as far as there is room, by the segment's mark. Some
/// are a D-SACK, or cut short.
fn sack_option(segment: &Segment, room: usize) -> Vec<u8> {
    let mark = u32::from(segment.mss_bytes);
    let at = |bytes: u32| segment.ack.wrapping_add(bytes).to_be_bytes();
    let blocks = (1 + mark % 3).min(room.saturating_sub(2) as u32 / 8);
    if blocks == 0 {
        return Vec::new();
    }
    let mut option = vec![5, 2 + 8 * blocks as u8];
    for block in 0..blocks {
        let far = 1_000 * (mark + blocks - block);
        let from = if mark % 7 == 6 {
            far.wrapping_neg()
        } else {
            far
        };
        option.extend(at(from));
        option.extend(at(from.wrapping_add(500)));
    }
    if mark % 11 == 10 {
        option.truncate(8);
        option[1] = 8;
    }
    option
}

/// Returns the TCP options: first those of the shape, as far as there is room, then the segment's.
fn options(segment: &Segment, shape: &Shape) -> Vec<u8> {
    let has = |bit: u32| u32::from(segment.options) & bit != 0;
    let is_syn = u32::from(segment.flags) & consts::SYN != 0;
    let mut own = Vec::new();
    if has(consts::OPT_MSS) && is_syn {
        own.extend([2, 4]);
        own.extend(segment.mss_bytes.to_be_bytes());
    }
    if has(consts::OPT_WSCALE) {
        own.extend([3, 3, segment.wscale]);
    }
    if has(consts::OPT_SACK) && is_syn {
        own.extend([4, 2]);
    }
    if has(consts::OPT_TIMESTAMPS) {
        own.extend([8, 10, 1, 2, 3, 4, 0, 0, 0, 0]);
    }
    if has(consts::OPT_SIGNED) {
        own.extend([29, 4, 1, 1]);
    }
    if has(consts::OPT_MPTCP) {
        own.extend([30, 4, 0, 1]);
    }
    if has(consts::OPT_SACK) && !is_syn {
        own.extend(match shape.marks_kept {
            true => sack_of_mark(segment),
            false => sack_option(segment, 40 - own.len()),
        });
    }
    let mut all = Vec::new();
    for &(kind, value_bytes) in &shape.options {
        let bytes = if kind == 1 {
            1
        } else {
            2 + usize::from(value_bytes)
        };
        if all.len() + bytes + own.len() > 40 {
            break;
        }
        all.push(kind);
        if kind != 1 {
            all.push(bytes as u8);
            all.extend(std::iter::repeat_n(0xa5, value_bytes.into()));
        }
    }
    all.extend(own);
    // The end of the list; what follows must not be read.
    if !all.len().is_multiple_of(4) {
        all.push(0);
        all.resize(all.len().next_multiple_of(4), 0xff);
    }
    all
}

fn tcp_header(segment: &Segment, source: u16, destination: u16, shape: &Shape) -> TcpHeader {
    let flag = |bit: u32| u32::from(segment.flags) & bit != 0;
    let mut tcp = TcpHeader::new(source, destination, segment.seq, segment.window);
    tcp.acknowledgment_number = segment.ack;
    tcp.ns = u32::from(segment.options) & consts::OPT_AE != 0;
    tcp.fin = flag(consts::FIN);
    tcp.syn = flag(consts::SYN);
    tcp.rst = flag(consts::RST);
    tcp.psh = flag(consts::PSH);
    tcp.ack = flag(consts::ACK);
    tcp.urg = segment.flags & 0x20 != 0;
    tcp.ece = flag(consts::ECE);
    tcp.cwr = flag(consts::CWR);
    tcp.set_options_raw(&options(segment, shape)).unwrap();
    tcp
}

/// Builds the frame of a segment between these ends. Its payload is cut to what the shape allows.
pub fn frame(segment: &Segment, guest: SocketAddr, remote: SocketAddr, shape: &Shape) -> Vec<u8> {
    let from_guest = u32::from(segment.direction) == consts::FROM_GUEST;
    let (source, destination) = if from_guest {
        (guest, remote)
    } else {
        (remote, guest)
    };
    let payload = vec![0x5a; segment.payload_bytes.min(shape.payload_max) as usize];
    let mut tcp = tcp_header(segment, source.port(), destination.port(), shape);
    let ip_payload = tcp.header_len() + payload.len();
    let ecn = IpEcn::try_new(segment.ecn).unwrap();
    let mut bytes = Vec::new();
    let mut ethernet = Ethernet2Header {
        source: [2, 0, 0, 0, 0, 1],
        destination: [2, 0, 0, 0, 0, 2],
        ether_type: EtherType::IPV4,
    };
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let (from, to) = (from.octets(), to.octets());
            let mut ip = Ipv4Header::new(ip_payload as u16, 64, IpNumber::TCP, from, to).unwrap();
            ip.dscp = IpDscp::try_new(shape.dscp).unwrap();
            ip.ecn = ecn;
            let options = [1u8; 40]; // no-operations
            ip.options =
                Ipv4Options::try_from(&options[..usize::from(shape.ip_option_words) * 4]).unwrap();
            ip.set_payload_len(ip_payload).unwrap();
            ip.header_checksum = ip.calc_header_checksum();
            tcp.checksum = tcp.calc_checksum_ipv4(&ip, &payload).unwrap();
            ethernet.write(&mut bytes).unwrap();
            ip.write(&mut bytes).unwrap();
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let ip = Ipv6Header {
                traffic_class: shape.dscp << 2 | segment.ecn,
                payload_length: ip_payload as u16,
                next_header: IpNumber::TCP,
                hop_limit: 64,
                source: from.octets(),
                destination: to.octets(),
                ..Ipv6Header::default()
            };
            tcp.checksum = tcp.calc_checksum_ipv6(&ip, &payload).unwrap();
            ethernet.ether_type = EtherType::IPV6;
            ethernet.write(&mut bytes).unwrap();
            ip.write(&mut bytes).unwrap();
        }
        _ => panic!("two families in one flow"),
    }
    tcp.write(&mut bytes).unwrap();
    bytes.extend(payload);
    bytes.extend(std::iter::repeat_n(0, shape.padding.into()));
    bytes
}

/// Writes a length of 0 into the IP header, and IPv4's checksum of that header.
fn write_no_length(bytes: &mut [u8], ipv4: bool) {
    if !ipv4 {
        bytes[ETHERNET + 4..ETHERNET + 6].fill(0);
        return;
    }
    let end = ETHERNET + usize::from(bytes[ETHERNET] & 15) * 4;
    bytes[ETHERNET + 2..ETHERNET + 4].fill(0);
    bytes[ETHERNET + 10..ETHERNET + 12].fill(0);
    let sum = Sum16BitWords::new().add_slice(&bytes[ETHERNET..end]);
    let checksum = sum.ones_complement().to_ne_bytes();
    bytes[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&checksum);
}

/// Makes the frame odd. Returns whether its checksums still hold.
pub fn make_odd(bytes: &mut Vec<u8>, oddity: &Oddity) -> bool {
    let ipv4 = bytes[12..14] == [8, 0];
    match *oddity {
        Oddity::None => return true,
        Oddity::NoLength => {
            write_no_length(bytes, ipv4);
            return true;
        }
        Oddity::Vlan(control) => {
            let [high, low] = control.to_be_bytes();
            bytes.splice(12..12, [0x81, 0, high, low]);
        }
        Oddity::VlanStack => {
            bytes.splice(12..12, [0x88, 0xa8, 0, 7, 0x81, 0, 0, 9]);
        }
        Oddity::EtherType(kind) => bytes[12..14].copy_from_slice(&kind.to_be_bytes()),
        Oddity::Fragment(field) if ipv4 => {
            bytes[ETHERNET + 6..ETHERNET + 8].copy_from_slice(&field.to_be_bytes());
        }
        Oddity::Fragment(_) => bytes[ETHERNET + 6] = 44,
        Oddity::NextHeader(kind) => bytes[ETHERNET + if ipv4 { 9 } else { 6 }] = kind,
        Oddity::Truncate(length) => bytes.truncate(length.into()),
        Oddity::Flip { at, xor } => {
            let at = ETHERNET + usize::from(at) % (bytes.len() - ETHERNET);
            bytes[at] ^= xor;
        }
        Oddity::WrongChecksum(xor) => {
            let ip_bytes = if ipv4 {
                usize::from(bytes[ETHERNET] & 15) * 4
            } else {
                40
            };
            let at = ETHERNET + ip_bytes + 16;
            bytes[at] ^= (xor >> 8) as u8;
            bytes[at + 1] ^= xor as u8;
        }
    }
    false
}
