//! The receiving half: order, time of acknowledgment, window, echo of marks.

use uc_net::{Ecn, Nanos};

use crate::compression::Compression;
use crate::config::{Config, CongestionControl, Receiving};
use crate::reassembly::Reassembly;
use crate::segment::{Segment, flags};
use crate::seq;
use crate::tuning::Tuning;

/// Maximum window scale (RFC 7323 §2.3).
const MOST_WSCALE: u8 = 14;

/// Number of a connection's first segments acknowledged at once ([`Config::quick_acks`]).
const QUICK_AT_START: u8 = 16;
/// Number of segments acknowledged at once from a new mark on ([`Config::quick_acks`]).
const QUICK_AFTER_MARK: u8 = 2;

/// The time at which an acknowledgment is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// No ACK is due: there is nothing to acknowledge.
    No,
    /// Due with the next segment sent, or when the delayed ACK timer fires.
    Later,
    /// Due with the segments of this call.
    Now,
    /// Due as a segment without data: it must count as a duplicate at the peer (RFC 5681 §2 (b)).
    Alone,
}

/// The receiving half of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// RCV.NXT: the number of the next byte expected.
    pub(crate) nxt: u64,
    /// The right edge that the receiver means to advertise.
    edge: u64,
    /// The right edge that was advertised or may be used; the unit of the window field can put it above `edge`.
    said_edge: u64,
    buffer_bytes: u32,
    /// The window for the free part of the buffer, rounded down to what the field can express.
    window_bytes: u32,
    /// Bytes in order that the application has not read.
    unread_bytes: u32,
    tuning: Option<Box<Tuning>>,
    pub(crate) wscale: u8,
    reading: bool,
    pub(crate) due: Due,
    /// Bytes received since the last ACK.
    unacked_bytes: u32,
    /// Payload of the largest segment so far.
    segment_bytes: u32,
    /// Largest payload of the segments that were merged into this one, in bytes; `u32::MAX` without merging.
    pub(crate) wire_bytes: u32,
    /// Whether the receiver makes 4.4BSD's choices.
    pub(crate) bsd: bool,
    /// Whether ACKs report duplicate data (RFC 2883).
    dsack: bool,
    delay: Option<Nanos>,
    /// Number of full segments in order that one ACK covers.
    ack_segments: u32,
    compression: Option<Compression>,
    /// Whether data segments carry SACK blocks and duplicate ACKs.
    pub(crate) sack_on_data: bool,
    /// Whether some segments are acknowledged at once ([`Config::quick_acks`]).
    quick_acks: bool,
    /// Number of segments that will be acknowledged at once.
    quick: u8,
    pub(crate) deadline: Option<Nanos>,
    /// Whether ACKs carry ECE: from a CE until CWR (RFC 3168 §6.1.3), or if the last segment had CE (RFC 8257 §3.2).
    pub(crate) echo: bool,
    exact_echo: bool,
    pub(crate) held: Reassembly,
    /// Sequence number of the peer's FIN; `None`: no FIN has arrived.
    fin: Option<u64>,
    pub(crate) finished: bool,
    /// Variable TS.Recent of RFC 7323 §4.3.
    pub(crate) ts_recent: u32,
    /// Variable Last.ACK.sent of RFC 7323 §4.3.
    last_ack: u64,
}

impl Receiver {
    pub(crate) fn new(config: &Config) -> Receiver {
        let mut receiver = Receiver {
            nxt: 0,
            edge: 0,
            said_edge: 0,
            buffer_bytes: config.receive_buffer_bytes,
            window_bytes: 0,
            unread_bytes: 0,
            tuning: config.autotune_from_bytes.map(Tuning::boxed),
            wscale: 0,
            reading: true,
            due: Due::No,
            unacked_bytes: 0,
            segment_bytes: 0,
            wire_bytes: u32::MAX,
            bsd: config.receiving == Receiving::Bsd,
            dsack: config.dsack,
            delay: config.delayed_ack,
            ack_segments: u32::from(config.ack_segments),
            compression: config.compressed_sacks.map(Compression::new),
            sack_on_data: config.sack_on_data,
            quick_acks: config.quick_acks,
            quick: if config.quick_acks { QUICK_AT_START } else { 0 },
            deadline: None,
            echo: false,
            exact_echo: matches!(config.congestion_control, CongestionControl::Dctcp { .. }),
            held: Reassembly::default(),
            fin: None,
            finished: false,
            ts_recent: 0,
            last_ack: 0,
        };
        receiver.size_window();
        receiver
    }

    /// Takes the peer's initial sequence number, and promises the window of this end's SYN or
    /// SYN-ACK.
    pub(crate) fn start(&mut self, irs: u64) {
        self.nxt = irs + 1;
        self.last_ack = self.nxt;
        self.edge = self.nxt + u64::from(self.syn_window());
        self.said_edge = self.edge;
    }

    /// Returns the window of a SYN, which is not scaled (RFC 7323 §2.2).
    pub(crate) fn syn_window(&self) -> u16 {
        let tuned = self
            .tuning
            .as_ref()
            .map_or(u32::MAX, |tuning| tuning.bytes());
        self.buffer_bytes.min(tuned).min(u32::from(u16::MAX)) as u16
    }

    /// Turns off what needs SACK, for a connection whose ends have not agreed on SACK.
    pub(crate) fn without_sack(&mut self) {
        self.compression = None;
        self.sack_on_data = false;
    }

    pub(crate) fn set_wscale(&mut self, wscale: u8) {
        self.wscale = wscale.min(MOST_WSCALE);
        self.size_window();
    }

    fn free_bytes(&self) -> u32 {
        self.buffer_bytes.saturating_sub(self.unread_bytes)
    }

    /// Updates the window after a change of the buffer, of what is unread, or of the scale.
    fn size_window(&mut self) {
        let mut most = u32::from(u16::MAX) << self.wscale;
        if let Some(tuning) = &self.tuning {
            most = most.min(tuning.bytes());
        }
        self.window_bytes = self.free_bytes().min(most) >> self.wscale << self.wscale;
    }

    /// Opens the window of a receiver that autotunes, for a segment that has arrived.
    #[inline(never)]
    fn tune(&mut self, bytes: u32) {
        if let Some(tuning) = &mut self.tuning {
            tuning.arrived(bytes.max(self.segment_bytes));
            self.size_window();
        }
    }

    /// Returns the new right edge, rounded down to what the window field can express; `None` if the edge may not move.
    /// The edge moves by at least a segment, or half the buffer (4.4BSD: a quarter) if less (RFC 9293 §3.8.6.2.2).
    #[inline(always)]
    fn next_edge(&self) -> Option<u64> {
        let window = self.window_bytes;
        let edge = self.nxt + u64::from(window);
        if self.bsd {
            let worthwhile = (self.buffer_bytes / 4).min(self.segment_bytes);
            return (window >= worthwhile && edge > self.edge).then_some(edge);
        }
        let step = (self.buffer_bytes / 2).min(self.segment_bytes).max(1);
        (edge >= self.edge + u64::from(step)).then_some(edge)
    }

    /// Returns whether the right edge may move far enough to be advertised in a segment of its own.
    fn is_update_due(&self) -> bool {
        let quarter = u64::from(self.buffer_bytes / 4);
        self.next_edge()
            .is_some_and(|edge| !self.bsd || edge >= self.edge + quarter)
    }

    /// Rounds the buffer up to whole segments, at a receiver with 4.4BSD's choices.
    pub(crate) fn round_buffer(&mut self, segment_bytes: u32) {
        if self.bsd {
            self.buffer_bytes = self.buffer_bytes.next_multiple_of(segment_bytes);
            self.size_window();
            self.accept_buffer();
        }
    }

    /// Lets the receiver accept all data that the buffer can hold, even beyond the advertised window.
    fn accept_buffer(&mut self) {
        let held = self.nxt + u64::from(self.free_bytes());
        self.said_edge = self.said_edge.max(held);
    }

    /// Returns the receive buffer in bytes.
    pub(crate) fn buffer_bytes(&self) -> u32 {
        self.buffer_bytes
    }

    /// Stores the payload and FIN of a SYN until the handshake is complete (RFC 9293 §3.10.7.3).
    pub(crate) fn hold_early(&mut self, syn: &Segment) {
        let end = self.nxt + u64::from(syn.payload_bytes);
        self.held.hold(self.nxt, end);
        if syn.has(flags::FIN) {
            self.fin = Some(end);
        }
    }

    /// Takes what a SYN brought, at the end of the handshake; returns the bytes that become
    /// readable.
    pub(crate) fn take_early(&mut self, now: Nanos) -> u32 {
        let bytes = (self.held.join(self.nxt) - self.nxt) as u32;
        if bytes == 0 && self.fin.is_none() {
            return 0;
        }
        self.segment_bytes = self.segment_bytes.max(bytes);
        self.plan_ack(now, bytes);
        self.deliver(self.nxt + u64::from(bytes))
    }

    /// Returns the window field of a segment sent now. Rounds up if the advertised edge stays, because an edge never
    /// moves to the left (RFC 9293 §3.8.6).
    #[inline]
    pub(crate) fn take_window(&mut self) -> u16 {
        if let Some(edge) = self.next_edge() {
            self.edge = edge;
        }
        let window = self.edge.saturating_sub(self.nxt);
        let field = (window + (1 << self.wscale) - 1) >> self.wscale;
        let field = field.min(u64::from(u16::MAX));
        self.said_edge = self.said_edge.max(self.nxt + (field << self.wscale));
        if self.bsd {
            self.accept_buffer();
        }
        field as u16
    }

    /// Clears the pending acknowledgment: the segment that is being sent carries it.
    pub(crate) fn acknowledged(&mut self) {
        if self.dsack {
            self.held.duplicate = (0, 0);
        }
        self.due = Due::No;
        self.unacked_bytes = 0;
        self.deadline = None;
        self.last_ack = self.nxt;
    }

    /// Returns whether earlier data must be acknowledged with the old echo before the echo changes
    /// (RFC 8257 §3.2).
    pub(crate) fn must_acknowledge_first(&self, segment: &Segment) -> bool {
        let changes = self.exact_echo && (segment.ecn == Ecn::Ce) != self.echo;
        changes && segment.payload_bytes > 0 && self.unacked_bytes > 0
    }

    /// Updates the echo from a segment, by RFC 3168 §6.1.3 or RFC 8257 §3.2.
    pub(crate) fn take_mark(&mut self, segment: &Segment) {
        let marked = segment.ecn == Ecn::Ce;
        if self.exact_echo {
            if segment.payload_bytes > 0 && marked != self.echo {
                self.echo = marked;
                self.due = self.due_at_least(Due::Now);
            }
            return;
        }
        if segment.has(flags::CWR) {
            self.echo = false;
            if self.quick_acks {
                self.quick = self.quick.max(1);
            }
        }
        if self.quick_acks && marked && !self.echo {
            self.quick = self.quick.max(QUICK_AFTER_MARK);
        }
        self.echo |= marked;
    }

    fn due_at_least(&self, due: Due) -> Due {
        if self.due as u8 > due as u8 {
            self.due
        } else {
            due
        }
    }

    /// Returns whether the timestamp shows an old duplicate (RFC 7323 §5.3).
    pub(crate) fn is_stale(&self, ts_val: u32) -> bool {
        (ts_val.wrapping_sub(self.ts_recent) as i32) < 0
    }

    /// Stores the timestamp to echo, that of the segment at the left edge (RFC 7323 §4.3 (2)).
    pub(crate) fn take_timestamp(&mut self, seq: u64, ts_val: u32) {
        if seq <= self.last_ack && !self.is_stale(ts_val) {
            self.ts_recent = ts_val;
        }
    }

    /// Returns whether the segment touches the window (RFC 9293 §3.4).
    #[inline]
    pub(crate) fn is_acceptable(&self, seq: u64, sequence_bytes: u64) -> bool {
        let edge = self.said_edge.max(self.nxt);
        if sequence_bytes == 0 {
            return seq >= self.nxt && (seq <= edge);
        }
        seq + sequence_bytes > self.nxt && (seq < edge || seq == self.nxt)
    }

    /// Returns whether everything that a segment carries has arrived before (a duplicate segment of
    /// RFC 2883).
    #[inline]
    pub(crate) fn has_all(&self, seq: u64, payload_bytes: u16) -> bool {
        let end = seq + u64::from(payload_bytes);
        payload_bytes > 0 && (end <= self.nxt || (seq > self.nxt && self.held.holds(seq, end)))
    }

    /// Takes the acceptable payload or FIN of a segment; returns the bytes that become readable in
    /// order.
    #[inline]
    pub(crate) fn take_data(&mut self, now: Nanos, seq: u64, segment: &Segment) -> u32 {
        if self.finished {
            // Nothing follows a FIN (RFC 9293 §3.10.7.4, seventh and eighth step).
            self.due = self.due_at_least(Due::Now);
            return 0;
        }
        let bytes = u32::from(segment.payload_bytes);
        let mut end = seq + u64::from(bytes);
        self.segment_bytes = self.segment_bytes.max(bytes.min(self.wire_bytes));
        // data beyond the window is cut off (RFC 9293 §3.10.7.4): a probe into a full buffer is
        // answered and not accepted
        if end > self.said_edge && bytes > 0 {
            self.due = self.due_at_least(Due::Now);
            end = self.said_edge.max(self.nxt);
            if seq >= end {
                return 0;
            }
        } else if segment.has(flags::FIN) {
            self.fin = Some(end);
        }
        self.note_duplicate(seq, end);
        if self.tuning.is_some() {
            self.tune(bytes);
        }
        if seq > self.nxt {
            self.held.hold(seq, end);
            self.plan_duplicate(now);
            return 0;
        }
        let mut whole = self.nxt.max(end);
        if self.held.is_empty() {
            self.plan_ack(now, bytes);
        } else {
            whole = self.held.join(whole);
            self.due = self.due_at_least(Due::Now); // RFC 5681 §4.2: fills a gap
        }
        self.deliver(whole)
    }

    /// Advances RCV.NXT to `whole`, and over the FIN there; returns the bytes that are read at once.
    #[inline]
    fn deliver(&mut self, whole: u64) -> u32 {
        let fresh = (whole - self.nxt) as u32;
        self.nxt = whole;
        if let Some(compression) = &mut self.compression {
            compression.restart();
        }
        if self.fin == Some(self.nxt) {
            self.nxt += 1;
            self.finished = true;
            self.due = self.due_at_least(Due::Now);
        }
        if !self.reading {
            self.unread_bytes += fresh;
            self.size_window();
            return 0;
        }
        self.has_read(fresh);
        fresh
    }

    /// Raises the bound of a receiver that autotunes, by what its application has read.
    #[inline]
    fn has_read(&mut self, bytes: u32) {
        let most = self.buffer_bytes;
        if let Some(tuning) = &mut self.tuning {
            tuning.read(bytes, most);
        }
    }

    /// Records the part of a segment that has arrived before, for the next ACK to report. Its ACK is
    /// due at once (RFC 2883 §4).
    #[inline]
    pub(crate) fn note_duplicate(&mut self, seq: u64, end: u64) {
        if !self.dsack || seq >= end {
            return;
        }
        let below = (seq, end.min(self.nxt));
        let duplicate = if below.0 < below.1 {
            below
        } else {
            self.held.held_part(seq, end)
        };
        if duplicate.0 < duplicate.1 {
            self.held.duplicate = duplicate;
            self.due = self.due_at_least(Due::Now);
        }
    }

    /// Schedules the ACK of a segment out of order (RFC 5681 §4.2): at once, unless duplicate ACKs are
    /// compressed.
    #[inline]
    fn plan_duplicate(&mut self, now: Nanos) {
        let Some(wait) = self.compression.as_mut().and_then(Compression::wait) else {
            self.due = Due::Alone;
            return;
        };
        let at = now + wait;
        self.deadline = Some(self.deadline.map_or(at, |deadline| deadline.min(at)));
        self.due = self.due_at_least(Due::Later);
    }

    /// Schedules the ACK of data in order (RFC 5681 §4.2): at once after `ack_segments` full segments or while ACKs are
    /// quick, otherwise within the delay.
    fn plan_ack(&mut self, now: Nanos, bytes: u32) {
        let is_second = self.bsd && self.unacked_bytes > 0;
        let waits = !is_second && self.quick == 0;
        self.quick = self.quick.saturating_sub(1);
        self.unacked_bytes += bytes;
        match self.delay {
            Some(delay) if self.unacked_bytes < self.ack_segments * self.segment_bytes && waits => {
                self.due = self.due_at_least(Due::Later);
                if self.deadline.is_none() {
                    self.deadline = Some(now + delay);
                }
            }
            _ => self.due = self.due_at_least(Due::Now),
        }
    }

    /// Makes an ACK due when the delayed ACK timer fires.
    pub(crate) fn expire(&mut self) {
        self.deadline = None;
        self.due = self.due_at_least(Due::Now);
    }

    /// Sets whether the application reads, and returns the bytes that it reads now. A window that
    /// opens far enough is advertised at once.
    pub(crate) fn set_reading(&mut self, reading: bool) -> u32 {
        self.reading = reading;
        if !reading {
            return 0;
        }
        let taken = std::mem::take(&mut self.unread_bytes);
        self.has_read(taken);
        self.size_window();
        self.announce_room(taken);
        taken
    }

    /// Reads up to `bytes` of what is in order, for an application that does not read on arrival.
    pub(crate) fn read(&mut self, bytes: u32) -> u32 {
        let taken = bytes.min(self.unread_bytes);
        self.unread_bytes -= taken;
        self.has_read(taken);
        self.size_window();
        self.announce_room(taken);
        taken
    }

    /// Returns the bytes in order that the application has not read.
    pub(crate) fn unread_bytes(&self) -> u32 {
        self.unread_bytes
    }

    /// Makes an ACK due if the application took data and the window opens far enough.
    fn announce_room(&mut self, taken: u32) {
        if taken > 0 && self.is_update_due() {
            self.due = self.due_at_least(Due::Now);
        }
    }

    /// Returns the stream position of a 32-bit sequence number of the peer.
    #[inline]
    pub(crate) fn place(&self, wire: u32) -> u64 {
        seq::unwrap(self.nxt, wire)
    }
}
