//! A frame with a TCP segment or super-segment, as the port's programs hand it over.

use std::ops::Range;

use etherparse::checksum::Sum16BitWords;

pub const ETHERNET_BYTES: usize = 14;
const TCP_BYTES: usize = 20;
const TCP_PROTOCOL: u8 = 6;
const IPV6_TYPE: [u8; 2] = [0x86, 0xdd];
/// Offsets in the TCP header (RFC 9293 §3.1).
pub const SEQ: usize = 4;
pub const ACK: usize = 8;
const DATA_OFFSET: usize = 12;
pub const FLAGS: usize = 13;
pub const WINDOW: usize = 14;
pub const CHECKSUM: usize = 16;
/// Option kinds (RFC 9293 §3.2, RFC 2018, RFC 7323).
const KIND_END: u8 = 0;
pub const KIND_NOP: u8 = 1;
pub const KIND_SACK: u8 = 5;
const KIND_TIMESTAMPS: u8 = 8;

/// The state of a frame's checksum field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The sum of the pseudo-header: hardware is to complete it.
    Partial,
    /// The field holds the complete, right checksum.
    Complete,
    /// A wrong sum: the packet was damaged, and its receiver will drop it.
    Wrong,
}

/// Fields by which firewalls and queue disciplines know a packet: `skb->mark` and `skb->priority`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub mark: u32,
    pub priority: u32,
}

/// An Ethernet frame with IP and TCP headers that lie within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) tcp_at: usize,
    pub(crate) payload: Range<usize>,
    /// Payload bytes of one segment on the wire; 0: the frame is one segment.
    pub(crate) gso_bytes: usize,
    pub(crate) checksum: Checksum,
    pub(crate) marks: Marks,
}

impl Frame {
    /// Reads a frame whose TCP header begins at byte `tcp_at` and is followed by `payload` bytes of payload.
    /// `gso_bytes`: payload bytes of one segment on the wire; 0: the frame is one segment. Returns `None` if headers
    /// and payload do not lie within `bytes`.
    pub fn read(bytes: &[u8], tcp_at: usize, payload: usize, gso_bytes: usize) -> Option<Self> {
        let offset = usize::from(*bytes.get(tcp_at + DATA_OFFSET)? >> 4) * 4;
        let payload_at = tcp_at + offset;
        let payload = payload_at..payload_at + payload;
        if tcp_at < ETHERNET_BYTES + TCP_BYTES || offset < TCP_BYTES || payload.end > bytes.len() {
            return None;
        }
        let mut frame = Self {
            // without the padding of short frames
            bytes: bytes[..payload.end].to_vec(),
            tcp_at,
            payload,
            gso_bytes,
            checksum: Checksum::Partial,
            marks: Marks::default(),
        };
        if gso_bytes == 0 {
            frame.checksum = frame.verify();
        }
        Some(frame)
    }

    /// Computes the state of the checksum field of a frame that is one segment; super-segments always have a partial
    /// checksum.
    fn verify(&self) -> Checksum {
        let pseudo = self.pseudo_header();
        let field = self.tcp_at + CHECKSUM;
        // Both are in network byte order.
        if self.bytes[field..field + 2] == (!pseudo.ones_complement()).to_ne_bytes() {
            return Checksum::Partial;
        }
        let whole = pseudo.add_slice(&self.bytes[self.tcp_at..self.payload.end]);
        match whole.ones_complement() {
            0 => Checksum::Complete,
            _ => Checksum::Wrong,
        }
    }

    /// Returns the sum of the pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1).
    pub(crate) fn pseudo_header(&self) -> Sum16BitWords {
        let addresses = match self.is_ipv6() {
            true => ETHERNET_BYTES + 8..ETHERNET_BYTES + 40,
            false => ETHERNET_BYTES + 12..ETHERNET_BYTES + 20,
        };
        let length = (self.payload.end - self.tcp_at) as u32;
        Sum16BitWords::new()
            .add_slice(&self.bytes[addresses])
            .add_2bytes([0, TCP_PROTOCOL])
            .add_slice(&length.to_be_bytes())
    }

    /// Returns all bytes of the frame.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the offset of the TCP header.
    pub fn tcp_at(&self) -> usize {
        self.tcp_at
    }

    /// Returns the length of the frame's headers together, in bytes.
    pub fn header_bytes(&self) -> usize {
        self.payload.start
    }

    /// Returns the length of the frame's TCP payload, in bytes.
    pub fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    /// Returns the payload bytes of one segment on the wire; 0: the frame is one segment.
    pub fn gso_bytes(&self) -> usize {
        self.gso_bytes
    }

    /// Returns the number of segments on the wire.
    pub fn segments(&self) -> usize {
        match self.gso_bytes {
            0 => 1,
            bytes => self.payload_bytes().div_ceil(bytes).max(1),
        }
    }

    /// Returns the state of the frame's checksum field.
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// Returns the packet mark and the priority with which the frame is sent.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// Returns whether the frame carries IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.bytes[12..ETHERNET_BYTES] == IPV6_TYPE
    }

    /// Returns the sequence number of the first byte, SYN or FIN.
    pub fn seq(&self) -> u32 {
        self.number(SEQ)
    }

    /// Returns the ACK number of the frame's segment.
    pub fn ack(&self) -> u32 {
        self.number(ACK)
    }

    /// Returns the window field of the frame's segment, unscaled.
    pub fn window(&self) -> u16 {
        u16::from_be_bytes(self.field(WINDOW))
    }

    /// Returns the TCP flags: byte 13 of the header.
    pub fn flags(&self) -> u8 {
        self.bytes[self.tcp_at + FLAGS]
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.field(at))
    }

    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.bytes[self.tcp_at + at..self.tcp_at + at + N]);
        field
    }

    /// Iterates over the options: kind, and where the value lies in the frame. An option that is cut
    /// short ends the list.
    pub fn options(&self) -> impl Iterator<Item = (u8, Range<usize>)> + '_ {
        let mut at = self.tcp_at + TCP_BYTES;
        std::iter::from_fn(move || {
            while at < self.payload.start && self.bytes[at] == KIND_NOP {
                at += 1;
            }
            let options = &self.bytes[..self.payload.start];
            let (kind, length) = (*options.get(at)?, usize::from(*options.get(at + 1)?));
            let end = at + length;
            if kind == KIND_END || length < 2 || end > options.len() {
                return None;
            }
            let value = at + 2..end;
            at = end;
            Some((kind, value))
        })
    }

    /// Returns the value of the timestamps option: its own, and the one that it echoes.
    #[cfg(test)]
    pub fn timestamps(&self) -> Option<[u8; 8]> {
        let at = self.timestamps_at()?;
        self.bytes[at].try_into().ok()
    }

    pub(crate) fn timestamps_at(&self) -> Option<Range<usize>> {
        self.options()
            .find(|(kind, at)| *kind == KIND_TIMESTAMPS && at.len() == 8)
            .map(|(_, at)| at)
    }

    /// Returns the SACK blocks (left and right edge), at most four; absent blocks are (0, 0).
    pub fn sack(&self) -> [(u32, u32); 4] {
        let mut blocks = [(0, 0); 4];
        let value = self.options().find(|(kind, _)| *kind == KIND_SACK);
        let value = value.map_or(&[][..], |(_, at)| &self.bytes[at]);
        let (words, _rest) = value.as_chunks::<4>();
        for (block, pair) in blocks.iter_mut().zip(words.chunks_exact(2)) {
            *block = (u32::from_be_bytes(pair[0]), u32::from_be_bytes(pair[1]));
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{self, bytes, tcp_at};

    #[test]
    fn checksums_are_told_apart() {
        for is_ipv6 in [false, true] {
            for payload in [&b"even"[..], b"odd"] {
                let whole = bytes(is_ipv6, payload);
                let read = |bytes: &[u8], gso_bytes| {
                    Frame::read(bytes, tcp_at(is_ipv6), payload.len(), gso_bytes).unwrap()
                };
                assert_eq!(read(&whole, 0).checksum(), Checksum::Complete);
                let field = tcp_at(is_ipv6) + CHECKSUM;
                let mut damaged = whole.clone();
                damaged[field - 1] ^= 1;
                assert_eq!(read(&damaged, 0).checksum(), Checksum::Wrong);
                let mut partial = whole.clone();
                let pseudo = !read(&whole, 0).pseudo_header().ones_complement();
                partial[field..field + 2].copy_from_slice(&pseudo.to_ne_bytes());
                assert_eq!(read(&partial, 0).checksum(), Checksum::Partial);
                assert_eq!(read(&whole, 2).checksum(), Checksum::Partial);
            }
        }
    }

    #[test]
    fn fields_and_options_are_read_and_padding_is_left_out() {
        for is_ipv6 in [false, true] {
            let mut padded = bytes(is_ipv6, b"abc");
            padded.extend([0; 9]);
            let frame = Frame::read(&padded, tcp_at(is_ipv6), 3, 0).unwrap();
            assert_eq!(frame.bytes(), bytes(is_ipv6, b"abc"));
            assert_eq!(frame.checksum(), Checksum::Complete);
            assert_eq!((frame.seq(), frame.ack()), (samples::SEQ, samples::ACK));
            assert_eq!(frame.window(), samples::WINDOW);
            assert_eq!(frame.sack(), [samples::SACK, (0, 0), (0, 0), (0, 0)]);
            let timestamps = frame.timestamps().unwrap();
            assert_eq!(timestamps[..4], samples::TIMESTAMPS.0.to_be_bytes());
        }
    }

    #[test]
    fn frame_that_is_cut_short_is_refused_and_bad_options_end_the_list() {
        let whole = bytes(false, b"abc");
        for length in 0..whole.len() {
            assert_eq!(Frame::read(&whole[..length], 34, 3, 0), None, "{length}");
        }
        for at in 54..74 {
            for value in [0, 1, 2, 5, 8, 200, 255] {
                let mut odd = whole.clone();
                odd[at] = value;
                let frame = Frame::read(&odd, 34, 3, 0).unwrap();
                let within = |(_, value): (u8, Range<usize>)| value.end <= frame.header_bytes();
                assert!(frame.options().all(within), "{value} at {at}");
            }
        }
    }
}
