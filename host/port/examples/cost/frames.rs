//! The frames of a connection between a guest and a peer, whose address and numbers advance.bpf.c
//! writes.

use std::error::Error;

use etherparse::{PacketBuilder, PacketBuilderStep, TcpHeader};
use uc_port::Direction;

/// Payload of a full segment, in bytes.
pub const SEGMENT_BYTES: u32 = 1448;
/// TCP ports of the guest and of the peer.
const PORTS: (u16, u16) = (40000, 5001);
/// Initial sequence numbers of the guest and of the peer.
const ISNS: (u32, u32) = (1000, 9000);

/// The kind of packet that is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Syn,
    SynAck,
    /// A data segment of the guest.
    Data,
    /// Two segments of the guest in one frame: a test run of a program accepts no longer frame.
    Super,
    Ack,
    /// An ACK of the peer that echoes a CE mark.
    MarkedAck,
}

impl Kind {
    pub fn direction(self) -> Direction {
        match self {
            Self::Syn | Self::Data | Self::Super => Direction::FromGuest,
            Self::SynAck | Self::Ack | Self::MarkedAck => Direction::ToGuest,
        }
    }

    /// Returns the number of segments in the frame; 0: the frame is no super-segment.
    pub fn gso_segs(self) -> u32 {
        if self == Self::Super { 2 } else { 0 }
    }

    /// Returns the bytes of sequence numbers from one frame of a flow to the next.
    pub fn step_bytes(self) -> u32 {
        match self {
            Self::Syn | Self::SynAck => 0,
            _ => SEGMENT_BYTES * self.gso_segs().max(1),
        }
    }

    /// Returns SEQ of the guest's frame or ACK of the peer's, in the first frame of a flow. An ACK acknowledges the
    /// frame before it, which has `step_bytes` of payload.
    pub fn first_number(self, step_bytes: u32) -> u32 {
        match self {
            Self::Syn => ISNS.0,
            Self::Ack | Self::MarkedAck => ISNS.0 + 1 + step_bytes,
            _ => ISNS.0 + 1,
        }
    }

    /// Returns the offsets of the peer's address (its last four bytes) and of SEQ or ACK.
    pub fn offsets(self, ipv6: bool) -> (u32, u32) {
        let (source, destination, tcp) = if ipv6 { (34, 50, 54) } else { (26, 30, 34) };
        match self.direction() {
            Direction::FromGuest => (destination, tcp + 4),
            Direction::ToGuest => (source, tcp + 8),
        }
    }

    /// Returns an Ethernet frame of this kind.
    pub fn frame(self, ipv6: bool) -> Result<Vec<u8>, Box<dyn Error>> {
        let number = self.first_number(0);
        let step = match self.direction() {
            Direction::FromGuest => from_guest(ipv6, number),
            Direction::ToGuest => to_guest(ipv6).ack(number),
        };
        let payload = vec![0; (SEGMENT_BYTES * self.gso_segs().max(1)) as usize];
        let (step, payload) = match self {
            Self::Syn => (step.syn(), &[][..]),
            Self::SynAck => (step.syn().ece(), &[][..]),
            Self::Data | Self::Super => (step.ack(ISNS.1 + 1), &payload[..]),
            Self::Ack => (step, &[][..]),
            Self::MarkedAck => (step.ece(), &[][..]),
        };
        let mut bytes = Vec::new();
        step.write(&mut bytes, payload)?;
        if self == Self::SynAck {
            bytes[if ipv6 { 58 } else { 38 }..][..4].copy_from_slice(&ISNS.1.to_be_bytes());
        }
        Ok(bytes)
    }
}

type Step = PacketBuilderStep<TcpHeader>;

const GUEST: [u8; 4] = [10, 77, 0, 1];
const GUEST_IPV6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const PEER_IPV6: [u8; 16] = [0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn from_guest(ipv6: bool, seq: u32) -> Step {
    let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
    let ip = match ipv6 {
        true => ethernet.ipv6(GUEST_IPV6, PEER_IPV6, 64),
        false => ethernet.ipv4(GUEST, [0; 4], 64),
    };
    ip.tcp(PORTS.0, PORTS.1, seq, 29200)
}

fn to_guest(ipv6: bool) -> Step {
    let ethernet = PacketBuilder::ethernet2([4; 6], [2; 6]);
    let ip = match ipv6 {
        true => ethernet.ipv6(PEER_IPV6, GUEST_IPV6, 64),
        false => ethernet.ipv4([0; 4], GUEST, 64),
    };
    ip.tcp(PORTS.1, PORTS.0, ISNS.1 + 1, 65535)
}
