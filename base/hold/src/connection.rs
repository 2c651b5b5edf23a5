//! The state of a connection, as its segments show it: the handshake, the data in flight, and what an
//! ACK acknowledges.

use crate::Segment;
use crate::segment::flags::{ACK, FIN, RST, SYN};
use crate::seq::{after, before, beyond, later};

/// How far the handshake of a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The guest has sent neither SYN nor SYN-ACK yet.
    Asked,
    /// The guest's SYN was seen, and no answer yet.
    Asking,
    /// The guest's SYN-ACK was seen, after the peer's SYN.
    Answering,
    /// The handshake was seen to the end.
    Open,
}

/// Kind of a segment that the guest sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// A segment without data and FIN, a window probe, or a segment before the end of the handshake.
    Nothing,
    /// Data or a FIN beyond all that was sent.
    New,
    /// Data or a FIN that was sent before, in whole or in part.
    Again,
}

/// Kind of a packet towards the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// A packet that the decisions do not use: an RST, a SYN, a packet of a handshake, or one that an
    /// end would not accept.
    Other,
    /// The packet is the SYN-ACK that opens the connection.
    Opened,
    /// An ACK, with or without data, and the number of bytes that it newly acknowledges.
    Acked(u32),
    /// A duplicate ACK (RFC 5681 §2): an ACK without data that repeats the last ACK number while data
    /// is in flight. Its window has not grown, or it reports data by SACK.
    Duplicate,
}

/// Sequence numbers and windows of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    stage: Stage,
    /// SND.UNA and SND.NXT of the guest: the end of the data that the peer has acknowledged, and of all
    /// data sent.
    pub(crate) una: u32,
    pub(crate) nxt: u32,
    /// The furthest right edge of the peer's windows: the guest sends nothing beyond it.
    edge: u32,
    /// The largest payload of a segment of the guest.
    pub(crate) mss_bytes: u32,
    /// Scale of the peer's windows, and the window field of its last segment.
    pub(crate) scale: u8,
    window: u16,
    /// Window scales that the SYNs of guest and peer offered; `None`: no offer.
    guest_offer: Option<u8>,
    peer_offer: Option<u8>,
    /// End of the data that the peer has sent, as far as it was seen or the guest has acknowledged it; then
    /// the guest's window field.
    pub(crate) peer_nxt: u32,
    guest_window: u16,
    /// ACK number of the guest's last segment.
    guest_ack: u32,
    has_guest_fin: bool,
    has_peer_fin: bool,
    /// Time of the guest's SYN or SYN-ACK, in ns; before that, of the peer's SYN.
    pub(crate) begun_ns: u64,
    /// Time of the last segment, in ns.
    pub(crate) seen_ns: u64,
}

impl Connection {
    /// Creates a connection of which nothing is known yet.
    pub(crate) fn new(now_ns: u64) -> Connection {
        Connection {
            stage: Stage::Asked,
            una: 0,
            nxt: 0,
            edge: 0,
            mss_bytes: 0,
            scale: 0,
            window: 0,
            guest_offer: None,
            peer_offer: None,
            peer_nxt: 0,
            guest_window: 0,
            guest_ack: 0,
            has_guest_fin: false,
            has_peer_fin: false,
            begun_ns: now_ns,
            seen_ns: now_ns,
        }
    }

    /// Returns whether the handshake was seen to the end.
    pub(crate) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Returns whether both ends have sent all, and the peer has acknowledged it.
    pub(crate) fn is_finished(&self) -> bool {
        self.has_guest_fin && self.has_peer_fin && self.una == self.nxt
    }

    /// Returns the bytes in flight, as the host has seen them.
    pub(crate) fn flight_bytes(&self) -> u32 {
        self.nxt.wrapping_sub(self.una)
    }

    /// Returns whether the guest's SYN or SYN-ACK begins a new connection between the same ends.
    pub(crate) fn begins_another(&self, syn: &Segment) -> bool {
        let asks = !syn.has(ACK);
        let is_same = match self.stage {
            Stage::Asked => false,
            Stage::Asking => asks && syn.end() == self.nxt,
            Stage::Answering => !asks && syn.end() == self.nxt,
            Stage::Open => syn.end() == self.una && self.mss_bytes == 0,
        };
        !is_same
    }

    /// Initializes the connection from the guest's SYN or SYN-ACK.
    pub(crate) fn begin(&mut self, syn: &Segment, now_ns: u64) {
        let is_answer = syn.has(ACK);
        let peer_offer = self.peer_offer.filter(|_| is_answer);
        *self = Connection {
            stage: if is_answer {
                Stage::Answering
            } else {
                Stage::Asking
            },
            una: syn.seq,
            nxt: syn.end(),
            edge: syn.end(),
            guest_offer: syn.wscale,
            peer_offer,
            peer_nxt: syn.ack,
            guest_window: syn.window,
            guest_ack: syn.ack,
            ..Connection::new(now_ns)
        };
        self.scale = self.agreed(peer_offer);
    }

    /// Stores the window scale of the peer's SYN. The connection itself does not change until the
    /// guest answers.
    pub(crate) fn asked(&mut self, syn: &Segment) {
        self.peer_offer = syn.wscale;
    }

    /// Returns the scale of the peer's windows, which needs both offers (RFC 7323 §2.2).
    fn agreed(&self, peer_offer: Option<u8>) -> u8 {
        let scale = self.guest_offer.and(peer_offer).unwrap_or(0);
        scale.min(14)
    }

    /// Updates the connection for a segment of the guest other than a SYN. Returns which new or repeated
    /// data the segment has.
    pub(crate) fn sent(&mut self, segment: &Segment, now_ns: u64) -> Sent {
        self.seen_ns = now_ns;
        if segment.has(ACK) && self.is_open() {
            self.peer_nxt = later(self.peer_nxt, segment.ack);
            self.guest_window = segment.window;
            self.guest_ack = segment.ack;
        }
        let end = segment.end();
        let probes =
            self.window == 0 && segment.payload_bytes == 1 && !before(segment.seq, self.nxt);
        if !self.is_open() || end == segment.seq || probes {
            return Sent::Nothing;
        }
        self.has_guest_fin |= segment.has(FIN);
        self.mss_bytes = self.mss_bytes.max(segment.payload_bytes);
        let is_new = !before(segment.seq, self.nxt);
        self.nxt = later(self.nxt, end);
        if is_new { Sent::New } else { Sent::Again }
    }

    /// Updates the connection for a packet towards the guest. Returns what the packet acknowledges or
    /// begins.
    pub(crate) fn arrived(&mut self, segment: &Segment, now_ns: u64) -> Arrived {
        if segment.has(SYN) || !segment.has(ACK) || segment.has(RST) {
            return self.open_by(segment, now_ns);
        }
        if !self.is_acceptable(segment) {
            return Arrived::Other;
        }
        self.seen_ns = now_ns;
        if self.stage == Stage::Answering && segment.ack == self.nxt {
            self.stage = Stage::Open;
        }
        if !self.is_open() {
            return Arrived::Other;
        }
        self.has_peer_fin |= segment.has(FIN);
        self.peer_nxt = later(self.peer_nxt, segment.end());
        self.take_ack(segment)
    }

    fn take_ack(&mut self, segment: &Segment) -> Arrived {
        // the byte of a window probe was accepted, or the platform missed what the guest sent
        self.nxt = later(self.nxt, segment.ack);
        let acked = beyond(segment.ack, self.una);
        let has_grown = segment.window > self.window;
        let repeats = segment.ack == self.una && segment.end() == segment.seq;
        let reports = segment.sack_blocks().any(|(_, to)| after(to, self.una));
        self.una = later(self.una, segment.ack);
        let window = u32::from(segment.window) << self.scale;
        self.edge = later(self.edge, segment.ack.wrapping_add(window));
        if !before(segment.ack, self.una) {
            self.window = segment.window;
        }
        if repeats && self.flight_bytes() > 0 && self.window > 0 && (!has_grown || reports) {
            return Arrived::Duplicate;
        }
        Arrived::Acked(acked)
    }

    /// Returns whether an RST of the peer ends the connection: it has exactly the sequence number
    /// that the guest expects (RFC 5961 §3), as far as the host can tell.
    pub(crate) fn is_reset_by(&self, rst: &Segment) -> bool {
        self.is_open() && (rst.seq == self.peer_nxt || rst.seq == self.guest_ack)
    }

    /// Opens the connection, if the segment is the peer's SYN-ACK.
    fn open_by(&mut self, segment: &Segment, now_ns: u64) -> Arrived {
        let answers = segment.has(SYN) && segment.has(ACK) && !segment.has(RST);
        if !answers || self.stage != Stage::Asking || segment.ack != self.nxt {
            return Arrived::Other;
        }
        self.stage = Stage::Open;
        self.una = self.nxt;
        self.scale = self.agreed(segment.wscale);
        // the window of a SYN-ACK is not scaled: it only shows that the window is open
        self.window = segment.window.max(1);
        self.edge = self.una.wrapping_add(segment.window.into());
        self.peer_nxt = segment.end();
        self.guest_ack = self.peer_nxt;
        self.seen_ns = now_ns;
        Arrived::Opened
    }

    /// Returns whether both ends would accept the segment (RFC 9293 §3.10.7.4), as far as the host can tell: it lies in
    /// the guest's window, and its ACK number is at most what the guest may have sent, some of which the platform may
    /// have missed, and at most a window below the last one (RFC 5961 §5). Other segments are not held and change
    /// nothing.
    fn is_acceptable(&self, segment: &Segment) -> bool {
        let scale = match self.stage {
            Stage::Open => self.guest_offer.unwrap_or(0).min(14),
            _ => 0,
        };
        let window = (u32::from(self.guest_window) << scale).max(1 << 16);
        let ahead = segment.seq.wrapping_sub(self.peer_nxt) as i32;
        let is_sent = !after(segment.ack, later(self.nxt, self.edge));
        let oldest = self.una.wrapping_sub(u32::from(u16::MAX) << self.scale);
        ahead.unsigned_abs() <= window && is_sent && !before(segment.ack, oldest)
    }
}
