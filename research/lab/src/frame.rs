//! An Ethernet frame in the emulated network, in a pooled buffer.

use std::cell::RefCell;
use std::rc::Rc;

use uc_net::{Ecn, Packet};

/// Size of an Ethernet header: destination, source, EtherType.
const ETHERNET_BYTES: usize = 14;
/// Lowest bit of the first byte, set in broadcast and multicast destinations.
const GROUP_BIT: u8 = 1;

/// The network protocol of a frame, which determines where its ECN bits are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    Ipv4,
    Ipv6,
    Other,
}

/// Buffers for frames. A frame returns its buffer when it is delivered or dropped, so that a run
/// allocates only while its queues grow.
#[derive(Debug, Clone, Default)]
pub struct Pool {
    free: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl Pool {
    /// Creates a frame of flow number `flow` with a copy of `bytes`, which were read from a tap.
    pub fn frame(&self, bytes: &[u8], flow: u32) -> Frame {
        let mut buffer = self.free.borrow_mut().pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        let network = network_of(&buffer);
        Frame {
            bytes: buffer,
            network,
            flow,
            pool: self.clone(),
        }
    }

    /// Returns the number of free buffers.
    pub fn free(&self) -> usize {
        self.free.borrow().len()
    }
}

/// A frame. Its size in the network is its link-layer length without preamble and frame check
/// sequence, as in Linux's queue disciplines.
#[derive(Debug)]
pub struct Frame {
    bytes: Vec<u8>,
    network: Network,
    flow: u32,
    pool: Pool,
}

impl Clone for Frame {
    fn clone(&self) -> Self {
        self.pool.frame(&self.bytes, self.flow)
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.pool
            .free
            .borrow_mut()
            .push(std::mem::take(&mut self.bytes));
    }
}

impl Packet for Frame {
    fn size_bytes(&self) -> u32 {
        // A tap's frames are at most FRAME_BYTES_MAX long.
        self.bytes.len() as u32
    }

    fn ecn(&self) -> Ecn {
        match self.network {
            Network::Ipv4 => Ecn::from_bits(self.bytes[ETHERNET_BYTES + 1]),
            Network::Ipv6 => Ecn::from_bits(self.bytes[ETHERNET_BYTES + 1] >> 4),
            Network::Other => Ecn::NotEct,
        }
    }

    /// Sets CE and updates the IPv4 header checksum. Frames that are not IP stay unchanged.
    fn set_ce(&mut self) {
        let at = ETHERNET_BYTES;
        match self.network {
            Network::Ipv4 => {
                let before = u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]);
                self.bytes[at + 1] |= Ecn::Ce.bits();
                let after = u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]);
                let old = u16::from_be_bytes([self.bytes[at + 10], self.bytes[at + 11]]);
                let new = updated_checksum(old, before, after);
                self.bytes[at + 10..at + 12].copy_from_slice(&new.to_be_bytes());
            }
            // IPv6 has no header checksum, and no transport's checksum covers the traffic class.
            Network::Ipv6 => self.bytes[at + 1] |= Ecn::Ce.bits() << 4,
            Network::Other => {}
        }
    }

    fn flow(&self) -> u32 {
        self.flow
    }
}

impl Frame {
    /// Returns the frame as on the wire.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the destination address; `None` when the frame is too short to have one.
    pub fn destination(&self) -> Option<[u8; 6]> {
        self.bytes.first_chunk().copied()
    }

    /// Returns whether the destination is broadcast or multicast.
    pub fn is_group(&self) -> bool {
        self.bytes
            .first()
            .is_some_and(|first| first & GROUP_BIT != 0)
    }
}

/// Updates a checksum by RFC 1624 §3, equation 3: HC' = ~(~HC + ~m + m'), in one's complement
/// arithmetic.
fn updated_checksum(checksum: u16, before: u16, after: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

fn network_of(bytes: &[u8]) -> Network {
    let header = bytes.len().saturating_sub(ETHERNET_BYTES);
    match bytes.get(12..ETHERNET_BYTES) {
        Some([0x08, 0x00]) if header >= 20 => Network::Ipv4,
        Some([0x86, 0xdd]) if header >= 40 => Network::Ipv6,
        _ => Network::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{IpDscp, IpEcn, Ipv4HeaderSlice, PacketBuilder};

    fn ipv4(ecn: u8, payload: &[u8]) -> Vec<u8> {
        let mut header =
            etherparse::Ipv4Header::new(0, 64, 6.into(), [10, 77, 0, 1], [10, 77, 0, 2]).unwrap();
        header.ecn = IpEcn::try_new(ecn).unwrap();
        header.dscp = IpDscp::try_new(0b10_1110).unwrap();
        header.identification = payload.len() as u16;
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6])
            .ip(etherparse::IpHeaders::Ipv4(header, Default::default()))
            .tcp(5001, 80, 1, 1000);
        let mut bytes = Vec::new();
        builder.write(&mut bytes, payload).unwrap();
        bytes
    }

    #[test]
    fn marking_keeps_every_ipv4_checksum_correct() {
        let pool = Pool::default();
        for length in 0..2000 {
            for ecn in 0..=3 {
                let mut frame = pool.frame(&ipv4(ecn, &vec![0; length]), 0);
                assert_eq!(frame.ecn().bits(), ecn);
                frame.set_ce();
                assert_eq!(frame.ecn(), Ecn::Ce);
                let header = Ipv4HeaderSlice::from_slice(&frame.bytes()[14..34]).unwrap();
                assert_eq!(
                    header.header_checksum(),
                    header.to_header().calc_header_checksum(),
                    "payload of {length} bytes, ECN field {ecn}"
                );
                assert_eq!(header.dcp().value(), 0b10_1110);
            }
        }
    }

    #[test]
    fn marking_ipv6_changes_the_two_ecn_bits_only() {
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv6([1; 16], [2; 16], 64)
            .udp(7, 9)
            .write(&mut bytes, b"abc")
            .unwrap();
        bytes[14] |= 0x0a;
        bytes[15] = 0x8f | 0x20;
        let mut frame = Pool::default().frame(&bytes, 0);
        assert_eq!(frame.ecn(), Ecn::Ect0);
        frame.set_ce();
        assert_eq!(frame.ecn(), Ecn::Ce);
        bytes[15] |= 0x30;
        assert_eq!(frame.bytes(), bytes);
    }

    #[test]
    fn short_and_non_ip_frames_pass_unchanged() {
        let pool = Pool::default();
        let whole = ipv4(2, b"abcdef");
        for length in 0..34 {
            let mut frame = pool.frame(&whole[..length], 0);
            frame.set_ce();
            assert_eq!(frame.bytes(), &whole[..length]);
            assert_eq!(frame.ecn(), Ecn::NotEct);
        }
    }

    #[test]
    fn dropped_frames_return_their_buffers() {
        let pool = Pool::default();
        let first = pool.frame(&[0xff; 60], 0);
        assert!(first.is_group());
        assert_eq!(first.destination(), Some([0xff; 6]));
        assert_eq!(pool.free(), 0);
        drop(first);
        assert_eq!(pool.free(), 1);
        let second = pool.frame(&[2; 20], 0);
        assert_eq!(
            (pool.free(), second.bytes().len(), second.is_group()),
            (0, 20, false)
        );
    }
}
