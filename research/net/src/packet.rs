//! What the network must know of a packet.

/// The ECN field of an IP header, with the two-bit codepoints of RFC 3168 §5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The sender's transport takes no marks, or the packet is no IP packet (ARP).
    NotEct = 0b00,
    /// ECN-capable transport, ECT(1).
    Ect1 = 0b01,
    /// ECN-capable transport, ECT(0).
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

impl Ecn {
    /// From the low two bits of the IPv4 TOS byte or the IPv6 traffic class; others are ignored.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// The two bits of the codepoint.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Whether a queue may mark the packet instead of dropping it. A packet that carries CE already
    /// may be: marking it again changes nothing (RFC 3168 §5).
    pub const fn can_be_marked(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }
}

/// A packet as the network sees it: a length, an ECN field and the flow that it is counted for.
///
/// `Clone` serves broadcasts and the duplication fault; the ordinary way through the network moves
/// the packet and never clones it.
pub trait Packet: Clone {
    /// Link-layer length in bytes, the 14-byte Ethernet header included.
    fn size_bytes(&self) -> u32;

    /// The ECN field; [`Ecn::NotEct`] for whatever is not IP.
    fn ecn(&self) -> Ecn;

    /// Sets CE, repairing the header checksum where there is one. Called only on packets of which
    /// [`Ecn::can_be_marked`] holds.
    fn set_ce(&mut self);

    /// The flow for which drops and marks are counted.
    fn flow(&self) -> u32;

    /// What decides, with the receiving host, which of several equally short ways the packet takes:
    /// packets with one key stay in order. The flow, unless it consists of several connections.
    fn path_key(&self) -> u64 {
        u64::from(self.flow())
    }
}

/// A packet with what an element must remember of it while it holds it.
#[derive(Clone, Debug)]
pub(crate) struct Tagged<T, P> {
    pub(crate) tag: T,
    pub(crate) packet: P,
}

impl<T: Clone, P: Packet> Packet for Tagged<T, P> {
    fn size_bytes(&self) -> u32 {
        self.packet.size_bytes()
    }

    fn ecn(&self) -> Ecn {
        self.packet.ecn()
    }

    fn set_ce(&mut self) {
        self.packet.set_ce();
    }

    fn flow(&self) -> u32 {
        self.packet.flow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codepoints_are_those_of_rfc_3168() {
        for bits in 0..=0b11 {
            assert_eq!(Ecn::from_bits(bits).bits(), bits);
            assert_eq!(Ecn::from_bits(bits | 0b1010_1000).bits(), bits);
        }
        assert!(!Ecn::NotEct.can_be_marked());
        assert!(Ecn::Ce.can_be_marked());
    }
}
