//! Packets of the simulated network.

use uc_net::Ecn;
use uc_tcp::{Options, Segment};

/// Size of an Ethernet header; preamble, frame check sequence and gap are not counted, as in the
/// live backend.
const ETHERNET_HEADER_BYTES: u32 = 14;

/// Number of connection slots; each has two ends.
pub const CONNECTIONS_MAX: u32 = 1 << 16;
/// Maximum number of flows in a record.
pub const FLOWS_MAX: u32 = 1 << 16;

const PLACE_BITS: u32 = CONNECTIONS_MAX.ilog2() + 1;

/// The address of an end: its index among all ends, and its generation modulo 2¹⁵, so that packets
/// of an earlier connection don't reach a later one at the same index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(u32);

impl Address {
    /// Returns the first-generation address of the end with this index.
    pub fn new(place: usize) -> Address {
        debug_assert!(place < 1 << PLACE_BITS, "place {place}");
        Address(place as u32)
    }

    /// Returns the end's index among all ends.
    #[inline]
    pub fn place(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize
    }

    /// Returns the end's generation, from 0 and modulo 2¹⁵.
    pub fn life(self) -> usize {
        (self.0 >> PLACE_BITS) as usize
    }

    /// Returns the other end of the same connection.
    pub fn peer(self) -> Address {
        Address(self.0 ^ 1)
    }

    /// Returns the input of the hash that chooses the connection's path among equally short ones; the same for both
    /// ends. (On a real network: addresses and ports.)
    #[inline]
    pub fn path_key(self) -> u64 {
        u64::from(self.0 | 1)
    }

    /// Returns the address of the end's next generation.
    pub fn next_life(self) -> Address {
        Address(self.0.wrapping_add(1 << PLACE_BITS))
    }
}

/// A probe of a flow's start: a frame of minimum size without a TCP header. In the simulator, a segment without flags,
/// which no TCP sends, stands for a probe or a [`Turn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Index of the probe, from 0.
    pub index: u8,
    /// Number of probes that are sent before the flow.
    pub of: u8,
    /// Send time on the sending host's clock, in nanoseconds modulo 2³².
    pub sent_ns: u32,
}

/// A packet about a flow's pacing slot on a shared link, as small as a probe. The question and the answer both have the
/// address of the end that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The question, to the receiving host that grants pacing slots.
    Ask {
        /// Bytes of the link that the flow's first window is expected to take.
        bytes: u32,
    },
    /// The answer of the host that grants pacing slots.
    Answer {
        /// How long the flow waits, in nanoseconds from the answer's arrival.
        wait_ns: u32,
    },
}

/// Values of `window` in segments that stand for packets without a TCP header: probes, questions and answers.
const PROBE: u16 = 0;
const ASK: u16 = 1;
const ANSWER: u16 = 2;

/// Ethernet's minimum frame, without its check sequence.
const FRAME_MIN_BYTES: u32 = 60;
/// Size of a probe after the IP header: ports, index, time and tag.
const PROBE_BYTES: u32 = 20;

/// A TCP segment in its frame, with the simulator's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Segment with the ECN field of its IP header.
    pub segment: Segment,
    /// Address of the end that receives the packet.
    pub to: Address,
    size_bytes: u16,
    /// Flow of the record for which the packet is counted.
    flow: u16,
}

// Packets are copied into the network and out of it, so they stay small.
const _: () = assert!(size_of::<Packet>() <= 80);

impl Packet {
    /// Creates the packet of `segment`, under an IP header of `ip_header_bytes`.
    #[inline(always)]
    pub fn new(segment: Segment, ip_header_bytes: u32, to: Address, flow: u32) -> Packet {
        let headers_bytes = ETHERNET_HEADER_BYTES + ip_header_bytes + segment.header_bytes();
        let size_bytes = headers_bytes + u32::from(segment.payload_bytes);
        debug_assert!(flow < FLOWS_MAX, "flow {flow}");
        Packet {
            segment,
            to,
            // A jumbo frame is 9,018 bytes; larger sizes are capped.
            size_bytes: size_bytes.min(u32::from(u16::MAX)) as u16,
            flow: flow as u16,
        }
    }

    /// Creates the packet of a probe to the end `to`; it is ECN-capable.
    pub fn of_probe(probe: Probe, ip_header_bytes: u32, to: Address, flow: u32) -> Packet {
        let number = u32::from(probe.index) | u32::from(probe.of) << 8;
        Packet::small(PROBE, (number, probe.sent_ns), ip_header_bytes, to, flow)
    }

    /// Creates a packet about the pacing slot of the end with the address `to`; it is ECN-capable.
    pub fn of_turn(turn: Turn, ip_header_bytes: u32, to: Address, flow: u32) -> Packet {
        let (kind, number) = match turn {
            Turn::Ask { bytes } => (ASK, bytes),
            Turn::Answer { wait_ns } => (ANSWER, wait_ns),
        };
        Packet::small(kind, (number, 0), ip_header_bytes, to, flow)
    }

    fn small(
        kind: u16,
        (seq, ack): (u32, u32),
        ip_header_bytes: u32,
        to: Address,
        flow: u32,
    ) -> Packet {
        let segment = Segment {
            seq,
            ack,
            window: kind,
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

    /// Returns the probe; `None` if the packet is none.
    #[inline]
    pub fn probe(&self) -> Option<Probe> {
        let segment = &self.segment;
        (segment.flags == 0 && segment.window == PROBE).then_some(Probe {
            index: segment.seq as u8,
            of: (segment.seq >> 8) as u8,
            sent_ns: segment.ack,
        })
    }

    /// Returns the question or answer about a pacing slot; `None` if the packet is neither.
    #[inline]
    pub fn turn(&self) -> Option<Turn> {
        let segment = &self.segment;
        match segment.window {
            ASK if segment.flags == 0 => Some(Turn::Ask { bytes: segment.seq }),
            ANSWER if segment.flags == 0 => Some(Turn::Answer {
                wait_ns: segment.seq,
            }),
            _ => None,
        }
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
        // Losses of probes are not the flow's, so probes have flow numbers of their own.
        u32::from(self.flow) | u32::from(self.segment.flags == 0) << 16
    }

    #[inline]
    fn path_key(&self) -> u64 {
        self.to.path_key()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uc_net::Packet as _;
    use uc_tcp::flags;

    #[test]
    fn sizes_equal_those_of_ethernet_frames() {
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
    fn a_mark_reaches_the_endpoint() {
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
    fn the_next_generation_has_the_same_index_and_another_address() {
        let end = Address::new(2 * CONNECTIONS_MAX as usize - 1);
        let later = end.next_life();
        assert_eq!(later.place(), end.place());
        assert_ne!(later, end);
        assert_eq!(later.peer().place(), end.place() - 1);
        assert_eq!(later.peer().peer(), later);
    }
}
