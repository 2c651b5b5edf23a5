//! Frames of a guest, and what its behaviour changes in each.

use uc_core::Segment;

use crate::games::MSS;
use crate::games::plan::{Counts, Plan};
use crate::games::trick::{Disguise, Trick};

/// A frame that the adversarial guest sends.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The TCP segment in the frame.
    pub segment: Segment,
    /// What hides the segment from the port.
    pub disguise: Disguise,
    /// Whether the frame ends behind the port: its TTL is 1, or it is too large for any link.
    pub dies: bool,
}

/// Carries a frame of the guest to its port; returns whether the port has let the frame pass.
pub type Send<'a> = &'a mut dyn FnMut(Frame) -> bool;

/// The guest's tricks that last for some time.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// Number of bytes that the guest sends beyond its windows.
    pub overrun: u32,
    /// Number of bytes that the guest keeps in flight, whatever its windows; 0: as its windows allow.
    pub flood: u32,
    /// Whether the guest ignores its own congestion control during loss recovery.
    pub reckless: bool,
    /// Payload of a full segment, in bytes.
    pub segment_bytes: u32,
    /// The distance from the right ACK number to the one that the guest sets.
    pub false_ack: u32,
    /// TCP flags that the guest sets in addition to the right ones.
    pub flags: u8,
    /// The ECN codepoint that the guest sets.
    pub ecn: u8,
    /// What hides the guest's frames from the port.
    pub disguise: Disguise,
    /// Whether the guest sends no data.
    pub silent: bool,
    /// Whether the guest retransmits nothing by itself.
    pub stubborn: bool,
}

impl Behaviour {
    /// Returns the behaviour of a plan when the events have happened as often as `since` says.
    #[must_use]
    pub fn at(plan: &Plan, since: &Counts) -> Behaviour {
        let mut behaviour = Behaviour {
            overrun: 0,
            flood: 0,
            reckless: false,
            segment_bytes: MSS,
            false_ack: 0,
            flags: 0,
            ecn: 0,
            disguise: Disguise::None,
            silent: false,
            stubborn: false,
        };
        for timed in plan.tricks.iter().filter(|timed| timed.lasts(since)) {
            match timed.trick {
                Trick::Overrun(segments) => behaviour.overrun = u32::from(segments) * MSS,
                Trick::Flood(segments) => behaviour.flood = u32::from(segments) * MSS,
                Trick::Reckless => behaviour.reckless = true,
                Trick::Small(bytes) => behaviour.segment_bytes = u32::from(bytes).clamp(1, MSS),
                Trick::FalseAcks(distance) => behaviour.false_ack = distance,
                Trick::Signals(flags, ecn) => (behaviour.flags, behaviour.ecn) = (flags, ecn),
                Trick::Hidden(disguise) => behaviour.disguise = disguise,
                Trick::Silent => behaviour.silent = true,
                Trick::Stubborn => behaviour.stubborn = true,
                _ => {}
            }
        }
        behaviour
    }

    /// Returns the frame of a segment, with the tricks of this behaviour.
    #[must_use]
    pub fn dress(&self, segment: Segment) -> Frame {
        Frame {
            segment: Segment {
                ack: segment.ack.wrapping_add(self.false_ack),
                flags: segment.flags | self.flags,
                ecn: self.ecn,
                ..segment
            },
            disguise: self.disguise,
            dies: false,
        }
    }
}

/// Returns the frame of a segment without any trick.
#[must_use]
pub fn plain(segment: Segment) -> Frame {
    Frame {
        segment,
        disguise: Disguise::None,
        dies: false,
    }
}

/// Returns a frame that ends behind the port.
#[must_use]
pub fn dying(segment: Segment) -> Frame {
    Frame {
        dies: true,
        ..plain(segment)
    }
}
