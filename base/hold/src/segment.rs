//! The fields of a TCP segment that the decisions read, in host byte order.

/// TCP flags, by their bits on the wire (RFC 9293 §3.1).
pub mod flags {
    /// No more data from the sender (FIN).
    pub const FIN: u8 = 0x01;
    /// TCP flag SYN: synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// TCP flag RST: reset the connection.
    pub const RST: u8 = 0x04;
    /// TCP flag ACK: the acknowledgment number is valid.
    pub const ACK: u8 = 0x10;
}

/// A segment as one packet carries it. Platforms cut super-segments (TSO, GRO) before they report
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte, SYN or FIN.
    pub seq: u32,
    /// Acknowledgment number; valid if the flag [`flags::ACK`] is set.
    pub ack: u32,
    /// Number of the segment's payload bytes.
    pub payload_bytes: u32,
    /// The window field of the segment, unscaled.
    pub window: u16,
    /// TCP flags of the segment (byte 13 of the header): those in [`flags`], and further ones.
    pub flags: u8,
    /// Window scale, if the segment is a SYN or SYN-ACK with this option.
    pub wscale: Option<u8>,
    /// Blocks of the SACK option (RFC 2018 §3), each from its first sequence number to the one after its
    /// last; an absent block is empty.
    pub sack: [(u32, u32); 4],
}

impl Segment {
    /// Returns whether any of `flags` is set.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Iterates over the segment's SACK blocks: first sequence number, and the one after the last.
    pub fn sack_blocks(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.sack.iter().copied().filter(|(from, to)| from != to)
    }

    /// Returns the sequence number after the segment; SYN and FIN take one each.
    pub fn end(&self) -> u32 {
        let markers = u32::from(self.has(flags::SYN)) + u32::from(self.has(flags::FIN));
        self.seq
            .wrapping_add(self.payload_bytes)
            .wrapping_add(markers)
    }
}
