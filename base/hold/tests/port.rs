//! A port between a guest and its peer, on a virtual clock.

use uc_hold_core::flags::{ACK, SYN};
use uc_hold_core::{Buffer, Hold, Out, Packet, Segment, Settings};

pub const MS: u64 = 1_000_000;
pub const MSS: u32 = 1_000;
/// Initial sequence numbers of the guest, so that its data wraps soon, and of the peer.
pub const ISS: u32 = u32::MAX - 4_500;
pub const IRS: u32 = 7_000;
/// The peer's window field in all its ACKs; scaled by [`SCALE`].
pub const WINDOW: u16 = 500;
pub const SCALE: u8 = 7;
/// The round-trip time of the handshake.
pub const RTT: u64 = 10 * MS;
/// Bytes of a frame without payload.
pub const HEADERS: usize = 66;

/// A packet, which is its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame(pub Segment);

impl Packet for Frame {
    fn bytes(&self) -> usize {
        HEADERS + self.0.payload_bytes as usize
    }

    fn bare_ack(&self, seq: u32) -> Frame {
        Frame(Segment {
            seq,
            payload_bytes: 0,
            flags: ACK,
            sack: Default::default(),
            ..self.0
        })
    }
}

pub fn pace() -> Settings {
    Settings {
        pace: true,
        buffer: None,
        bytes_max: 1 << 20,
    }
}

pub fn buffer() -> Settings {
    Settings {
        pace: false,
        buffer: Some(Buffer::default()),
        bytes_max: 1 << 20,
    }
}

/// Returns the sequence number of the guest's segment `number`, from 0.
pub fn at(number: u32) -> u32 {
    (ISS + 1).wrapping_add(number * MSS)
}

pub fn syn() -> Segment {
    Segment {
        seq: ISS,
        flags: SYN,
        window: 60_000,
        wscale: Some(SCALE),
        ..Segment::default()
    }
}

pub fn syn_ack() -> Segment {
    Segment {
        seq: IRS,
        ack: ISS + 1,
        flags: SYN | ACK,
        window: 60_000,
        wscale: Some(SCALE),
        ..Segment::default()
    }
}

/// Returns the guest's segment `number`.
pub fn data(number: u32) -> Segment {
    Segment {
        seq: at(number),
        ack: IRS + 1,
        payload_bytes: MSS,
        window: 500,
        flags: ACK,
        ..Segment::default()
    }
}

/// Returns the peer's ACK of all segments before `number`.
pub fn ack(number: u32) -> Segment {
    Segment {
        seq: IRS + 1,
        ack: at(number),
        window: WINDOW,
        flags: ACK,
        ..Segment::default()
    }
}

/// Returns a duplicate ACK that reports the segments `from` to before `to`.
pub fn sack(number: u32, from: u32, to: u32) -> Segment {
    let mut segment = ack(number);
    segment.sack[0] = (at(from), at(to));
    segment
}

/// A hold, its clock, and all that it has sent, with the times.
pub struct Port {
    pub hold: Hold<u16, Frame>,
    pub now: u64,
    pub to_guest: Vec<(u64, Segment)>,
    pub to_network: Vec<(u64, Segment)>,
    /// How many packets towards the guest lost their SACK blocks.
    pub stripped: usize,
}

impl Port {
    pub fn new(settings: Settings) -> Port {
        Port {
            hold: Hold::new(settings),
            now: 0,
            to_guest: Vec::new(),
            to_network: Vec::new(),
            stripped: 0,
        }
    }

    /// Returns a port whose flow 0 is open, and forgets what passed.
    pub fn open(settings: Settings) -> Port {
        let mut port = Port::new(settings);
        port.sent(&syn());
        port.wait(RTT);
        port.arrived(&syn_ack());
        port.sent(&Segment {
            payload_bytes: 0,
            ..data(0)
        });
        port.to_guest.clear();
        port
    }

    pub fn sent(&mut self, segment: &Segment) {
        self.sent_of(0, segment);
    }

    pub fn sent_of(&mut self, flow: u16, segment: &Segment) {
        self.hold.sent(self.now, flow, segment, || Frame(*segment));
        self.collect();
    }

    pub fn arrived(&mut self, segment: &Segment) {
        self.arrived_of(0, segment);
    }

    pub fn arrived_of(&mut self, flow: u16, segment: &Segment) {
        let frame = Frame(*segment);
        self.hold.arrived(self.now, flow, segment, frame);
        self.collect();
    }

    /// Opens another flow.
    pub fn open_flow(&mut self, flow: u16) {
        self.sent_of(flow, &syn());
        self.arrived_of(flow, &syn_ack());
    }

    /// Sends the guest's segments `from` to before `to`.
    pub fn data(&mut self, from: u32, to: u32) {
        for number in from..to {
            self.sent(&data(number));
        }
    }

    /// Lets time pass, and all that is due in it happen.
    pub fn wait(&mut self, ns: u64) {
        let until = self.now + ns;
        while let Some(at) = self.hold.next_at().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.collect();
        }
        self.now = until;
    }

    fn collect(&mut self) {
        while let Some(out) = self.hold.take(self.now) {
            match out {
                Out::ToNetwork(frame) => self.to_network.push((self.now, frame.0)),
                Out::ToGuest {
                    packet,
                    ack,
                    without_sack,
                } => {
                    let mut segment = packet.0;
                    if let Some(edit) = ack {
                        segment.ack = edit.ack;
                        segment.window = edit.window;
                    }
                    if without_sack {
                        self.stripped += 1;
                        segment.sack = Default::default();
                    }
                    self.to_guest.push((self.now, segment));
                }
            }
        }
    }

    /// Takes the segments that the guest got, by the first that each acknowledges not.
    pub fn acks(&mut self) -> Vec<u32> {
        let number = |segment: &Segment| segment.ack.wrapping_sub(at(0)) / MSS;
        self.to_guest
            .drain(..)
            .map(|(_, got)| number(&got))
            .collect()
    }

    /// Takes the retransmissions, as numbers of segments, with their times in ms.
    pub fn resent(&mut self) -> Vec<(u32, u64)> {
        let number = |segment: &Segment| segment.seq.wrapping_sub(at(0)) / MSS;
        let resent = self.to_network.drain(..);
        resent.map(|(at, got)| (number(&got), at / MS)).collect()
    }
}
