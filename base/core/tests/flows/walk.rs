//! Plays a plan: keeps what guest and peer know, makes their segments, and reads the edits back as
//! the guest would.

use uc_core::{Flow, Reason, Segment, consts};

use super::plan::{Oddity, Offer, Plan, Setup, Step, Window};
use super::{FROM_GUEST, Passed, TO_GUEST, flag};

/// One segment and what became of it, with what the two ends knew before.
#[derive(Clone, Debug)]
pub struct Event {
    pub segment: Segment,
    pub passed: Passed,
    /// The guest's first unacknowledged sequence number, and the next one, before the segment.
    pub una: u32,
    pub nxt: u32,
    /// No random segment has come so far: what the host knows is what the ends know.
    pub orderly: bool,
}

impl Event {
    pub fn is_translated(&self) -> bool {
        [Reason::TRANSLATED, Reason::RESYNCED].contains(&self.passed.reason)
    }

    pub fn translated(&self) -> Option<&Flow> {
        let middle = |flow: &&Flow| u32::from(flow.stage) == consts::TRANSLATING;
        self.is_translated()
            .then_some(self.passed.after.as_ref())
            .flatten()
            .filter(middle)
    }

    pub fn has(&self, flags: u8) -> bool {
        self.segment.flags & flags == flags
    }

    /// Returns whether marked data of an unknown flow was dropped, since its guest has answered no mark.
    pub fn is_unanswered(&self) -> bool {
        let is_marked = u32::from(self.segment.ecn) == consts::CE && self.segment.payload_bytes > 0;
        let to_guest = self.segment.direction == TO_GUEST && self.passed.before.is_none();
        self.passed.reason == Reason::UNANSWERED && is_marked && to_guest
    }
}

struct Walk<'a> {
    setup: &'a Setup,
    pass: &'a mut dyn FnMut(&Segment, u64) -> Passed,
    events: Vec<Event>,
    now_ns: u64,
    /// The present connection's initial sequence numbers, and which end has opened it.
    iss: u32,
    irs: u32,
    guest_opens: bool,
    una: u32,
    nxt: u32,
    peer_nxt: u32,
    /// The furthest edge of the guest's windows, which the peer keeps to.
    guest_edge: u32,
    /// The peer's window field and what the guest was given of it, in bytes.
    peer_window: u16,
    given_bytes: u32,
    wscale: u8,
    mss: u16,
    /// Number of reports of data behind a hole.
    news: u16,
    guest_fin: bool,
    peer_fin: bool,
    orderly: bool,
    /// The peer's SYN offered ECN when it reached the guest.
    offered_ecn: bool,
}

/// Plays `plan` through `pass` (segment, time in ns) and returns all that passed.
pub fn walk(plan: &Plan, pass: &mut dyn FnMut(&Segment, u64) -> Passed) -> Vec<Event> {
    let setup = &plan.setup;
    let mut walk = Walk {
        setup,
        pass,
        events: Vec::new(),
        now_ns: 1_000_000_000,
        iss: setup.iss,
        irs: setup.irs,
        guest_opens: setup.guest_opens,
        una: setup.iss,
        nxt: setup.iss,
        peer_nxt: setup.irs,
        guest_edge: setup.irs,
        peer_window: setup.peer.window,
        given_bytes: 0,
        wscale: setup.scale(),
        mss: setup.mss(),
        news: 0,
        guest_fin: false,
        peer_fin: false,
        orderly: true,
        offered_ecn: false,
    };
    walk.handshake();
    for step in &plan.steps {
        walk.now_ns += 100_000;
        walk.step(step);
    }
    walk.events
}

impl Walk<'_> {
    fn emit(&mut self, segment: Segment) {
        self.now_ns += 1_000;
        let passed = (self.pass)(&segment, self.now_ns);
        if segment.direction == TO_GUEST && uc_core::is_syn(&segment) {
            self.offered_ecn = passed.edit.flags & (flag::ECE | flag::CWR) != 0;
        }
        if segment.direction == TO_GUEST && segment.flags & flag::ACK != 0 {
            let scale = if segment.flags & flag::SYN != 0 {
                0
            } else {
                self.wscale
            };
            self.given_bytes = u32::from(passed.edit.window) << scale;
        }
        let advertises = segment.direction == FROM_GUEST && segment.flags & flag::SYN == 0;
        if advertises && segment.ack == self.peer_nxt && !passed.reason.drops() {
            self.advertise(u32::from(segment.window) << self.setup.guest_scale());
        }
        self.events.push(Event {
            segment,
            passed,
            una: self.una,
            nxt: self.nxt,
            orderly: self.orderly,
        });
    }

    fn advertise(&mut self, window_bytes: u32) {
        let edge = self.peer_nxt.wrapping_add(window_bytes);
        if edge.wrapping_sub(self.guest_edge) as i32 > 0 {
            self.guest_edge = edge;
        }
    }

    fn offered(&self, guest: bool) -> Segment {
        let offer = if guest {
            &self.setup.guest
        } else {
            &self.setup.peer
        };
        let bit = |set: bool, bit: u32| if set { bit as u8 } else { 0 };
        Segment {
            window: offer.window,
            mss_bytes: offer.mss.unwrap_or(0),
            wscale: offer.wscale.unwrap_or(0),
            options: bit(offer.mss.is_some(), consts::OPT_MSS)
                | bit(offer.wscale.is_some(), consts::OPT_WSCALE)
                | bit(offer.sack, consts::OPT_SACK)
                | bit(offer.timestamps, consts::OPT_TIMESTAMPS)
                | self.odd_options(guest),
            direction: if guest { FROM_GUEST } else { TO_GUEST },
            ..Segment::default()
        }
    }

    fn odd_options(&self, guest: bool) -> u8 {
        let bit = match (self.setup.oddity, guest) {
            (Oddity::GuestSigned, true) | (Oddity::PeerSigned, false) => consts::OPT_SIGNED,
            (Oddity::GuestMptcp, true) | (Oddity::PeerMptcp, false) => consts::OPT_MPTCP,
            (Oddity::GuestAccurateEcn, true) | (Oddity::PeerAccurateEcn, false) => consts::OPT_AE,
            _ => 0,
        };
        bit as u8
    }

    /// The SYN of the end that opens.
    fn syn(&self, guest: bool) -> Segment {
        let oddity = self.setup.oddity;
        let asks = if guest {
            oddity == Oddity::GuestEcn
        } else {
            !matches!(oddity, Oddity::PeerRefuses | Oddity::PeerReflects)
        };
        Segment {
            seq: if guest { self.iss } else { self.irs },
            flags: flag::SYN | if asks { flag::ECE | flag::CWR } else { 0 },
            ..self.offered(guest)
        }
    }

    fn syn_ack(&self, guest: bool) -> Segment {
        let (iss, irs) = (self.iss, self.irs);
        let ecn = match (self.setup.oddity, guest) {
            (Oddity::GuestEcn, true) if self.offered_ecn => flag::ECE,
            (_, true) | (Oddity::PeerRefuses, false) => 0,
            (Oddity::PeerReflects, false) => flag::ECE | flag::CWR,
            (_, false) => flag::ECE,
        };
        Segment {
            seq: if guest { iss } else { irs },
            ack: if guest { irs } else { iss }.wrapping_add(1),
            flags: flag::SYN | flag::ACK | ecn,
            ecn: if guest { 0 } else { self.bare_ecn() },
            ..self.offered(guest)
        }
    }

    /// The codepoint of what the peer sends without data.
    fn bare_ecn(&self) -> u8 {
        if self.setup.peer_dctcp {
            consts::ECT0 as u8
        } else {
            consts::NOT_ECT as u8
        }
    }

    fn handshake(&mut self) {
        let opener = self.guest_opens;
        let oddity = self.setup.oddity;
        let again = if opener { self.setup.syns } else { 1 };
        for _ in 0..if oddity == Oddity::MissingSyn {
            0
        } else {
            again
        } {
            self.emit(self.syn(opener));
        }
        if oddity == Oddity::Simultaneous {
            self.emit(self.syn(!opener));
        }
        self.emit(self.syn_ack(!opener));
        self.una = self.iss.wrapping_add(1);
        self.nxt = self.una;
        self.peer_nxt = self.irs.wrapping_add(1);
        self.guest_edge = self.peer_nxt;
        self.advertise(self.setup.guest.window.into());
        if self.setup.steady_window {
            self.peer_window = self.peer_window.div_ceil(1 << self.wscale);
        }
        let last = if opener {
            self.guest_segment(64)
        } else {
            self.ack_segment(0)
        };
        self.emit(last);
    }

    fn guest_segment(&self, window: u16) -> Segment {
        Segment {
            seq: self.nxt,
            ack: self.peer_nxt,
            window,
            flags: flag::ACK,
            direction: FROM_GUEST,
            ..Segment::default()
        }
    }

    fn ack_segment(&self, acked_bytes: u32) -> Segment {
        Segment {
            seq: self.peer_nxt,
            ack: self.una.wrapping_add(acked_bytes),
            window: self.peer_window,
            flags: flag::ACK,
            ecn: self.bare_ecn(),
            direction: TO_GUEST,
            ..Segment::default()
        }
    }

    fn flight(&self) -> u32 {
        self.nxt.wrapping_sub(self.una)
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Send {
                segments,
                runt,
                gso,
                obey,
            } => self.send(*segments, *runt, *gso, *obey),
            Step::Retransmit { skip, segments } => self.retransmit(*skip, *segments),
            Step::Ack { .. } => self.ack(step),
            Step::Duplicates { .. } => self.duplicates(step),
            Step::OldAck { bytes_back } => {
                let mut segment = self.ack_segment(0);
                segment.ack = segment.ack.wrapping_sub(*bytes_back);
                self.emit(segment);
            }
            Step::GuestAck { window } => self.emit(self.guest_segment(*window)),
            Step::PathMtu { payload_bytes } => self.mss = (*payload_bytes).clamp(1, self.mss),
            Step::Fin { guest } => self.fin(*guest),
            Step::Rst { guest, ecn, flags } => {
                let base = if *guest {
                    self.guest_segment(0)
                } else {
                    self.ack_segment(0)
                };
                self.emit(Segment {
                    flags: (flags | flag::RST) & !(flag::SYN | flag::FIN),
                    ecn: *ecn,
                    ..base
                });
            }
            Step::Anew {
                guest_opens,
                answered,
                moved,
            } => self.anew(*guest_opens, *answered, *moved),
            Step::PeerHandshakeAgain if self.guest_opens => self.emit(self.syn_ack(false)),
            Step::PeerHandshakeAgain => self.emit(self.syn(false)),
            Step::Wait { ms } => self.now_ns += u64::from(*ms) * 1_000_000,
            Step::Garbage(offsets) => self.garbage(offsets),
        }
    }

    fn anew(&mut self, guest_opens: bool, answered: bool, moved: u32) {
        let (iss, irs) = (self.iss, self.irs);
        self.iss = iss.wrapping_add(moved);
        self.irs = irs.wrapping_add(moved);
        if !answered {
            self.emit(self.syn(guest_opens));
            (self.iss, self.irs) = (iss, irs);
            return;
        }
        self.guest_opens = guest_opens;
        self.mss = self.setup.mss();
        self.peer_window = self.setup.peer.window;
        (self.guest_fin, self.peer_fin) = (false, false);
        self.handshake();
    }

    fn send(&mut self, segments: u8, runt: u16, gso: bool, obey: bool) {
        if self.guest_fin {
            return;
        }
        let mss = u32::from(self.mss);
        let mut bytes = u32::from(segments) * mss + u32::from(runt).min(mss - 1);
        if obey {
            let room = self.given_bytes.saturating_sub(self.flight());
            bytes = bytes.min(room / mss * mss);
        }
        while bytes > 0 {
            let payload = if gso {
                bytes.min(60_000 / mss * mss).max(mss.min(bytes))
            } else {
                bytes.min(mss)
            };
            bytes -= payload;
            self.emit(Segment {
                payload_bytes: payload,
                wire_payload_bytes: payload.min(mss) as u16,
                flags: flag::ACK | if bytes == 0 { flag::PSH } else { 0 },
                ..self.guest_segment(1000)
            });
            self.nxt = self.nxt.wrapping_add(payload);
        }
    }

    fn retransmit(&mut self, skip: u8, segments: u8) {
        let mss = u32::from(self.mss);
        let sent = self.flight() - u32::from(self.guest_fin).min(self.flight());
        let from = u32::from(skip) * mss;
        if from >= sent {
            return;
        }
        let payload = (u32::from(segments) * mss).min(sent - from).min(60_000);
        self.emit(Segment {
            seq: self.una.wrapping_add(from),
            payload_bytes: payload,
            wire_payload_bytes: payload.min(mss) as u16,
            ..self.guest_segment(1000)
        });
    }

    fn ack(&mut self, step: &Step) {
        let Step::Ack {
            segments,
            bytes,
            window,
            ece,
            payload,
            ecn,
            cwr,
        } = step
        else {
            return;
        };
        match window {
            Window::Keep => {}
            Window::Set(field) => self.peer_window = *field,
            Window::Zero => self.peer_window = 0,
        }
        let wanted = u32::from(*segments) * u32::from(self.mss) + u32::from(*bytes);
        let acked = wanted.min(self.flight());
        let room = self.guest_edge.wrapping_sub(self.peer_nxt);
        let payload = if self.peer_fin {
            0
        } else {
            room.min((*payload).into()) as u16
        };
        let mut segment = self.ack_segment(acked);
        segment.payload_bytes = u32::from(payload);
        segment.wire_payload_bytes = payload;
        if payload > 0 {
            segment.ecn = *ecn;
        }
        segment.flags |= if *ece { flag::ECE } else { 0 };
        segment.flags |= if *cwr && payload > 0 { flag::CWR } else { 0 };
        self.emit(segment);
        self.una = self.una.wrapping_add(acked);
        self.peer_nxt = self.peer_nxt.wrapping_add(u32::from(payload));
    }

    fn duplicates(&mut self, step: &Step) {
        let Step::Duplicates {
            times,
            ece,
            stale,
            grows,
            payload,
        } = step
        else {
            return;
        };
        for at in 1..=*times {
            self.peer_window = self.peer_window.saturating_add(*grows);
            self.news += u16::from(at == 1 || at < *times || !stale);
            let room = self.guest_edge.wrapping_sub(self.peer_nxt);
            let bytes = if self.peer_fin {
                0
            } else {
                room.min((*payload).into()) as u16
            };
            let base = self.ack_segment(0);
            self.emit(Segment {
                payload_bytes: bytes.into(),
                wire_payload_bytes: bytes,
                flags: base.flags | if *ece { flag::ECE } else { 0 },
                options: consts::OPT_SACK as u8,
                mss_bytes: self.news,
                ..base
            });
            self.peer_nxt = self.peer_nxt.wrapping_add(bytes.into());
        }
    }

    fn fin(&mut self, guest: bool) {
        let base = if guest {
            self.guest_segment(1000)
        } else {
            self.ack_segment(0)
        };
        let segment = Segment {
            flags: flag::ACK | flag::FIN,
            ..base
        };
        if guest && !self.guest_fin {
            self.emit(segment);
            self.nxt = self.nxt.wrapping_add(1);
            self.guest_fin = true;
        } else if !guest && !self.peer_fin {
            self.emit(segment);
            self.peer_nxt = self.peer_nxt.wrapping_add(1);
            self.peer_fin = true;
        }
    }

    fn garbage(&mut self, offsets: &Segment) {
        let mut segment = *offsets;
        let from_guest = segment.direction == FROM_GUEST;
        let (seq, ack) = if from_guest {
            (self.una, self.peer_nxt)
        } else {
            (self.peer_nxt, self.una)
        };
        segment.seq = segment.seq.wrapping_add(seq);
        segment.ack = segment.ack.wrapping_add(ack);
        self.orderly = false;
        self.emit(segment);
    }
}
