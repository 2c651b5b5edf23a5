//! Packets that a guest's port holds, by the decisions of `uc-hold-core`: between the port's core and the
//! guest, and between the core and the network.

use uc_hold_core::{Counts, Hold, Out, Settings, flags};
use uc_net::{Ecn, Nanos};
use uc_tcp::flags::CWR;
use uc_tcp::{Options, SackBlocks, Segment};

/// A packet that is to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Towards the guest, past the port's core.
    ToGuest(Segment),
    /// Towards the network, through the port's core.
    ToNetwork(Segment),
}

/// The packets that the port of one connection holds.
#[derive(Clone, Debug)]
pub struct Held {
    hold: Hold<(), Packet>,
    /// Time of the last call, on the run's clock.
    now: Nanos,
}

/// A segment as the hold stores it.
#[derive(Clone, Copy, Debug)]
struct Packet(Segment);

impl uc_hold_core::Packet for Packet {
    fn bytes(&self) -> usize {
        (self.0.header_bytes() + u32::from(self.0.payload_bytes)) as usize
    }

    fn bare_ack(&self, seq: u32) -> Packet {
        Packet(Segment {
            seq,
            payload_bytes: 0,
            flags: self.0.flags & !(flags::SYN | flags::FIN | uc_tcp::flags::PSH),
            options: Options {
                sack: SackBlocks::default(),
                ..self.0.options
            },
            ..self.0
        })
    }
}

impl Held {
    /// Creates the hold of a port without flows.
    pub fn new(settings: Settings) -> Held {
        Held {
            hold: Hold::new(settings),
            now: Nanos::ZERO,
        }
    }

    /// Reports a segment of the guest that has passed the port's core.
    pub fn sent(&mut self, now: Nanos, segment: &Segment) {
        self.now = now;
        let copy = || {
            Packet(Segment {
                ecn: Ecn::NotEct,
                flags: segment.flags & !CWR,
                ..*segment
            })
        };
        self.hold.sent(now.0, (), &parse(segment), copy);
    }

    /// Takes a packet towards the guest that has passed the port's core. `answers`: whether a law reacts to the flow's
    /// losses. Without a law the host must not hide losses from the guest.
    pub fn arrived(&mut self, now: Nanos, segment: &Segment, answers: bool) {
        self.now = now;
        self.hold
            .arrived(now.0, (), &parse(segment), Packet(*segment));
        if segment.has(flags::SYN) && !answers {
            self.hold.keep_nothing(&());
        }
    }

    /// Returns the time from which [`Held::take`] has a packet; `None`: nothing is held.
    pub fn due(&self) -> Option<Nanos> {
        self.hold.next_at().map(|at_ns| Nanos(at_ns).max(self.now))
    }

    /// Returns the next packet that is due; `None` if none is.
    pub fn take(&mut self, now: Nanos) -> Option<Way> {
        self.now = now;
        Some(match self.hold.take(now.0)? {
            Out::ToNetwork(Packet(segment)) => Way::ToNetwork(segment),
            Out::ToGuest {
                packet: Packet(mut segment),
                ack,
                without_sack,
            } => {
                if let Some(edit) = ack {
                    segment.ack = edit.ack;
                    segment.window = edit.window;
                }
                if without_sack {
                    segment.options.sack = SackBlocks::default();
                }
                Way::ToGuest(segment)
            }
        })
    }

    /// Returns the counters of held packets.
    pub fn counts(&self) -> Counts {
        self.hold.counts()
    }
}

/// Converts a segment to the hold's form.
fn parse(segment: &Segment) -> uc_hold_core::Segment {
    let mut sack = [(0, 0); 4];
    for (place, &block) in sack.iter_mut().zip(segment.options.sack.as_slice()) {
        *place = block;
    }
    uc_hold_core::Segment {
        seq: segment.seq,
        ack: segment.ack,
        payload_bytes: u32::from(segment.payload_bytes),
        window: segment.window,
        flags: segment.flags,
        wscale: segment.options.wscale,
        sack,
    }
}
