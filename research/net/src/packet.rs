//! The network's interface to packets.

/// The ECN field of an IP header, with the two-bit codepoints of RFC 3168 §5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The codepoint of a packet that is not ECN-capable or not IP (ARP).
    NotEct = 0b00,
    /// Codepoint ECT(1): ECN-capable transport.
    Ect1 = 0b01,
    /// Codepoint ECT(0): ECN-capable transport.
    Ect0 = 0b10,
    /// Codepoint CE: congestion experienced.
    Ce = 0b11,
}

impl Ecn {
    /// Converts the low two bits of the IPv4 TOS byte or the IPv6 traffic class; ignores the
    /// others.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// Returns the two bits of the codepoint.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Returns whether a queue may mark the packet instead of dropping it. True for CE too: marking
    /// it again changes nothing (RFC 3168 §5).
    pub const fn can_be_marked(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }
}

/// A packet as the network sees it: a length, an ECN field and the flow that drops and marks count
/// for.
///
/// `Clone` serves broadcasts and the duplication fault; otherwise packets are moved, never cloned.
pub trait Packet: Clone {
    /// Returns the link-layer length in bytes, the 14-byte Ethernet header included.
    fn size_bytes(&self) -> u32;

    /// Returns the ECN field; [`Ecn::NotEct`] if the packet is not IP.
    fn ecn(&self) -> Ecn;

    /// Sets CE and updates the header checksum where there is one. Called only on packets of which
    /// [`Ecn::can_be_marked`] holds.
    fn set_ce(&mut self);

    /// Returns the flow for which drops and marks are counted.
    fn flow(&self) -> u32;

    /// Returns the ECMP hash input, which with the receiving host selects one of several equally
    /// short paths. Packets with the same key stay in order. The default is the flow; a flow of
    /// several connections overrides it.
    fn path_key(&self) -> u64 {
        u64::from(self.flow())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_equal_those_of_rfc_3168() {
        for bits in 0..=0b11 {
            assert_eq!(Ecn::from_bits(bits).bits(), bits);
            assert_eq!(Ecn::from_bits(bits | 0b1010_1000).bits(), bits);
        }
        assert!(!Ecn::NotEct.can_be_marked());
        assert!(Ecn::Ce.can_be_marked());
    }
}
