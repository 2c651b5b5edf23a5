//! The fields of a TCP segment that the decisions read, in host byte order.

/// TCP flags, by their bits on the wire (RFC 9293 §3.1).
pub mod flags {
    /// No more data from the sender (FIN).
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers (SYN).
    pub const SYN: u8 = 0x02;
    /// Reset the connection (RST).
    pub const RST: u8 = 0x04;
    /// The acknowledgment field is significant (ACK).
    pub const ACK: u8 = 0x10;
}

/// A segment as one packet carries it. Platforms cut super-segments (TSO, GRO) before they report
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte, SYN or FIN.
    pub seq: u32,
    /// ACK number; valid with [`flags::ACK`].
    pub ack: u32,
    /// Payload in bytes.
    pub payload_bytes: u32,
    /// The window field, unscaled.
    pub window: u16,
    /// Byte 13 of the header: the bits in [`flags`] and others.
    pub flags: u8,
    /// Window scale, if the segment is a SYN or SYN-ACK with this option.
    pub wscale: Option<u8>,
    /// Blocks of the SACK option (RFC 2018 §3), each from its first byte to the one after its last;
    /// those that are absent are empty.
    pub sack: [(u32, u32); 4],
}

impl Segment {
    /// Returns whether any of `flags` is set.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Iterates over the SACK blocks.
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
