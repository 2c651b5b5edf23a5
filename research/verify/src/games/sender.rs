//! A TCP in user space that sends data as fast as its windows and its behaviour allow.
//!
//! With the default behaviour it is an honest sender: it fills the windows that it gets, repairs losses by RFC 6582 and
//! RFC 6298, and sends no more during a repair than its own congestion control would.

use uc_core::{Segment, consts};

use crate::games::behaviour::{Behaviour, Send};
use crate::games::plan::{Clock, Counts};
use crate::games::{MSS, TICK_NS, after};

const SYN: u8 = consts::SYN as u8;
const RST: u8 = consts::RST as u8;
const ACK: u8 = consts::ACK as u8;

/// The retransmission timeout in ticks: 200 ms, Linux's minimum (RFC 6298 has 1 s).
const RTO_TICKS: u64 = 200_000_000 / TICK_NS;
/// Window scale that the sender offers.
pub const WSCALE: u8 = 7;
/// The window field that the sender sends.
const WINDOW: u16 = 1_000;

/// A repair of lost data, under way.
#[derive(Clone, Copy, Debug)]
struct Repair {
    /// Sequence number after the data that is to be repaired.
    end: u32,
    /// Number of segments of new data that the guest's own congestion control still allows.
    allowance: u32,
    /// Whether a timeout began the repair: then all data in flight is retransmitted.
    timeout: bool,
    /// Number of duplicate ACKs received during the repair.
    duplicates: u32,
}

/// One end of a connection, which sends.
#[derive(Clone, Debug)]
pub struct Sender {
    /// Initial sequence number of the sender.
    pub iss: u32,
    /// Whether the peer has answered the SYN.
    pub is_open: bool,
    /// First byte that is not acknowledged.
    pub una: u32,
    /// Number of the next byte to send.
    pub nxt: u32,
    /// Sequence number after all data ever sent.
    pub end: u32,
    /// The end of the last segment that was shorter than a full one.
    small_end: u32,
    /// The right edge of the window that was last advertised to the sender.
    pub edge: u32,
    /// Scale of the windows that the peer advertises.
    wscale: u8,
    /// ACK number that the sender should send.
    pub ack: u32,
    duplicates: u32,
    repair: Option<Repair>,
    /// Whether the first unacknowledged segment is to be retransmitted.
    resends: bool,
    /// Whether the sender owes an ACK.
    answers: bool,
    /// The tick at which the retransmission timer fires.
    pub timer: u64,
    /// How often the retransmission timer has fired in a row.
    pub backoffs: u32,
    /// How often the events of each clock have happened, except ticks.
    pub counts: Counts,
    /// Sequence number after the next eighth of the flight.
    eighth: u32,
    /// The largest window since the last cut.
    largest: u32,
}

impl Sender {
    /// Creates a sender that opens its connection with the number `iss` at the tick `start`.
    #[must_use]
    pub fn new(iss: u32, start: u64) -> Sender {
        Sender {
            iss,
            is_open: false,
            una: iss,
            nxt: iss,
            end: iss,
            small_end: iss,
            edge: iss,
            wscale: 0,
            ack: 0,
            duplicates: 0,
            repair: None,
            resends: false,
            answers: false,
            timer: start,
            backoffs: 0,
            counts: Counts::default(),
            eighth: iss,
            largest: 0,
        }
    }

    /// Takes a segment from the port.
    pub fn hear(&mut self, segment: &Segment, tick: u64) {
        if segment.flags & RST != 0 {
            return;
        }
        if segment.flags & SYN != 0 {
            self.open(segment, tick);
            return;
        }
        if !self.is_open || after(segment.ack, self.end) || after(self.una, segment.ack) {
            return;
        }
        let acked = segment.ack.wrapping_sub(self.una);
        if acked > 0 {
            self.advance(segment.ack, tick);
        } else if segment.payload_bytes == 0 && self.nxt != self.una {
            self.repeat();
        }
        let window = u32::from(segment.window) << self.wscale;
        self.edge = segment.ack.wrapping_add(window);
        let is_cut = u64::from(window) * 8 < u64::from(self.largest) * 7;
        self.counts[Clock::Cuts as usize] += u64::from(is_cut);
        self.largest = if is_cut {
            window
        } else {
            self.largest.max(window)
        };
    }

    /// Counts a SYN that was sent, and sets the time of the next.
    pub fn greeted(&mut self, tick: u64) {
        self.backoffs += 1;
        self.timer = tick + (5 * RTO_TICKS).min(RTO_TICKS << self.backoffs) / 4;
    }

    /// Sends the last segment of the handshake, if it is due.
    pub fn answer(&mut self, behaviour: &Behaviour, send: Send<'_>) {
        if std::mem::take(&mut self.answers) {
            send(behaviour.dress(self.segment(self.nxt, 0)));
        }
    }

    fn open(&mut self, answer: &Segment, tick: u64) {
        let expected = self.iss.wrapping_add(1);
        if self.is_open || answer.flags & ACK == 0 || answer.ack != expected {
            return;
        }
        self.is_open = true;
        (self.una, self.nxt, self.end) = (expected, expected, expected);
        self.small_end = expected;
        self.eighth = expected;
        self.edge = expected.wrapping_add(answer.window.into());
        self.wscale = answer.wscale;
        self.ack = answer.seq.wrapping_add(1);
        self.answers = true;
        self.backoffs = 0;
        self.timer = tick + RTO_TICKS;
    }

    fn advance(&mut self, ack: u32, tick: u64) {
        let segments = ack.wrapping_sub(self.una).div_ceil(MSS);
        self.una = ack;
        self.duplicates = 0;
        self.backoffs = 0;
        self.timer = tick + RTO_TICKS;
        if after(self.una, self.nxt) {
            self.nxt = self.una;
        }
        self.counts[Clock::Acks as usize] += 1;
        if !after(self.eighth, ack) {
            self.counts[Clock::Eighths as usize] += 1;
            self.eighth = ack.wrapping_add((self.nxt.wrapping_sub(ack) / 8).max(1));
        }
        let Some(repair) = &mut self.repair else {
            return;
        };
        if !after(repair.end, ack) {
            self.repair = None;
        } else if repair.timeout {
            repair.allowance += segments + 1; // slow start (RFC 5681 §3.1)
        } else {
            self.resends = true; // the next hole (RFC 6582 §3.2 step 5)
        }
    }

    fn repeat(&mut self) {
        self.duplicates += 1;
        match &mut self.repair {
            // half of what arrives lets out new data (RFC 6937's rate)
            Some(repair) if !repair.timeout => {
                repair.duplicates += 1;
                repair.allowance += repair.duplicates % 2;
            }
            Some(_) => {}
            None if self.duplicates == 3 => {
                self.resends = true;
                self.repair = Some(Repair {
                    end: self.end,
                    allowance: 0,
                    timeout: false,
                    duplicates: 0,
                });
            }
            None => {}
        }
    }

    fn time_out(&mut self, tick: u64) {
        self.backoffs = (self.backoffs + 1).min(6);
        self.timer = tick + (RTO_TICKS << self.backoffs);
        self.nxt = self.una;
        self.duplicates = 0;
        self.resends = false;
        self.repair = Some(Repair {
            end: self.end,
            allowance: 1,
            timeout: true,
            duplicates: 0,
        });
    }

    /// Sends what is lost, then new data up to the window's edge, and as far beyond as `behaviour` goes.
    pub fn transmit(&mut self, tick: u64, behaviour: &Behaviour, send: Send<'_>) {
        if behaviour.stubborn {
            (self.resends, self.repair) = (false, None);
        } else if self.end != self.una && tick >= self.timer {
            self.time_out(tick);
        }
        if std::mem::take(&mut self.resends) && self.end != self.una {
            let bytes = MSS.min(self.end.wrapping_sub(self.una));
            let lost = self.segment(self.una, bytes);
            send(behaviour.dress(lost));
        }
        let flood = self.una.wrapping_add(behaviour.flood);
        let mut limit = self.edge.wrapping_add(behaviour.overrun);
        if after(flood, limit) {
            limit = flood;
        }
        let mut burst = false;
        loop {
            let held = self.repair.is_some_and(|repair| repair.allowance == 0);
            let room = limit.wrapping_sub(self.nxt) as i32;
            let bytes = self.cut(behaviour.segment_bytes, room, burst);
            if bytes == 0 || (held && !behaviour.reckless) {
                return;
            }
            let to = self.nxt.wrapping_add(bytes);
            burst = true;
            if bytes < behaviour.segment_bytes {
                self.small_end = to;
            }
            if self.end == self.una {
                self.timer = tick + (RTO_TICKS << self.backoffs);
            }
            let data = self.segment(self.nxt, bytes);
            if !send(behaviour.dress(data)) {
                return; // dropped at the port, which would drop all behind it, too
            }
            self.nxt = to;
            if after(to, self.end) {
                self.end = to;
            }
            if let Some(repair) = &mut self.repair {
                repair.allowance = repair.allowance.saturating_sub(1);
            }
        }
    }

    /// Returns the length of the next segment if `room` bytes may be sent; 0: send none. As Linux does, a segment that
    /// the window cuts short follows full ones at once (`burst`), while no other such segment is in flight (Minshall's
    /// variant of RFC 896's rule).
    fn cut(&self, full_bytes: u32, room: i32, burst: bool) -> u32 {
        let room = room.max(0) as u32;
        let alone = !after(self.small_end, self.una);
        if room >= full_bytes {
            full_bytes
        } else if burst && alone {
            room
        } else {
            0
        }
    }

    /// Returns a segment of data with the right ACK number.
    #[must_use]
    pub fn segment(&self, seq: u32, bytes: u32) -> Segment {
        Segment {
            seq,
            ack: self.ack,
            payload_bytes: bytes,
            wire_payload_bytes: bytes as u16,
            window: WINDOW,
            flags: ACK,
            direction: consts::FROM_GUEST as u8,
            ..Segment::default()
        }
    }
}
