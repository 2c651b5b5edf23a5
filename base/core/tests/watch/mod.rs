//! Segments of a flow whose receiving host sets its first windows.

#![allow(dead_code)] // no test file uses all of it

use uc_core::watch::{Answer, Bucket, Path, Start, StartPolicy};
use uc_core::{Segment, consts};

/// What both ends offer, timestamps not among it.
pub const MSS: u32 = 1_460;
/// What such a segment takes of a link, with the headers that a turn counts.
pub const FRAME: u32 = MSS + 66;
/// Where the peer's data begin.
pub const BEGIN: u32 = 0xffff_f000;

/// The usual policy with the paper's half of the marked probes.
pub fn paper() -> StartPolicy {
    StartPolicy {
        marked_part: 2,
        ..StartPolicy::usual()
    }
}

/// A start without turns, at a host that hears nothing of its link.
pub struct Home {
    pub start: Start,
    pub policy: StartPolicy,
    pub path: Path,
    pub bucket: Bucket,
    pub now_ns: u64,
    pub random: u32,
}

impl Home {
    pub fn new(policy: StartPolicy) -> Home {
        Home {
            start: Start::default(),
            policy,
            path: Path::default(),
            bucket: Bucket::default(),
            now_ns: 10_000_000_000,
            random: 0,
        }
    }

    /// Probes by their index, of ten; true: marked.
    pub fn probes(&mut self, probes: &[(u8, bool)]) {
        for &(index, marked) in probes {
            let ecn = if marked { consts::CE } else { consts::ECT0 };
            assert!(self.start.probe(index, 10, ecn as u8));
        }
    }

    /// The peer's SYN comes, and the guest's SYN-ACK with this window leaves.
    pub fn handshake(&mut self, window: u16, wscale: u8) -> Answer {
        self.start.arrives(&syn(consts::SYN, wscale));
        let mut answer = syn(consts::SYN | consts::ACK, wscale);
        answer.direction = consts::FROM_GUEST as u8;
        (answer.ack, answer.window) = (BEGIN, window);
        self.leaves(&answer)
    }

    pub fn leaves(&mut self, segment: &Segment) -> Answer {
        let ends = (&mut self.path, &self.bucket);
        let random = self.random;
        self.start
            .leaves(&self.policy, ends, segment, self.now_ns, random)
    }

    /// A whole segment of data comes, `number` segments after the first.
    pub fn data(&mut self, number: u32, marked: bool) {
        let ecn = if marked { consts::CE } else { consts::ECT0 };
        self.start.arrives(&data(number, ecn));
    }

    /// The guest acknowledges so many segments; the window on the wire.
    pub fn ack(&mut self, segments: u32, window: u16) -> u16 {
        self.leaves(&ack(BEGIN.wrapping_add(segments * MSS), window))
            .window
    }
}

pub fn syn(flags: u32, wscale: u8) -> Segment {
    Segment {
        seq: BEGIN.wrapping_sub(1),
        flags: flags as u8,
        window: 65_535,
        mss_bytes: MSS as u16,
        wscale,
        options: (consts::OPT_MSS | consts::OPT_WSCALE) as u8,
        direction: consts::TO_GUEST as u8,
        ..Segment::default()
    }
}

pub fn data(number: u32, ecn: u32) -> Segment {
    Segment {
        seq: BEGIN.wrapping_add(number * MSS),
        payload_bytes: MSS,
        wire_payload_bytes: MSS as u16,
        flags: consts::ACK as u8,
        window: 65_535,
        ecn: ecn as u8,
        direction: consts::TO_GUEST as u8,
        ..Segment::default()
    }
}

pub fn ack(number: u32, window: u16) -> Segment {
    Segment {
        ack: number,
        flags: consts::ACK as u8,
        window,
        direction: consts::FROM_GUEST as u8,
        ..Segment::default()
    }
}
