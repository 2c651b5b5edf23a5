//! A guest that keeps to its windows, or doesn't, its port and a peer: segments wait between guest
//! and port both ways, so that a window is known at the port before the guest hears of it.
#![allow(
    dead_code,
    missing_docs,
    reason = "every test program uses its own part"
)]

mod edges;
pub mod shared;

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::prop_oneof;
use uc_core::{Policy, Reason, Segment, consts};

use crate::flows::law::{Law, laws};
use crate::flows::{FROM_GUEST, Home, Passed, TO_GUEST, flag};

pub const IRS: u32 = 77;

#[derive(Clone, Debug)]
pub struct Setup {
    pub law: Law,
    pub linux: bool,
    pub guest_opens: bool,
    /// Data in the SYN, which the other end takes (TCP Fast Open).
    pub fast_open: bool,
    pub sack: bool,
    pub wscale: u8,
    pub mss: u16,
    pub initial_window_segments: u8,
    pub guard_segments: u8,
    pub iss: u32,
    /// The window in the peer's SYN or SYN-ACK.
    pub first_window: u16,
}

#[derive(Clone, Debug)]
pub enum Move {
    /// Some segments and a few bytes, as far as the window allows, as a super-segment or not.
    Send {
        segments: u8,
        odd: u16,
        gso: bool,
    },
    /// The guest sends this much without regard to its window.
    Overrun {
        segments: u8,
        odd: u16,
        gso: bool,
    },
    /// One frame as far as the window allows, with a lie about its segments: none can carry it, so
    /// it is lost behind the port, and the guest sends the same bytes again.
    Lie {
        wire: u16,
    },
    /// A segment again, the `skip`-th in flight.
    Again {
        skip: u8,
    },
    /// A byte into a window that is shut.
    Probe,
    Fin,
    /// The port takes what the guest has sent; the network loses some of it behind the port.
    Leave {
        segments: u8,
        lost: bool,
    },
    /// The guest's next segments go past the port, and arrive.
    Miss {
        segments: u8,
    },
    /// The peer's answer goes past the port.
    MissAnswer {
        window: u16,
    },
    /// The peer answers with this much room in its buffer.
    Answer {
        window: u16,
        ece: bool,
    },
    /// An ACK from before, late, with a window of its own.
    Late {
        bytes_back: u32,
        window: u16,
    },
    /// The guest hears so many of the ACKs that its port has passed.
    Hear {
        acks: u8,
    },
    Wait {
        ms: u16,
    },
}

pub fn setups() -> impl Strategy<Value = Setup> {
    (
        (
            laws(),
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
        ),
        (0u8..=10, 500u16..3000, 1u8..40, 1u8..4),
        (any::<u32>(), 1000u16..=65535),
    )
        .prop_map(|(who, sizes, numbers)| Setup {
            law: who.0,
            linux: who.1,
            guest_opens: who.2,
            fast_open: who.3,
            sack: who.4,
            wscale: sizes.0.min(sizes.1.ilog2() as u8),
            mss: sizes.1,
            initial_window_segments: sizes.2,
            guard_segments: sizes.3,
            iss: numbers.0,
            first_window: numbers.1,
        })
}

/// Moves of a guest that keeps to its windows, or of one that doesn't always.
pub fn moves(overruns: bool) -> impl Strategy<Value = Move> {
    let odd = || prop_oneof![3 => 0u16..1, 1 => 1u16..3000];
    let window = || prop_oneof![6 => 2000u16..=65535, 2 => 1u16..2000, 1 => 0u16..1];
    let keeping = prop_oneof![
        20 => (0u8..40, odd(), any::<bool>())
            .prop_map(|(segments, odd, gso)| Move::Send { segments, odd, gso }),
        4 => (0u8..8).prop_map(|skip| Move::Again { skip }),
        2 => any::<bool>().prop_map(|_| Move::Probe),
        1 => any::<bool>().prop_map(|_| Move::Fin),
        20 => (1u8..20, proptest::bool::weighted(0.05))
            .prop_map(|(segments, lost)| Move::Leave { segments, lost }),
        20 => (window(), proptest::bool::weighted(0.2))
            .prop_map(|(window, ece)| Move::Answer { window, ece }),
        2 => (1u32..60_000, window())
            .prop_map(|(bytes_back, window)| Move::Late { bytes_back, window }),
        20 => (1u8..20).prop_map(|acks| Move::Hear { acks }),
        2 => prop_oneof![3 => 0u16..50, 1 => 0u16..5000].prop_map(|ms| Move::Wait { ms }),
    ];
    prop_oneof![
        80 => keeping,
        20 * u32::from(overruns) => (1u8..60, odd(), any::<bool>())
            .prop_map(|(segments, odd, gso)| Move::Overrun { segments, odd, gso }),
        5 * u32::from(overruns) => any::<u16>().prop_map(|wire| Move::Lie { wire }),
    ]
}

pub fn lives(overruns: bool) -> impl Strategy<Value = (Setup, Vec<Move>)> {
    (setups(), vec(moves(overruns), 0..150))
}

/// Lives in which the port misses data of the guest, and answers to it.
pub fn half_seen_lives(answers: bool) -> impl Strategy<Value = (Setup, Vec<Move>)> {
    let missed = prop_oneof![
        10 => (1u8..60).prop_map(|segments| Move::Miss { segments }),
        10 * u32::from(answers) =>
            (2000u16..=65535).prop_map(|window| Move::MissAnswer { window }),
    ];
    let moves = vec(prop_oneof![9 => moves(false), 1 => missed], 0..150);
    (setups(), moves).prop_map(|(setup, mut moves)| {
        // the handshake is whole: the peer has answered
        let (window, ece) = (60_000, false);
        moves.insert(0, Move::Answer { window, ece });
        moves.insert(1, Move::Hear { acks: 9 });
        (setup, moves)
    })
}

/// All three, and what lies between them.
pub struct World<'a> {
    setup: &'a Setup,
    pub home: Home,
    now_ns: u64,
    /// The guest: first unacknowledged, next new, the edge that it knows.
    pub una: u32,
    pub nxt: u32,
    edge: u32,
    finished: bool,
    to_port: VecDeque<Segment>,
    to_guest: VecDeque<(u32, u32)>,
    /// The peer's next sequence number: it sends no data but in its SYN.
    peer_nxt: u32,
    /// The peer: all below has arrived.
    pub received: u32,
    /// The furthest edge that any window to the guest had, as the port let it go.
    pub furthest: Option<u32>,
    /// ACKs that showed the port that it had missed data.
    pub resyncs: u32,
    /// Everything that went from guest to port.
    pub passed: Vec<Crossing>,
}

/// A segment of the guest at its port.
pub struct Crossing {
    pub segment: Segment,
    pub passed: Passed,
    /// The furthest edge before.
    pub furthest: Option<u32>,
    pub now_ns: u64,
}

impl World<'_> {
    pub fn new(setup: &Setup) -> World<'_> {
        let policy = Policy {
            initial_window_segments: setup.initial_window_segments,
            guard_segments: setup.guard_segments,
            ..setup.law.policy(setup.linux)
        };
        let mut world = World {
            setup,
            home: Home::new(policy),
            now_ns: 1_000_000_000,
            una: setup.iss.wrapping_add(1),
            nxt: setup.iss.wrapping_add(1),
            edge: setup.iss.wrapping_add(1),
            finished: false,
            to_port: VecDeque::new(),
            to_guest: VecDeque::new(),
            peer_nxt: IRS + 1,
            received: setup.iss.wrapping_add(1),
            furthest: None,
            resyncs: 0,
            passed: Vec::new(),
        };
        world.handshake();
        world
    }

    fn offer(&self, from_guest: bool) -> Segment {
        let sack = if self.setup.sack { consts::OPT_SACK } else { 0 };
        Segment {
            seq: if from_guest { self.setup.iss } else { IRS },
            mss_bytes: self.setup.mss,
            wscale: self.setup.wscale,
            options: (consts::OPT_MSS | consts::OPT_WSCALE | sack) as u8,
            window: self.setup.first_window,
            direction: if from_guest { FROM_GUEST } else { TO_GUEST },
            ..Segment::default()
        }
    }

    fn handshake(&mut self) {
        let early = if self.setup.fast_open { 100 } else { 0 };
        let syn = Segment {
            flags: flag::SYN
                | if self.setup.guest_opens {
                    0
                } else {
                    flag::ECE | flag::CWR
                },
            payload_bytes: early,
            wire_payload_bytes: early as u16,
            ..self.offer(self.setup.guest_opens)
        };
        self.pass(&syn);
        let acked = syn.seq.wrapping_add(1).wrapping_add(early);
        let answer = Segment {
            ack: acked,
            flags: flag::SYN | flag::ACK | if self.setup.guest_opens { flag::ECE } else { 0 },
            ..self.offer(!self.setup.guest_opens)
        };
        let window = self.pass(&answer).edit.window;
        if self.setup.guest_opens {
            (self.una, self.nxt, self.received) = (acked, acked, acked);
            self.give(acked.wrapping_add(window.into()));
            self.to_guest.push_back((acked, self.furthest.unwrap()));
        } else if early > 0 {
            self.peer_nxt = acked;
            // it may send before it hears of a window for its data, into that of the SYN
            self.edge = self.una.wrapping_add(self.setup.first_window.into());
            self.give(self.edge);
        }
    }

    fn pass(&mut self, segment: &Segment) -> Passed {
        self.now_ns += 10_000;
        self.home.pass(segment, self.now_ns)
    }

    fn flight(&self) -> u32 {
        self.nxt.wrapping_sub(self.una)
    }

    fn sends(&mut self, seq: u32, bytes: u32, flags: u8) {
        let segment = self.segment(seq, bytes, flags);
        self.to_port.push_back(segment);
    }

    fn segment(&self, seq: u32, bytes: u32, flags: u8) -> Segment {
        Segment {
            seq,
            ack: self.peer_nxt,
            payload_bytes: bytes,
            wire_payload_bytes: bytes.min(self.setup.mss.into()) as u16,
            window: 500,
            flags: flag::ACK | flags,
            direction: FROM_GUEST,
            ..Segment::default()
        }
    }

    fn send(&mut self, mut bytes: u32, gso: bool) {
        let most = if gso { 60_000 } else { self.setup.mss.into() };
        while bytes > 0 && !self.finished {
            let piece = bytes.min(most);
            self.sends(self.nxt, piece, 0);
            self.nxt = self.nxt.wrapping_add(piece);
            bytes -= piece;
        }
    }

    pub fn step(&mut self, step: &Move) {
        let mss = u32::from(self.setup.mss);
        let wanted = |segments: u8, odd: u16| u32::from(segments) * mss + u32::from(odd) % mss;
        // what the guest's own view of its window leaves
        let room = (self.edge.wrapping_sub(self.nxt) as i32).max(0) as u32;
        match *step {
            Move::Send { segments, odd, gso } => self.send(wanted(segments, odd).min(room), gso),
            Move::Overrun { segments, odd, gso } => self.send(wanted(segments, odd), gso),
            Move::Lie { wire } => self.lie(room, wire),
            Move::Again { skip } => self.again(u32::from(skip) * mss),
            Move::Probe if room == 0 && self.una == self.nxt && !self.finished => {
                self.sends(self.nxt, 1, 0);
            }
            Move::Probe => {}
            Move::Fin if room > 0 && !self.finished => {
                self.sends(self.nxt, 0, flag::FIN);
                self.nxt = self.nxt.wrapping_add(1);
                self.finished = true;
            }
            Move::Fin => {}
            Move::Leave { segments, lost } => {
                for _ in 0..segments {
                    self.leave(lost);
                }
            }
            Move::Miss { segments } => {
                for _ in 0..segments {
                    if let Some(segment) = self.to_port.pop_front() {
                        self.arrive(&segment);
                    }
                }
            }
            Move::MissAnswer { window } => self.answer_past_the_port(window),
            Move::Answer { window, ece } => self.answer(self.received, window, ece),
            Move::Late { bytes_back, window } => {
                self.answer(self.received.wrapping_sub(bytes_back), window, false);
            }
            Move::Hear { acks } => {
                for _ in 0..acks {
                    self.hear();
                }
            }
            Move::Wait { ms } => self.now_ns += u64::from(ms) * 1_000_000,
        }
    }

    /// The frame itself arrives nowhere: no bridge carries it.
    fn lie(&mut self, room: u32, wire: u16) {
        let bytes = room.min(65_495);
        if bytes == 0 || self.finished {
            return;
        }
        let claimed = Segment {
            wire_payload_bytes: wire.clamp(1, bytes as u16),
            ..self.segment(self.nxt, bytes, 0)
        };
        self.cross(&claimed);
    }

    fn again(&mut self, skip: u32) {
        let fin = u32::from(self.finished);
        let sent = self.flight().saturating_sub(fin);
        if skip < sent {
            let bytes = (sent - skip).min(self.setup.mss.into());
            self.sends(self.una.wrapping_add(skip), bytes, 0);
        }
    }

    fn leave(&mut self, lost: bool) {
        let Some(segment) = self.to_port.pop_front() else {
            return;
        };
        if !self.cross(&segment).drops() && !lost {
            self.arrive(&segment);
        }
    }

    /// Takes a segment of the guest through the port.
    fn cross(&mut self, segment: &Segment) -> Reason {
        let furthest = self.furthest;
        let passed = self.pass(segment);
        let reason = passed.reason;
        if reason == Reason::RESYNCED {
            let before = passed.before.as_ref().expect("a flow that goes on");
            let segments = 2 * u32::from(before.mss_bytes);
            self.furthest = Some(segment.seq.wrapping_add(segments));
        }
        self.passed.push(Crossing {
            segment: *segment,
            passed,
            furthest,
            now_ns: self.now_ns,
        });
        reason
    }

    /// The peer gets a segment.
    fn arrive(&mut self, segment: &Segment) {
        let end = segment.seq.wrapping_add(segment.payload_bytes);
        let fin = u32::from(segment.flags & flag::FIN != 0);
        let from = self.received.wrapping_sub(segment.seq);
        if from <= segment.payload_bytes {
            self.received = end.wrapping_add(fin);
        }
    }

    fn answer_past_the_port(&mut self, window: u16) {
        let window_bytes = u32::from(window) << self.setup.wscale;
        self.to_guest
            .push_back((self.received, self.received.wrapping_add(window_bytes)));
    }

    /// Everything under way is lost. From then on the guest sends one segment at a time, again when
    /// its timer fires, and the answers pass the port or not. Returns how many of `segments` arrive.
    pub fn go_on(&mut self, segments: u32, seen: bool) -> u32 {
        self.to_port.clear();
        self.to_guest.clear();
        self.nxt = self.received;
        self.una = self.received;
        let mut arrived = 0;
        for _ in 0..segments {
            // longer than any timeout that the port may have estimated
            self.now_ns += 300_000_000_000;
            let before = self.received;
            self.sends(self.nxt, self.setup.mss.into(), 0);
            self.leave(false);
            if seen {
                self.answer(self.received, 60_000, false);
            } else {
                self.answer_past_the_port(60_000);
            }
            self.nxt = self.received;
            self.una = self.received;
            arrived += u32::from(self.received != before);
        }
        arrived
    }

    fn answer(&mut self, ack: u32, window: u16, ece: bool) {
        let passed = self.pass(&Segment {
            seq: self.peer_nxt,
            ack,
            window,
            flags: flag::ACK | if ece { flag::ECE } else { 0 },
            direction: TO_GUEST,
            ..Segment::default()
        });
        self.resyncs += u32::from(passed.reason == Reason::RESYNCED);
        self.go_back(&passed, ack);
        let edge = ack.wrapping_add(u32::from(passed.edit.window) << self.setup.wscale);
        // RFC 9293 §3.10.7.4: of an ACK below what is acknowledged already, nobody takes a window
        let flow = self.home.flow().copied().unwrap_or_default();
        if flow.snd_una == ack {
            // a window that ends where the guest has gone without leave gives none
            let overran = self.furthest.is_some_and(|furthest| {
                flow.snd_nxt.wrapping_sub(furthest) as i32 > 0
                    && (edge.wrapping_sub(flow.snd_nxt) as i32) < 1 << self.setup.wscale
            });
            self.give(if overran { ack } else { edge });
        }
        self.to_guest.push_back((ack, edge));
    }

    fn hear(&mut self) {
        let Some((ack, edge)) = self.to_guest.pop_front() else {
            return;
        };
        let (acked, flight) = (ack.wrapping_sub(self.una), self.flight());
        // the byte of a probe is news: the guest keeps what it sent of it as unsent
        if acked <= flight + 1 {
            self.una = ack;
            self.nxt = if acked > flight { ack } else { self.nxt };
            self.edge = edge;
        }
    }
}
