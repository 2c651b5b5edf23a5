//! Two guests behind ports of their own on one link that marks: what share does each get?

use std::collections::VecDeque;

use proptest::prelude::{Strategy, any};
use uc_core::{Edit, Policy, Segment, consts};

use super::IRS;
use crate::flows::forge::Noise;
use crate::flows::law::Law;
use crate::flows::{FROM_GUEST, Home, TO_GUEST, flag};

/// How a guest treats its windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    /// The guest fills its windows.
    Keeps,
    /// The guest sends far more than its windows allow, whenever it can.
    Overruns,
    /// The guest also repeats its oldest segment now and then as if it had been lost, because the
    /// law doesn't limit loss recovery.
    FeignsLosses,
    /// The guest sends far more than its windows allow, and frames of a whole window, by turns as one
    /// segment and as very many; it then retransmits their data.
    LiesAboutSizes,
    /// The guest sends far more than its windows allow, and acknowledges, by turns, data that its
    /// peer has not sent.
    LiesAboutAcks,
}

const MSS: u32 = 1000;
const OVERRUN_SEGMENTS: u32 = 200;
/// A guest that feigns does so with every n-th ACK.
const FEIGNED: u64 = 16;
/// The time of a run, in segments that the link carries.
const TICKS: u64 = 20_000;
const TICK_NS: u64 = 100_000;

/// RFC 8257's own parameters.
const DCTCP: Law = Law::Dctcp {
    gain_shift: 4,
    initial_alpha_q7: 128,
    beta_q7: 128,
    minimum_window_segments: 2,
    classic: false,
};

/// A link that carries one segment each tick.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    dctcp: bool,
    linux: bool,
    sack: bool,
    /// From the link to the peer and back to the guest.
    delay_ticks: u64,
    /// Length of the queue from which the link marks.
    mark_segments: usize,
}

/// Law, profile, SACK, delay and threshold.
pub fn networks() -> impl Strategy<Value = Network> {
    (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        10u64..60,
        6usize..40,
    )
        .prop_map(|(dctcp, linux, sack, delay_ticks, mark_segments)| Network {
            dctcp,
            linux,
            sack,
            delay_ticks,
            mark_segments,
        })
}

impl Network {
    /// The first one's share of what two guests with these manners get through.
    pub fn share(&self, manners: [Manners; 2], guard_segments: u8) -> f64 {
        let law = if self.dctcp { DCTCP } else { Law::Ecn };
        let policy = Policy {
            guard_segments,
            ..law.policy(self.linux)
        };
        // the handshakes find the link empty
        let round_trip_ns = self.delay_ticks * TICK_NS;
        let begin = |manners| Guest::new(policy, manners, self.sack, round_trip_ns);
        let mut guests = manners.map(begin);
        let mut link: VecDeque<(usize, u32, bool)> = VecDeque::new();
        let mut acks: VecDeque<(u64, usize, u32, bool)> = VecDeque::new();
        let mut noise = Noise(self.delay_ticks << 32 | self.mark_segments as u64);
        let mut heard_at = 0;
        for tick in 0..TICKS {
            if let Some((of, seq, marked)) = link.pop_front() {
                let ack = guests[of].arrived(seq);
                // an uneven delay, or the guests' turns would lock into each other's
                let late = u64::from(noise.below(self.delay_ticks as u32));
                heard_at = heard_at.max(tick + self.delay_ticks / 2 + late);
                acks.push_back((heard_at, of, ack, marked));
            }
            while acks.front().is_some_and(|ack| ack.0 <= tick) {
                let (_, of, ack, ece) = acks.pop_front().unwrap();
                guests[of].hear(round_trip_ns + tick * TICK_NS, ack, ece);
            }
            // the second one's clock is half a tick behind: neither is always first
            for turn in 0..2 {
                let of = (turn + tick as usize) % 2;
                for (seq, edit) in guests[of].send(round_trip_ns + tick * TICK_NS) {
                    let marked =
                        u32::from(edit.ecn) == consts::ECT0 && link.len() >= self.mark_segments;
                    link.push_back((of, seq, marked));
                }
            }
        }
        let [first, second] = guests.map(|guest| f64::from(guest.received));
        first / (first + second)
    }
}

struct Guest {
    home: Home,
    manners: Manners,
    una: u32,
    nxt: u32,
    edge: u32,
    heard: u64,
    feigns: bool,
    /// At its peer: all below has arrived.
    received: u32,
}

impl Guest {
    fn new(policy: Policy, manners: Manners, sack: bool, round_trip_ns: u64) -> Guest {
        let mut guest = Guest {
            home: Home::new(policy),
            manners,
            una: 1,
            nxt: 1,
            edge: 0,
            heard: 0,
            feigns: false,
            received: 1,
        };
        let sack = if sack { consts::OPT_SACK } else { 0 };
        let options = consts::OPT_MSS | consts::OPT_WSCALE | sack;
        let syn = Segment {
            flags: flag::SYN,
            window: 65535,
            mss_bytes: MSS as u16,
            wscale: 3,
            options: options as u8,
            direction: FROM_GUEST,
            ..Segment::default()
        };
        guest.home.pass(&syn, 0);
        let answer = Segment {
            seq: IRS,
            ack: 1,
            flags: flag::SYN | flag::ACK | flag::ECE,
            direction: TO_GUEST,
            ..syn
        };
        guest.edge = 1 + u32::from(guest.home.pass(&answer, round_trip_ns).edit.window);
        guest
    }

    /// A segment at its peer, which answers with this number.
    fn arrived(&mut self, seq: u32) -> u32 {
        if seq == self.received {
            self.received += MSS;
        }
        self.received
    }

    fn hear(&mut self, now_ns: u64, ack: u32, ece: bool) {
        let segment = Segment {
            seq: IRS + 1,
            ack,
            window: 65535,
            flags: flag::ACK | if ece { flag::ECE } else { 0 },
            direction: TO_GUEST,
            ..Segment::default()
        };
        let edit = self.home.pass(&segment, now_ns).edit;
        self.una = self.una.max(ack);
        self.nxt = self.nxt.max(self.una);
        self.edge = ack + (u32::from(edit.window) << 3);
        self.heard += 1;
        self.feigns = self.manners == Manners::FeignsLosses && self.heard.is_multiple_of(FEIGNED);
    }

    /// Sends by the guest's manners, and returns what passes its port.
    fn send(&mut self, now_ns: u64) -> Vec<(u32, Edit)> {
        let end = match self.manners {
            Manners::Keeps => self.edge,
            _ => self.una + OVERRUN_SEGMENTS * MSS,
        };
        let mut out = Vec::new();
        if self.manners == Manners::LiesAboutSizes && self.heard.is_multiple_of(FEIGNED) {
            self.lie(now_ns);
        }
        if std::mem::take(&mut self.feigns) && self.nxt > self.una {
            out.extend(self.pass(now_ns, self.una));
        }
        while self.nxt + MSS <= end {
            let Some(sent) = self.pass(now_ns, self.nxt) else {
                break; // dropped: what is behind it would be, too
            };
            out.push(sent);
            self.nxt += MSS;
        }
        out
    }

    /// A frame up to the edge that no link carries.
    fn lie(&mut self, now_ns: u64) {
        let bytes = self.edge.saturating_sub(self.nxt).min(65_495);
        let segments = if self.heard.is_multiple_of(2 * FEIGNED) {
            1
        } else {
            20
        };
        let wire_payload_bytes = (bytes / segments).max(1) as u16;
        self.home
            .pass(&data(self.nxt, bytes, wire_payload_bytes), now_ns);
    }

    fn pass(&mut self, now_ns: u64, seq: u32) -> Option<(u32, Edit)> {
        let mut segment = data(seq, MSS, MSS as u16);
        if self.manners == Manners::LiesAboutAcks && !self.heard.is_multiple_of(FEIGNED) {
            segment.ack = segment.ack.wrapping_add(1 << 29);
        }
        let passed = self.home.pass(&segment, now_ns);
        (!passed.reason.drops()).then_some((seq, passed.edit))
    }
}

fn data(seq: u32, payload_bytes: u32, wire_payload_bytes: u16) -> Segment {
    Segment {
        seq,
        ack: IRS + 1,
        payload_bytes,
        wire_payload_bytes,
        window: 500,
        flags: flag::ACK,
        direction: FROM_GUEST,
        ..Segment::default()
    }
}
