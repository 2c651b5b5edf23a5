//! Frames for tests.

use etherparse::{
    Ipv4HeaderSlice, NetSlice, PacketBuilder, SlicedPacket, TcpHeader, TcpOptionElement,
    TransportSlice,
};

use crate::frame::{CHECKSUM, Checksum, Frame};

pub const SEQ: u32 = u32::MAX - 2000;
pub const ACK: u32 = 77;
pub const WINDOW: u16 = 500;
pub const SACK: (u32, u32) = (900, 1900);
pub const TIMESTAMPS: (u32, u32) = (11, 22);

/// Returns a frame with complete checksums, CWR, FIN, PSH, timestamps and a SACK block.
pub fn bytes(is_ipv6: bool, payload: &[u8]) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
    let ip = match is_ipv6 {
        true => ethernet.ipv6([1; 16], [2; 16], 61),
        false => ethernet.ipv4([10, 1, 0, 1], [10, 2, 0, 2], 61),
    };
    let tcp = ip
        .tcp(40_000, 80, SEQ, WINDOW)
        .ack(ACK)
        .psh()
        .fin()
        .cwr()
        .options(&[
            TcpOptionElement::Noop,
            TcpOptionElement::Noop,
            TcpOptionElement::Timestamp(TIMESTAMPS.0, TIMESTAMPS.1),
            TcpOptionElement::Noop,
            TcpOptionElement::Noop,
            TcpOptionElement::SelectiveAcknowledgement(SACK, [None; 3]),
        ])
        .unwrap();
    let mut bytes = Vec::with_capacity(tcp.size(payload.len()));
    tcp.write(&mut bytes, payload).unwrap();
    bytes
}

/// Returns the offset of the TCP header in a frame of [`bytes`].
pub fn tcp_at(is_ipv6: bool) -> usize {
    if is_ipv6 { 54 } else { 34 }
}

/// Reads a frame of [`bytes`], as a super-segment unless `gso_bytes` is 0.
pub fn frame(is_ipv6: bool, payload: &[u8], gso_bytes: usize) -> Frame {
    let bytes = bytes(is_ipv6, payload);
    Frame::read(&bytes, tcp_at(is_ipv6), payload.len(), gso_bytes).unwrap()
}

/// Parses a frame after the work of hardware that completes checksums, as [`parsed`] does.
pub fn delivered(frame: &Frame) -> (TcpHeader, Vec<u8>) {
    let mut bytes = frame.bytes().to_vec();
    if frame.checksum() == Checksum::Partial {
        let sum = etherparse::checksum::Sum16BitWords::new().add_slice(&bytes[frame.tcp_at()..]);
        let field = frame.tcp_at() + CHECKSUM;
        bytes[field..field + 2].copy_from_slice(&sum.ones_complement().to_ne_bytes());
    }
    parsed(&bytes)
}

/// Parses a frame, and checks its lengths and checksums. Returns the TCP header and the payload.
pub fn parsed(bytes: &[u8]) -> (TcpHeader, Vec<u8>) {
    let packet = SlicedPacket::from_ethernet(bytes).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else {
        panic!("no TCP");
    };
    let (header, payload) = (tcp.to_header(), tcp.payload());
    let checksum = match &packet.net {
        Some(NetSlice::Ipv4(ip)) => {
            let own = ip.header().to_header();
            assert_eq!(usize::from(own.total_len), bytes.len() - 14);
            assert_eq!(own.header_checksum, own.calc_header_checksum());
            assert!(Ipv4HeaderSlice::from_slice(&bytes[14..]).is_ok());
            header.calc_checksum_ipv4(&own, payload)
        }
        Some(NetSlice::Ipv6(ip)) => {
            let own = ip.header().to_header();
            assert_eq!(usize::from(own.payload_length), bytes.len() - 54);
            header.calc_checksum_ipv6(&own, payload)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(header.checksum, checksum.unwrap());
    (header, payload.to_vec())
}
