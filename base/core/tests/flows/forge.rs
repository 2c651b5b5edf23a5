//! Forged segments: what an attacker off the path sends, who has to guess sequence and ACK numbers.

use proptest::prelude::{Strategy, any};
use uc_core::{Flow, Segment, consts};

use super::plan::{Oddity, Step, Treatment, treatments};
use super::{FROM_GUEST, Plan, TO_GUEST, flag, plans};

/// What the ends know, as their own segments say: the test's reading of a connection.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    pub guest_scale: u8,
    pub peer_scale: u8,
    /// The guest's last ACK number, and the end of what the peer has sent.
    acked: u32,
    peer_end: u32,
    /// The guest's largest window in bytes.
    guest_window: u64,
    /// The peer's last ACK number, and the end of what the guest has sent.
    una: u32,
    nxt: u32,
    /// The furthest right edge that the guest was given.
    edge: u32,
    guest_syn: u32,
}

fn end(segment: &Segment) -> u32 {
    let flags = [flag::SYN, flag::FIN].map(|bit| u32::from(segment.flags & bit != 0));
    let bytes = segment.payload_bytes + flags[0] + flags[1];
    segment.seq.wrapping_add(bytes)
}

fn after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

/// Flows to attack, whose ends keep to the RFCs, and the seed of what is forged.
pub fn victims() -> impl Strategy<Value = (Plan, u64)> {
    (plans(40, false), treatments(), any::<u64>()).prop_map(|(mut plan, treatment, noise)| {
        // the plans' peers acknowledge also what a guard drops, which no peer can; strict mode guards
        plan.setup.treatment = Treatment {
            guard_segments: 0,
            strict: false,
            ..treatment
        };
        plan.setup.oddity = Oddity::None;
        let one = |step: &Step| !matches!(step, Step::Anew { .. } | Step::PeerHandshakeAgain);
        plan.steps.retain(one);
        (plan, noise)
    })
}

impl Ends {
    pub fn new(plan: &Plan) -> Ends {
        Ends {
            guest_scale: plan.setup.guest_scale(),
            peer_scale: plan.setup.scale(),
            guest_window: 65_535,
            ..Ends::default()
        }
    }

    pub fn note(&mut self, segment: &Segment, given: u16) {
        if segment.flags & flag::RST != 0 {
            return; // its sender takes part in nothing more
        }
        let syn = segment.flags & flag::SYN != 0;
        let scale = |scale: u8| if syn { 0 } else { scale };
        if segment.direction == FROM_GUEST {
            let window = u64::from(segment.window) << scale(self.guest_scale);
            self.guest_window = self.guest_window.max(window);
            if syn {
                self.guest_syn = segment.seq;
                (self.una, self.nxt) = (segment.seq, end(segment));
                self.edge = self.nxt;
            }
            if segment.flags & flag::ACK != 0 {
                self.acked = segment.ack;
            }
            // a bare ACK may carry the number behind what the guard dropped
            let sends = end(segment) != segment.seq;
            self.nxt = if sends && after(end(segment), self.nxt) {
                end(segment)
            } else {
                self.nxt
            };
            return;
        }
        if syn || after(end(segment), self.peer_end) {
            self.peer_end = end(segment);
        }
        if syn {
            self.acked = segment.seq.wrapping_add(1);
        }
        // an ACK of what the guard dropped is nobody's
        let acks = !after(self.una, segment.ack) && !after(segment.ack, self.nxt);
        if segment.flags & flag::ACK != 0 && acks {
            self.una = segment.ack;
            let edge = segment
                .ack
                .wrapping_add(u32::from(given) << scale(self.peer_scale));
            if syn || after(edge, self.edge) {
                self.edge = edge;
            }
        }
    }

    /// Makes a segment that the guest discards: unacceptable in a way that `turn` selects, or one that
    /// answers no SYN of the guest. Returns its kind with it, 0 to [`KINDS`].
    pub fn strike(&self, flow: &Flow, turn: u8, noise: &mut Noise) -> Option<(usize, Segment)> {
        let how = turn % KINDS;
        match u32::from(flow.stage) {
            consts::TRANSLATING => {
                let segment = self.forged(how, noise);
                self.discards(&segment).then_some((how.into(), segment))
            }
            consts::SYN_SENT => Some((KINDS.into(), forged_answer(self, noise))),
            _ => None,
        }
    }

    /// Makes a segment that is unacceptable in the way that `how` selects, of random content.
    fn forged(&self, how: u8, noise: &mut Noise) -> Segment {
        let payload_bytes = noise.below(3) * noise.below(1_460);
        let near = 1 + noise.below(5_000);
        let flight = self.furthest().wrapping_sub(self.una).min(1 << 30);
        let ack = self.una.wrapping_add(noise.below(flight));
        let seq = self.peer_end;
        let peer_window = 65_535u32 << self.peer_scale;
        // twice: the core rounds the window up to a power of two
        let window = (2 * self.guest_window.max(1)).min(1 << 30) as u32;
        let mut segment = Segment {
            payload_bytes,
            wire_payload_bytes: payload_bytes as u16,
            window: noise.next() as u16,
            flags: noise.next() as u8 & !(flag::SYN | flag::RST) | flag::ACK,
            ecn: noise.below(4) as u8,
            options: (noise.below(8) as u8 / 7) * consts::OPT_AE as u8,
            direction: TO_GUEST,
            ..Segment::default()
        };
        (segment.seq, segment.ack) = match how {
            0 => (noise.next(), noise.next()),
            1 => (0, ack),
            2 => (self.acked.wrapping_add(window).wrapping_add(near), ack),
            3 => (seq, self.una.wrapping_sub(peer_window).wrapping_sub(near)),
            4 => (
                seq,
                self.furthest().wrapping_add(SLACK_BYTES).wrapping_add(near),
            ),
            5 => (seq, ack),
            _ => (self.acked.wrapping_add(noise.below(window)), noise.next()),
        };
        match how {
            1 => {
                segment.seq = self
                    .acked
                    .wrapping_sub(near + end(&segment).wrapping_sub(segment.seq))
            }
            5 => segment.flags &= !flag::ACK,
            6 => segment.flags = flag::RST | segment.flags & !flag::FIN,
            _ => {}
        }
        segment
    }

    fn furthest(&self) -> u32 {
        if after(self.edge, self.nxt) {
            self.edge
        } else {
            self.nxt
        }
    }

    /// Returns whether the guest discards a segment of the peer by its numbers alone. What lies
    /// between is the guest's to decide, and not asked here.
    fn discards(&self, segment: &Segment) -> bool {
        if segment.flags & flag::RST != 0 {
            return segment.seq != self.acked && segment.seq != self.peer_end;
        }
        let window = (2 * self.guest_window.max(1)).min(1 << 30) as u32;
        let old = after(self.acked, end(segment));
        let beyond = after(segment.seq, self.acked.wrapping_add(window));
        // at the largest scale the acceptable ACK numbers can be more than half of the circle, so
        // an unsigned distance decides
        let least = self.una.wrapping_sub(65_535 << self.peer_scale);
        let most = self.furthest().wrapping_add(SLACK_BYTES);
        segment.flags & flag::ACK == 0
            || old
            || beyond
            || segment.ack.wrapping_sub(least) > most.wrapping_sub(least)
    }
}

/// Xorshift: one number of the case makes all of its forged segments.
pub struct Noise(pub u64);

impl Noise {
    pub fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
    }

    pub fn below(&mut self, bound: u32) -> u32 {
        if bound == 0 { 0 } else { self.next() % bound }
    }
}

/// A distance longer than any guard's slack.
const SLACK_BYTES: u32 = 1 << 25;

/// The ways of being unacceptable.
pub const KINDS: u8 = 7;
/// Makes a segment that an attacker may send while the guest waits for the answer to its SYN.
fn forged_answer(ends: &Ends, noise: &mut Noise) -> Segment {
    let ack = ends.guest_syn.wrapping_add(2 + noise.next() % (1 << 31));
    let flags = [
        flag::SYN | flag::ACK | flag::ECE,
        flag::RST | flag::ACK,
        flag::RST,
        flag::ACK | flag::FIN,
    ];
    Segment {
        seq: noise.next(),
        ack,
        flags: flags[noise.below(4) as usize],
        ecn: noise.below(4) as u8,
        mss_bytes: noise.next() as u16,
        wscale: noise.below(15) as u8,
        options: (consts::OPT_MSS | consts::OPT_WSCALE) as u8,
        window: noise.next() as u16,
        direction: TO_GUEST,
        ..Segment::default()
    }
}
