//! Invariant "detach at any moment": every connection lives on when the translator goes, at any
//! moment. A guest with a sliding window and a peer lose segments, with a translator between them
//! that is removed in the middle.

use std::collections::VecDeque;

use crate::flows::law::{Law, laws};
use crate::flows::{FROM_GUEST, Home, TO_GUEST, flag, for_all};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::{prop_assert, prop_assert_eq};
use uc_core::{Edit, Segment, consts};

const ISS: u32 = 0xffff_8000; // the data wraps
const IRS: u32 = 99;
const DATA_BYTES: u32 = 150_000;

#[derive(Clone, Debug)]
struct Pair {
    law: Law,
    linux: bool,
    sack: bool,
    wscale: u8,
    mss: u16,
    /// The peer's buffer in bytes; its window is what is free of it.
    buffer_bytes: u32,
    /// The translator goes after so many segments.
    detach_after: u32,
    /// By segment of the guest: is it lost, is it marked? Repeated until the end.
    fates: Vec<(bool, bool)>,
}

/// The network, both ends, and the host between them while it is there.
struct World<'a> {
    pair: &'a Pair,
    host: Option<Home>,
    passed: u32,
    /// The guest's sending side: first unacknowledged, next new, most ever sent, right edge.
    una: u32,
    nxt: u32,
    edge: u32,
    /// The peer's receiving side.
    received: u32,
    echo: bool,
    sent: usize,
    to_peer: VecDeque<Segment>,
}

impl World<'_> {
    fn host(&mut self, segment: &Segment) -> Edit {
        self.passed += 1;
        if self.passed > self.pair.detach_after {
            self.host = None;
        }
        match &mut self.host {
            Some(home) => home.pass(segment, u64::from(self.passed) * 50_000).edit,
            None => uc_core::no_edit(segment),
        }
    }

    fn handshake(&mut self) {
        let options = consts::OPT_MSS
            | consts::OPT_WSCALE
            | if self.pair.sack { consts::OPT_SACK } else { 0 };
        let syn = Segment {
            seq: ISS,
            flags: flag::SYN,
            window: 65535,
            mss_bytes: self.pair.mss,
            wscale: self.pair.wscale,
            options: options as u8,
            direction: FROM_GUEST,
            ..Segment::default()
        };
        let asked = self.host(&syn).flags & flag::ECE;
        let syn_ack = Segment {
            seq: IRS,
            ack: ISS + 1,
            window: self.pair.buffer_bytes.min(65535) as u16,
            flags: flag::SYN | flag::ACK | asked,
            direction: TO_GUEST,
            ..syn
        };
        let edit = self.host(&syn_ack);
        self.edge = (ISS + 1).wrapping_add(edit.window.into());
    }

    fn end(&self) -> u32 {
        (ISS + 1).wrapping_add(DATA_BYTES)
    }

    fn send(&mut self, seq: u32, bytes: u32) {
        let segment = Segment {
            seq,
            ack: IRS + 1,
            payload_bytes: bytes,
            wire_payload_bytes: bytes as u16,
            window: 500,
            flags: flag::ACK,
            direction: FROM_GUEST,
            ..Segment::default()
        };
        let edit = self.host(&segment);
        let (lost, marked) = self.pair.fates[self.sent % self.pair.fates.len()];
        self.sent += 1;
        if lost && !self.sent.is_multiple_of(7) {
            return;
        }
        let ecn = if marked && edit.ecn != 0 {
            consts::CE as u8
        } else {
            edit.ecn
        };
        self.to_peer.push_back(Segment {
            ecn,
            flags: edit.flags,
            ..segment
        });
    }

    /// Sends all that the window allows in full segments; the last may be smaller.
    fn fill(&mut self) {
        loop {
            let left = self.end().wrapping_sub(self.nxt);
            let bytes = left.min(self.pair.mss.into());
            let room = self.edge.wrapping_sub(self.nxt) as i32;
            if bytes == 0 || room < bytes as i32 {
                return;
            }
            self.send(self.nxt, bytes);
            self.nxt = self.nxt.wrapping_add(bytes);
        }
    }

    /// The peer takes one segment and answers with an ACK.
    fn answer(&mut self, segment: &Segment) -> Segment {
        if segment.flags & flag::CWR != 0 {
            self.echo = false;
        }
        self.echo |= u32::from(segment.ecn) == consts::CE;
        if segment.seq == self.received {
            self.received = self.received.wrapping_add(segment.payload_bytes);
        }
        Segment {
            seq: IRS + 1,
            ack: self.received,
            window: (self.pair.buffer_bytes >> self.pair.wscale).min(65535) as u16,
            flags: flag::ACK | if self.echo { flag::ECE } else { 0 },
            direction: TO_GUEST,
            ..Segment::default()
        }
    }

    /// The guest takes an ACK: did its window retreat behind what it has sent?
    fn acknowledged(&mut self, ack: &Segment) -> bool {
        let edit = self.host(ack);
        if (ack.ack.wrapping_sub(self.una) as i32) < 0 {
            return true;
        }
        self.una = ack.ack;
        self.edge = ack
            .ack
            .wrapping_add(u32::from(edit.window) << self.pair.wscale);
        (self.edge.wrapping_sub(self.nxt) as i32) >= 0
    }
}

fn pairs() -> impl proptest::strategy::Strategy<Value = Pair> {
    use proptest::strategy::Strategy;
    let fates = vec(
        (
            proptest::bool::weighted(0.05),
            proptest::bool::weighted(0.2),
        ),
        1..200,
    );
    (
        (laws(), any::<bool>(), any::<bool>(), 0u8..=14),
        (500u16..9000, 0u32..400_000),
        0u32..600,
        fates,
    )
        .prop_map(
            |((law, linux, sack, wscale), (mss, buffer), detach_after, fates)| Pair {
                law,
                linux,
                sack,
                wscale,
                mss,
                // two segments, in units of the window: the peer's own window must not shrink
                buffer_bytes: buffer.max(2 * u32::from(mss)).next_multiple_of(1 << wscale),
                detach_after,
                fates,
            },
        )
}

fn play(pair: &Pair) -> Result<(), proptest::test_runner::TestCaseError> {
    let policy = pair.law.policy(pair.linux);
    let mut world = World {
        pair,
        host: Some(Home::new(policy)),
        passed: 0,
        una: ISS + 1,
        nxt: ISS + 1,
        edge: 0,
        received: ISS + 1,
        echo: false,
        sent: 0,
        to_peer: VecDeque::new(),
    };
    world.handshake();
    for _round in 0..20_000 {
        if world.una == world.end() {
            return Ok(());
        }
        world.fill();
        match world.to_peer.pop_front() {
            Some(segment) => {
                let ack = world.answer(&segment);
                prop_assert!(
                    world.acknowledged(&ack),
                    "sent data fell outside the window"
                );
            }
            // nothing on its way: the retransmission timer
            None => {
                let bytes = world.nxt.wrapping_sub(world.una).min(pair.mss.into());
                prop_assert!(bytes > 0, "stuck: nothing in flight, no room for a segment");
                world.send(world.una, bytes);
            }
        }
    }
    prop_assert_eq!(world.una, world.end(), "the transfer never ended");
    Ok(())
}

#[test]
fn law_5_a_transfer_completes_whenever_the_translator_is_taken_away() {
    for_all(1500, &pairs(), |pair| play(&pair));
}

#[test]
fn law_5_a_transfer_completes_when_the_translator_stays() {
    for_all(500, &pairs(), |pair| {
        play(&Pair {
            detach_after: u32::MAX,
            ..pair
        })
    });
}
