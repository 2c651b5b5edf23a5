//! A guest: it opens its connection, sends by TCP, and does what its plan says.

use uc_core::{Segment, consts};

use crate::games::behaviour::{Behaviour, Frame, Send, dying, plain};
use crate::games::plan::{Clock, Counts, Plan};
use crate::games::sender::{Sender, WSCALE};
use crate::games::trick::{Greeting, Trick};
use crate::games::{MSS, after};

const FIN: u8 = consts::FIN as u8;
const SYN: u8 = consts::SYN as u8;
const RST: u8 = consts::RST as u8;
const ACK: u8 = consts::ACK as u8;
const ECE: u8 = consts::ECE as u8;
const CWR: u8 = consts::CWR as u8;

/// Maximum payload of a guest's frame, in bytes.
const PAYLOAD_MAX: u32 = 65_000;
/// Number of tricks that a guest may play before it has sent data. More would take room on the link, for which a guest
/// needs no trick: UDP does the same.
const FREE_TRICKS: u32 = 32;
/// Maximum number of times that a guest's flow moves to another host in a game. A real move takes longer than this
/// allows.
const MOVES_MAX: u32 = 16;

/// A guest that follows a plan of tricks.
#[derive(Clone, Debug)]
pub struct Guest {
    plan: Plan,
    tcp: Sender,
    /// How often each event had happened when the guest acted last.
    since: Counts,
    /// Number of tricks that were played; `useless`: of those that take room on the link.
    played: u32,
    useless: u32,
    /// Number of moves that were played; `due`: the move that is due, by the other host's clock and layout.
    moves: u32,
    due: Option<(u32, u32)>,
}

impl Guest {
    /// Creates a guest that opens its connection with the number `iss` at the tick `start`.
    #[must_use]
    pub fn new(plan: Plan, iss: u32, start: u64) -> Guest {
        Guest {
            plan,
            tcp: Sender::new(iss, start),
            since: Counts::default(),
            played: 0,
            useless: 0,
            moves: 0,
            due: None,
        }
    }

    /// Takes a segment from the port.
    pub fn hear(&mut self, segment: &Segment, tick: u64) {
        self.tcp.hear(segment, tick);
    }

    /// Returns the clock and the layout of the host to which the guest has moved since the last call; `None`: it has
    /// not moved.
    pub fn take_move(&mut self) -> Option<(u32, u32)> {
        self.due.take()
    }

    /// Sends what is due at this tick.
    pub fn act(&mut self, tick: u64, send: Send<'_>) {
        if !self.tcp.is_open {
            if tick >= self.tcp.timer {
                self.greet(send);
                self.tcp.greeted(tick);
            }
            return;
        }
        let mut now = self.tcp.counts;
        self.since[Clock::Ticks as usize] = tick;
        now[Clock::Ticks as usize] = tick + 1;
        let since = std::mem::replace(&mut self.since, now);
        let behaviour = Behaviour::at(&self.plan, &since);
        self.tcp.answer(&behaviour, send);
        for place in 0..self.plan.tricks.len() {
            let timed = self.plan.tricks[place];
            if timed.trick.is_repeated() && timed.is_due(&since, &now) {
                for _ in 0..timed.times {
                    if !self.may_play(timed.trick) {
                        break;
                    }
                    self.play(timed.trick, &behaviour, send);
                }
            }
        }
        if !behaviour.silent {
            self.tcp.transmit(tick, &behaviour, send);
        }
    }

    /// Returns whether the guest may play a trick, and counts the trick if so. Beyond [`FREE_TRICKS`], it may play one
    /// trick for each full segment that it has sent, and one that takes room on the link for each eighth segment; and
    /// at most [`MOVES_MAX`] moves.
    fn may_play(&mut self, trick: Trick) -> bool {
        let sent = self.tcp.end.wrapping_sub(self.tcp.iss) / MSS;
        let takes_room = trick.takes_volume();
        let moves = matches!(trick, Trick::Move(..));
        let may = self.played < FREE_TRICKS + sent
            && (!takes_room || self.useless < FREE_TRICKS + sent / 8)
            && (!moves || self.moves < MOVES_MAX);
        self.played += u32::from(may);
        self.useless += u32::from(may && takes_room);
        self.moves += u32::from(may && moves);
        may
    }

    fn greet(&mut self, send: Send<'_>) {
        // a guest whose SYN stays without an answer falls back to a plain one
        let greeting = match self.tcp.backoffs {
            0 | 1 => self.plan.greeting,
            _ => Greeting::Plain,
        };
        if let Greeting::Decoys(count) = greeting {
            let odd = [0, consts::OPT_MPTCP, consts::OPT_AE, consts::OPT_SIGNED];
            for nth in 0..u32::from(count) {
                let mut decoy = self.syn(self.tcp.iss.wrapping_add(77 + nth));
                decoy.options |= odd[nth as usize % odd.len()] as u8;
                send(dying(decoy));
            }
        }
        let mut syn = self.syn(self.tcp.iss);
        match greeting {
            Greeting::Plain | Greeting::Decoys(_) => {}
            Greeting::Ecn => syn.flags |= ECE | CWR,
            Greeting::Accurate => {
                syn.flags |= ECE | CWR;
                syn.options |= consts::OPT_AE as u8;
            }
            Greeting::Multipath => syn.options |= consts::OPT_MPTCP as u8,
            Greeting::Unsacked => syn.options &= !(consts::OPT_SACK as u8),
            Greeting::Unscaled => {
                syn.options &= !(consts::OPT_WSCALE as u8);
                syn.wscale = 0;
            }
        }
        send(plain(syn));
    }

    fn syn(&self, seq: u32) -> Segment {
        Segment {
            seq,
            ack: 0,
            flags: SYN,
            mss_bytes: MSS as u16,
            wscale: WSCALE,
            options: (consts::OPT_MSS | consts::OPT_WSCALE | consts::OPT_SACK) as u8,
            ..self.tcp.segment(seq, 0)
        }
    }

    /// Performs a trick of the guest once.
    fn play(&mut self, trick: Trick, behaviour: &Behaviour, send: Send<'_>) {
        let base = self.tcp.segment(self.tcp.nxt, 0);
        match trick {
            Trick::Repeat(segments) => {
                let sent = self.tcp.end.wrapping_sub(self.tcp.una);
                let skip = u32::from(segments) * MSS;
                if skip < sent {
                    let seq = self.tcp.una.wrapping_add(skip);
                    let again = self.tcp.segment(seq, MSS.min(sent - skip));
                    send(behaviour.dress(again));
                }
            }
            Trick::Gap(segments) => {
                let to = self.tcp.nxt.wrapping_add(u32::from(segments) * MSS);
                if !after(to, self.tcp.edge) {
                    self.tcp.nxt = to;
                }
            }
            Trick::Giant(bytes, wire) => {
                let room = self.tcp.edge.wrapping_sub(self.tcp.nxt) as i32;
                let bytes = u32::from(bytes).min(room.max(1) as u32).min(PAYLOAD_MAX);
                let mut giant = self.tcp.segment(self.tcp.nxt, bytes);
                giant.wire_payload_bytes = wire.min(bytes as u16).max(1);
                send(dying(giant));
            }
            Trick::Ghosts(segments) => {
                for nth in 0..u32::from(segments) {
                    let seq = self.tcp.nxt.wrapping_add(nth * MSS);
                    send(dying(self.tcp.segment(seq, MSS)));
                }
            }
            Trick::Jump(segments, gap) => {
                for nth in 0..u32::from(segments) {
                    let seq = self.tcp.edge.wrapping_add((nth + u32::from(gap)) * MSS);
                    let data = self.tcp.segment(seq, MSS);
                    let arrives = send(behaviour.dress(data));
                    let end = seq.wrapping_add(MSS);
                    if arrives && after(end, self.tcp.end) {
                        self.tcp.end = end;
                    }
                }
            }
            Trick::Syn(distance, dies) => {
                let segment = self.syn(self.tcp.nxt.wrapping_add(distance));
                send(Frame {
                    dies,
                    ..plain(segment)
                });
            }
            Trick::SynAck(distance, ack, dies) => {
                let mut segment = self.syn(self.tcp.nxt.wrapping_add(distance));
                segment.flags |= ACK;
                segment.ack = self.tcp.ack.wrapping_add(ack);
                send(Frame {
                    dies,
                    ..plain(segment)
                });
            }
            Trick::Reset(distance) => {
                let seq = self.tcp.nxt.wrapping_add(distance);
                let flags = RST | ACK;
                send(dying(Segment { seq, flags, ..base }));
            }
            Trick::Fin(distance) => {
                let seq = self.tcp.nxt.wrapping_add(distance);
                let flags = FIN | ACK;
                send(dying(Segment { seq, flags, ..base }));
            }
            Trick::Ack(distance, ack, window) => {
                let segment = Segment {
                    seq: self.tcp.nxt.wrapping_add(distance),
                    ack: self.tcp.ack.wrapping_add(ack),
                    window,
                    ..base
                };
                send(plain(segment));
            }
            Trick::Move(clock, layout) => self.due = Some((clock, layout)),
            _ => {}
        }
    }
}
