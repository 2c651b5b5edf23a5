//! What travels through the simulated network.

use uc_net::Ecn;
use uc_tcp::{Options, Segment};

/// An Ethernet header; preamble, check sequence and gap are not counted, as in the live arm.
const ETHERNET_HEADER_BYTES: u32 = 14;

/// Connections have places from 0 to this, and two ends each.
pub const CONNECTIONS_MAX: u32 = 1 << 16;
/// Flows of a record have numbers from 0 to this.
pub const FLOWS_MAX: u32 = 1 << 16;

const PLACE_BITS: u32 = CONNECTIONS_MAX.ilog2() + 1;

/// An end of a connection: its place among all ends, and which of the connections that lived there
/// it belongs to, modulo 2¹⁵. What an earlier one left in the network is not the later one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(u32);

impl Address {
    /// The end in this place in its first life.
    pub fn new(place: usize) -> Address {
        debug_assert!(place < 1 << PLACE_BITS, "place {place}");
        Address(place as u32)
    }

    /// Its place among all ends.
    #[inline]
    pub fn place(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize
    }

    /// The other end of the same connection.
    pub fn peer(self) -> Address {
        Address(self.0 ^ 1)
    }

    /// The end in the same place in its next life.
    pub fn next_life(self) -> Address {
        Address(self.0.wrapping_add(1 << PLACE_BITS))
    }
}

/// One of a start's probes: a frame of the least size without a TCP header. Here it stands in a
/// segment without any flag, which no TCP sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its number among them, from 0.
    pub index: u8,
    /// How many there are.
    pub of: u8,
    /// When it left, on its host's clock of nanoseconds, which begins anew after 2³² of them.
    pub sent_ns: u32,
}

/// Ethernet's least frame, without its check sequence.
const FRAME_MIN_BYTES: u32 = 60;
/// Ports, index, time and tag of a probe, behind the IP header.
const PROBE_BYTES: u32 = 20;

/// A TCP segment in its frame, with what the simulator must know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The segment, with the ECN field of its IP header.
    pub segment: Segment,
    /// The end of a connection that it goes to.
    pub to: Address,
    size_bytes: u16,
    /// The flow of the record that it is counted for.
    flow: u16,
}

// A packet is copied into the network and out of it.
const _: () = assert!(size_of::<Packet>() <= 72);

impl Packet {
    /// The packet around `segment`, under an IP header of `ip_header_bytes`.
    #[inline]
    pub fn new(segment: Segment, ip_header_bytes: u32, to: Address, flow: u32) -> Packet {
        let headers_bytes = ETHERNET_HEADER_BYTES + ip_header_bytes + segment.header_bytes();
        let size_bytes = headers_bytes + u32::from(segment.payload_bytes);
        debug_assert!(flow < FLOWS_MAX, "flow {flow}");
        Packet {
            segment,
            to,
            // A jumbo frame is 9,018 bytes; what a larger MSS would make is capped.
            size_bytes: size_bytes.min(u32::from(u16::MAX)) as u16,
            flow: flow as u16,
        }
    }

    /// A probe on the way to that end, ECN-capable.
    pub fn of_probe(probe: Probe, ip_header_bytes: u32, to: Address, flow: u32) -> Packet {
        let segment = Segment {
            seq: u32::from(probe.index) | u32::from(probe.of) << 8,
            ack: probe.sent_ns,
            window: 0,
            payload_bytes: 0,
            flags: 0,
            ecn: Ecn::Ect0,
            options: Options::default(),
        };
        let size_bytes = ETHERNET_HEADER_BYTES + ip_header_bytes + PROBE_BYTES;
        Packet {
            size_bytes: size_bytes.max(FRAME_MIN_BYTES) as u16,
            ..Packet::new(segment, ip_header_bytes, to, flow)
        }
    }

    /// The probe, if it is one.
    #[inline]
    pub fn probe(&self) -> Option<Probe> {
        (self.segment.flags == 0).then_some(Probe {
            index: self.segment.seq as u8,
            of: (self.segment.seq >> 8) as u8,
            sent_ns: self.segment.ack,
        })
    }
}

impl uc_net::Packet for Packet {
    #[inline]
    fn size_bytes(&self) -> u32 {
        u32::from(self.size_bytes)
    }

    #[inline]
    fn ecn(&self) -> Ecn {
        self.segment.ecn
    }

    #[inline]
    fn set_ce(&mut self) {
        self.segment.ecn = Ecn::Ce;
    }

    #[inline]
    fn flow(&self) -> u32 {
        // What becomes of probes is not the flow's loss.
        u32::from(self.flow) | u32::from(self.segment.flags == 0) << 16
    }

    /// The connection, as if by its addresses and ports.
    #[inline]
    fn path_key(&self) -> u64 {
        u64::from(self.to.0 | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uc_net::Packet as _;
    use uc_tcp::flags;

    #[test]
    fn sizes_are_those_of_ethernet_frames() {
        let mut segment = Segment {
            seq: 1,
            ack: 1,
            window: 1,
            payload_bytes: 1448,
            flags: flags::ACK,
            ecn: Ecn::Ect0,
            options: Options {
                timestamps: Some((1, 1)),
                ..Options::default()
            },
        };
        assert_eq!(
            Packet::new(segment, 20, Address::new(0), 0).size_bytes(),
            1514
        );
        assert_eq!(
            Packet::new(segment, 40, Address::new(0), 0).size_bytes(),
            1534
        );
        segment.payload_bytes = 0;
        assert_eq!(
            Packet::new(segment, 20, Address::new(0), 0).size_bytes(),
            66
        );
    }

    #[test]
    fn a_mark_is_seen_by_the_endpoint() {
        let segment = Segment {
            seq: 0,
            ack: 0,
            window: 0,
            payload_bytes: 1,
            flags: flags::ACK,
            ecn: Ecn::Ect0,
            options: Options::default(),
        };
        let mut packet = Packet::new(segment, 20, Address::new(3), 2);
        packet.set_ce();
        assert_eq!(packet.segment.ecn, Ecn::Ce);
        assert_eq!((packet.flow(), packet.to.place()), (2, 3));
    }

    #[test]
    fn an_end_in_its_next_life_has_the_same_place_and_another_address() {
        let end = Address::new(2 * CONNECTIONS_MAX as usize - 1);
        let later = end.next_life();
        assert_eq!(later.place(), end.place());
        assert_ne!(later, end);
        assert_eq!(later.peer().place(), end.place() - 1);
        assert_eq!(later.peer().peer(), later);
    }
}
