//! The honest receiver of one guest's data.

use uc_core::{Segment, consts};

use crate::games::{MSS, after};

const FIN: u8 = consts::FIN as u8;
const SYN: u8 = consts::SYN as u8;
const RST: u8 = consts::RST as u8;
const ACK: u8 = consts::ACK as u8;
const ECE: u8 = consts::ECE as u8;
const CWR: u8 = consts::CWR as u8;

/// The window field that the peer sends.
const WINDOW: u16 = 65_535;
/// The scale of the receiver's windows.
pub const WSCALE: u8 = 5;
/// How long an ACK of a lone segment waits (RFC 9293 §3.8.6.3), in ticks.
const DELAY_TICKS: u64 = 400;

/// A TCP that listens, receives and acknowledges (RFC 9293), and echoes marks.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Whether the echo is exact (RFC 8257 §3.2) or classic (RFC 3168 §6.1.3).
    exact: bool,
    /// Whether the peer acknowledges only every second segment.
    delays: bool,
    /// Initial sequence number that the peer itself uses.
    irs: u32,
    /// The guest's initial sequence number, once connected.
    iss: Option<u32>,
    ecn: bool,
    /// Sequence number before which all data has arrived.
    received: u32,
    /// Data beyond a gap: disjoint ranges in order.
    beyond: Vec<(u32, u32)>,
    /// Whether ACKs carry ECE: until CWR, or, with an exact echo, until an unmarked segment.
    echoes: bool,
    /// Tick at which the ACK of a lone segment is due; `None`: no segment waits for its ACK.
    unacknowledged: Option<u64>,
}

impl Peer {
    /// Creates a peer that waits for a connection.
    #[must_use]
    pub fn new(exact: bool, delays: bool, irs: u32) -> Peer {
        Peer {
            exact,
            delays,
            irs,
            iss: None,
            ecn: false,
            received: 0,
            beyond: Vec::new(),
            echoes: false,
            unacknowledged: None,
        }
    }

    /// Returns the bytes that have arrived in order.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.iss.map_or(0, |iss| {
            self.received.wrapping_sub(iss).wrapping_sub(1).into()
        })
    }

    /// Takes a segment from the link; returns the answer, `None` if none is due now.
    pub fn hear(&mut self, segment: &Segment, tick: u64) -> Option<Segment> {
        if segment.flags & RST != 0 {
            return None;
        }
        if segment.flags & SYN != 0 {
            return self.greet(segment);
        }
        self.iss?;
        if segment.payload_bytes == 0 {
            return None;
        }
        let marked = u32::from(segment.ecn) == consts::CE;
        let changes = self.exact && marked != self.echoes;
        let early = changes && self.unacknowledged.take().is_some();
        // RFC 8257 §3.2: the ACK of what came before has the former echo; one answer stands for both
        let before = self.echoes;
        if self.exact {
            self.echoes = marked;
        } else {
            self.echoes = marked || (self.echoes && segment.flags & CWR == 0);
        }
        let in_order = self.take(segment.seq, segment.payload_bytes);
        if in_order && self.delays && !early && self.unacknowledged.is_none() {
            self.unacknowledged = Some(tick + DELAY_TICKS);
            return None;
        }
        self.unacknowledged = None;
        let mut answer = self.answer();
        self.report(&mut answer, segment.seq);
        if early && before {
            answer.flags |= ECE;
        }
        Some(answer)
    }

    /// Returns the delayed ACK if its time has come; otherwise `None`.
    pub fn wake(&mut self, tick: u64) -> Option<Segment> {
        self.unacknowledged.take_if(|due| *due <= tick)?;
        Some(self.answer())
    }

    /// Reports data behind a gap by SACK blocks: first the one that holds `seq` (RFC 2018 §4).
    fn report(&self, answer: &mut Segment, seq: u32) {
        let mut blocks = self.beyond.clone();
        blocks.sort_by_key(|&(from, to)| after(from, seq) || !after(to, seq));
        uc_core::set_sack(answer, &blocks);
    }

    fn greet(&mut self, segment: &Segment) -> Option<Segment> {
        let is_open = segment.flags & (SYN | ACK) == SYN;
        if self.iss.is_some_and(|iss| !is_open || iss != segment.seq) {
            return Some(self.answer()); // a challenge ACK (RFC 5961 §4)
        }
        if !is_open {
            return None;
        }
        self.iss = Some(segment.seq);
        self.received = segment.seq.wrapping_add(1);
        // RFC 9768: a peer without Accurate ECN takes AE, CWR and ECE for the classic offer
        self.ecn = segment.flags & (ECE | CWR) == ECE | CWR;
        let scaled = segment.options & consts::OPT_WSCALE as u8;
        let options = segment.options & consts::OPT_SACK as u8 | scaled | consts::OPT_MSS as u8;
        Some(Segment {
            seq: self.irs,
            flags: SYN | ACK | if self.ecn { ECE } else { 0 },
            mss_bytes: MSS as u16,
            wscale: if scaled > 0 { WSCALE } else { 0 },
            options,
            ..self.bare()
        })
    }

    /// Takes data. Returns whether the data is the next expected, and no gap is or was open.
    fn take(&mut self, seq: u32, bytes: u32) -> bool {
        let end = seq.wrapping_add(bytes);
        let window_bytes = u32::from(WINDOW) << WSCALE;
        if !after(end, self.received) || end.wrapping_sub(self.received) > window_bytes {
            return false;
        }
        if after(seq, self.received) {
            self.store(seq, end);
            return false;
        }
        self.received = end;
        let had_gap = !self.beyond.is_empty();
        while let Some(&(from, to)) = self.beyond.first() {
            if after(from, self.received) {
                break;
            }
            if after(to, self.received) {
                self.received = to;
            }
            self.beyond.remove(0);
        }
        !had_gap
    }

    fn store(&mut self, mut from: u32, mut to: u32) {
        self.beyond.retain(|&(start, end)| {
            let apart = after(from, end) || after(start, to);
            if !apart {
                from = if after(from, start) { start } else { from };
                to = if after(end, to) { end } else { to };
            }
            apart
        });
        let place = self
            .beyond
            .partition_point(|&(start, _)| after(from, start));
        self.beyond.insert(place, (from, to));
    }

    fn bare(&self) -> Segment {
        Segment {
            seq: self.irs.wrapping_add(1),
            ack: self.received,
            window: WINDOW,
            flags: ACK,
            direction: consts::TO_GUEST as u8,
            ..Segment::default()
        }
    }

    fn answer(&self) -> Segment {
        let mut answer = self.bare();
        if self.ecn && self.echoes {
            answer.flags |= ECE;
        }
        answer.flags &= !FIN;
        answer
    }
}
