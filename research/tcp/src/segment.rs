//! A TCP segment as the simulated wire carries it: the header's fields, the payload as a length.

use uc_net::{Ecn, Nanos};

/// TCP header flags, by their bits on the wire (RFC 9293 §3.1, RFC 3168 §6.1).
pub mod flags {
    /// No more data from the sender (FIN).
    pub const FIN: u8 = 0x01;
    /// TCP flag SYN: synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// TCP flag RST: reset the connection.
    pub const RST: u8 = 0x04;
    /// Push received data to the application (PSH).
    pub const PSH: u8 = 0x08;
    /// The acknowledgment field is significant (ACK).
    pub const ACK: u8 = 0x10;
    /// ECN echo: the sender of the flag received a mark (ECE).
    pub const ECE: u8 = 0x40;
    /// TCP flag CWR: congestion window reduced.
    pub const CWR: u8 = 0x80;
}

/// One segment, and the ECN field of its IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte (of the SYN or FIN where there is no payload).
    pub seq: u32,
    /// Next byte that the sender of this segment expects; valid with [`flags::ACK`] only.
    pub ack: u32,
    /// The 16 bits of the window field, unscaled.
    pub window: u16,
    /// Number of payload bytes of the segment.
    pub payload_bytes: u16,
    /// Header flags, a union of the bits in [`flags`].
    pub flags: u8,
    /// ECN field of the IP header that carries the segment.
    pub ecn: Ecn,
    /// TCP options of the segment.
    pub options: Options,
}

/// The options that the endpoints support.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size, RFC 9293 §3.7.1; on a SYN only, 0: absent.
    pub mss_bytes: u16,
    /// Window scale, RFC 7323 §2; on a SYN only, `None`: absent.
    pub wscale: Option<u8>,
    /// SACK permitted, RFC 2018 §2; on a SYN only.
    pub sack_permitted: bool,
    /// TSval and TSecr, RFC 7323 §3, in milliseconds; `None`: absent.
    pub timestamps: Option<(u32, u32)>,
    /// Blocks of the SACK option (RFC 2018 §3).
    pub sack: SackBlocks,
}

/// Returns the value of the timestamp clock, which ticks in milliseconds.
// Never inlined: a division that every call of a loop shares would be done before the loop, for
// connections without timestamps too.
#[inline(never)]
pub(crate) fn timestamp_ms(now: Nanos) -> u32 {
    (now.0 / 1_000_000) as u32
}

/// Up to four SACK blocks, the latest first: as many as fit without timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    count: u8,
    blocks: [(u32, u32); 4],
}

impl SackBlocks {
    /// Adds a block, from its first byte to the one after its last; ignores a fifth block.
    pub fn push(&mut self, from: u32, to: u32) {
        if let Some(place) = self.blocks.get_mut(usize::from(self.count)) {
            *place = (from, to);
            self.count += 1;
        }
    }

    /// Returns the blocks, the latest first.
    #[inline]
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }
}

impl Segment {
    /// Returns whether any of `flags` is set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Returns the sequence space of the segment: payload, and one each for SYN and FIN (RFC 9293
    /// §3.4).
    #[inline]
    pub fn sequence_bytes(&self) -> u32 {
        u32::from(self.payload_bytes)
            + u32::from(self.has(flags::SYN))
            + u32::from(self.has(flags::FIN))
    }

    /// Returns the size of the TCP header with its options, padded to four bytes as Linux lays them
    /// out.
    #[inline(always)]
    pub fn header_bytes(&self) -> u32 {
        let options = &self.options;
        let mut bytes = 20;
        bytes += if options.mss_bytes > 0 { 4 } else { 0 };
        bytes += if options.wscale.is_some() { 4 } else { 0 };
        bytes += if options.timestamps.is_some() { 12 } else { 0 };
        // With timestamps, SACK-permitted takes the place of their padding.
        bytes += if options.sack_permitted && options.timestamps.is_none() {
            4
        } else {
            0
        };
        let blocks = u32::from(options.sack.count);
        bytes + if blocks > 0 { 4 + 8 * blocks } else { 0 }
    }
}
