//! One end of one connection.

use uc_net::{Ecn, Nanos};

use crate::acks::Ack;
use crate::config::{Config, CongestionControl};
use crate::congestion::Law;
use crate::output::Chunk;
use crate::receiver::{Due, Receiver};
use crate::segment::{Options, Segment, flags};
use crate::sender::{Phase, Sender};
use crate::seq;

/// What three SACK blocks take of a segment, and one (RFC 2018 §3, padded).
const SACK_HEADER_BYTES: u32 = 4;
const SACK_BLOCK_BYTES: u32 = 8;

/// RFC 9293 §3.3.2, without the states that only tell which side closed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    Listen,
    SynSent,
    SynReceived,
    /// And all that follows, until nothing is left to say.
    Established,
    /// Reset or given up.
    Closed,
}

/// One end of one connection, both directions.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) state: State,
    /// Both ends speak timestamps (RFC 7323 §3.2), and both scale their windows (§2.2).
    pub(crate) timestamps: bool,
    pub(crate) scaling: bool,
    pub(crate) peer_wscale: u8,
    pub(crate) syn_lost: bool,
    pub(crate) peer_mss_bytes: u16,
    pub(crate) syn_sent_at: Nanos,
    /// RFC 8257 §3.5: every segment is ECN-capable.
    all_ect: bool,
    pub(crate) config: Box<Config>,
}

/// What a connection shows of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Congestion window.
    pub cwnd_bytes: u32,
    /// Slow-start threshold.
    pub ssthresh_bytes: u32,
    /// The peer's receive window, scaled.
    pub send_window_bytes: u32,
    /// Sent and not acknowledged.
    pub flight_bytes: u32,
    /// Payload of a full segment, options taken off.
    pub smss_bytes: u32,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Nanos,
    /// The retransmission timeout, backed off.
    pub rto: Nanos,
    /// DCTCP's α in 1/1024; 0 for others.
    pub alpha_q10: u32,
    /// Whether both ends agreed on ECN.
    pub ecn: bool,
    /// In fast recovery (RFC 6582, RFC 6675).
    pub in_recovery: bool,
    /// After a timeout, until what was in flight then is acknowledged.
    pub in_loss: bool,
}

/// What a connection counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Payload handed to the application in order.
    pub delivered_bytes: u64,
    /// Payload of ours acknowledged.
    pub acknowledged_bytes: u64,
    /// Payload sent, retransmissions included.
    pub sent_bytes: u64,
    /// Payload sent again.
    pub retransmitted_bytes: u64,
    /// Segments sent again (payload, SYN or FIN).
    pub retransmits: u64,
    /// Retransmission timeouts that fired.
    pub timeouts: u64,
    /// Of these, found spurious by F-RTO.
    pub spurious_timeouts: u64,
    /// Entries into fast recovery.
    pub fast_recoveries: u64,
    /// Reductions on ECE.
    pub ecn_cuts: u64,
    /// Duplicate ACKs received.
    pub duplicate_acks: u64,
    /// CE-marked segments received.
    pub ce_received: u64,
}

impl Connection {
    /// The end that will send the SYN, in [`Connection::open`].
    pub fn client(config: &Config, iss: u32) -> Connection {
        Connection::new(config, iss, State::Idle)
    }

    /// The end that waits for one.
    pub fn server(config: &Config, iss: u32) -> Connection {
        Connection::new(config, iss, State::Listen)
    }

    fn new(config: &Config, iss: u32, state: State) -> Connection {
        Connection {
            sender: Sender::new(config, seq::start(iss)),
            receiver: Receiver::new(config),
            state,
            timestamps: false,
            scaling: false,
            peer_wscale: 0,
            syn_lost: false,
            peer_mss_bytes: config.mss_bytes,
            syn_sent_at: Nanos::ZERO,
            all_ect: matches!(config.congestion_control, CongestionControl::Dctcp { .. }),
            config: Box::new(config.clone()),
        }
    }

    /// The application hands over `bytes` more (u64::MAX: never runs dry).
    pub fn write(&mut self, now: Nanos, bytes: u64, out: &mut impl FnMut(Segment)) {
        self.sender.write(bytes);
        self.flush(now, out);
    }

    /// No more will be written: a FIN follows the last byte.
    pub fn finish(&mut self, now: Nanos, out: &mut impl FnMut(Segment)) {
        self.sender.finishing = true;
        self.flush(now, out);
    }

    /// Whether the application takes what arrives at once (the default) or lets the buffer fill.
    pub fn set_reading(&mut self, now: Nanos, reading: bool, out: &mut impl FnMut(Segment)) {
        let taken = self.receiver.set_reading(reading);
        self.sender.totals.delivered_bytes += u64::from(taken);
        self.flush(now, out);
    }

    /// A segment arrived.
    pub fn receive(&mut self, now: Nanos, segment: &Segment, out: &mut impl FnMut(Segment)) {
        match self.state {
            State::Established => self.receive_established(now, segment, out),
            State::SynReceived => self.receive_last_ack(now, segment, out),
            State::SynSent => self.receive_syn_ack(now, segment, out),
            State::Listen => self.receive_syn(now, segment, out),
            State::Idle | State::Closed => {}
        }
    }

    /// In SYN-RECEIVED.
    fn receive_last_ack(&mut self, now: Nanos, segment: &Segment, out: &mut impl FnMut(Segment)) {
        let again =
            segment.has(flags::SYN) && self.receiver.place(segment.seq) + 1 == self.receiver.nxt;
        if again && !segment.has(flags::ACK) {
            self.send_syn(now, out);
            return;
        }
        if !segment.has(flags::RST) && segment.has(flags::ACK) {
            if segment.ack != self.sender.nxt as u32 {
                out(crate::handshake::reset_for(segment));
                return;
            }
            self.establish(now);
        }
        self.receive_established(now, segment, out);
    }

    /// RFC 9293 §3.10.7.4, in its order.
    fn receive_established(
        &mut self,
        now: Nanos,
        segment: &Segment,
        out: &mut impl FnMut(Segment),
    ) {
        let place = self.receiver.place(segment.seq);
        let bytes = segment.sequence_bytes();
        if !self.passes(place, segment) {
            // something to acknowledge again, but nothing answers a reset
            if (bytes > 0 || segment.has(flags::SYN)) && !segment.has(flags::RST) {
                self.emit_ack(now, out);
            }
            if segment.has(flags::RST) || bytes > 0 {
                return;
            }
        }
        if segment.has(flags::RST | flags::SYN) {
            self.receive_reset(now, place, segment, out);
            return;
        }
        if !segment.has(flags::ACK) {
            return;
        }
        if let Some((ts_val, _)) = segment.options.timestamps.filter(|_| self.timestamps) {
            self.receiver.take_timestamp(place, ts_val);
        }
        if !self.take_ack(now, place, segment) {
            self.emit_ack(now, out);
            return;
        }
        if bytes > 0 {
            self.receive_data(now, place, segment, out);
        }
        self.flush(now, out);
    }

    /// Is it acceptable, and not an old duplicate (RFC 7323 §5.3)? An ACK without payload is used
    /// wherever it lies: what overtook it doesn't make it wrong.
    fn passes(&self, place: u64, segment: &Segment) -> bool {
        if let Some((ts_val, _)) = segment.options.timestamps.filter(|_| self.timestamps)
            && self.receiver.is_stale(ts_val)
            && !segment.has(flags::RST)
        {
            return false;
        }
        self.receiver
            .is_acceptable(place, u64::from(segment.sequence_bytes()))
    }

    /// RFC 5961 §3 and §4: a reset at the very next byte counts, one elsewhere and any SYN are
    /// answered with an ACK, from which an honest peer learns what is so.
    fn receive_reset(
        &mut self,
        now: Nanos,
        place: u64,
        segment: &Segment,
        out: &mut impl FnMut(Segment),
    ) {
        if segment.has(flags::RST) && place == self.receiver.nxt {
            self.close();
        } else {
            self.emit_ack(now, out);
        }
    }

    #[inline]
    fn take_ack(&mut self, now: Nanos, place: u64, segment: &Segment) -> bool {
        let echoed = segment.options.timestamps.filter(|_| self.timestamps);
        let ack = Ack {
            now,
            seq: place,
            ack: seq::unwrap(self.sender.una, segment.ack),
            window_bytes: u32::from(segment.window) << self.peer_wscale,
            carries: segment.sequence_bytes() > 0,
            ece: segment.has(flags::ECE),
            sack: &segment.options.sack,
            echoed_ms: echoed.map(|(_, ts_ecr)| ts_ecr),
        };
        self.sender.on_ack(&ack)
    }

    fn receive_data(
        &mut self,
        now: Nanos,
        place: u64,
        segment: &Segment,
        out: &mut impl FnMut(Segment),
    ) {
        if self.sender.ecn {
            if self.receiver.must_acknowledge_first(segment) {
                self.emit_ack(now, out);
            }
            self.sender.totals.ce_received += u64::from(segment.ecn == Ecn::Ce);
            self.receiver.take_mark(segment);
        }
        let delivered = self.receiver.take_data(now, place, segment);
        self.sender.totals.delivered_bytes += u64::from(delivered);
        if self.receiver.due == Due::Alone {
            self.emit_ack(now, out);
        }
    }

    /// The moment of `deadline` has come (or is past).
    pub fn expire(&mut self, now: Nanos, out: &mut impl FnMut(Segment)) {
        if self
            .receiver
            .deadline
            .is_some_and(|deadline| deadline <= now)
        {
            self.receiver.expire();
        }
        if self.sender.deadline.is_some_and(|deadline| deadline <= now) {
            match self.state {
                State::SynSent | State::SynReceived => self.syn_timeout(now, out),
                _ => self.sender.expire(now),
            }
            if self.sender.is_given_up() {
                self.close();
            }
        }
        self.flush(now, out);
    }

    /// When it next wants [`Connection::expire`]; none while no timer runs.
    pub fn deadline(&self) -> Option<Nanos> {
        match (self.sender.deadline, self.receiver.deadline) {
            (Some(sender), Some(receiver)) => Some(sender.min(receiver)),
            (deadline, None) | (None, deadline) => deadline,
        }
    }

    /// Sends what may go now, and the ACK if no segment carried it.
    pub(crate) fn flush(&mut self, now: Nanos, out: &mut impl FnMut(Segment)) {
        if self.state != State::Established {
            return;
        }
        while let Some(chunk) = self.sender.poll(now) {
            self.emit(now, &chunk, out);
        }
        if self.receiver.due as u8 >= Due::Now as u8 {
            self.emit_ack(now, out);
        }
    }

    fn emit_ack(&mut self, now: Nanos, out: &mut impl FnMut(Segment)) {
        let ack = Chunk {
            seq: self.sender.nxt.max(self.sender.max),
            bytes: 0,
            fin: false,
            push: false,
            fresh: false,
        };
        self.emit(now, &ack, out);
    }

    #[inline]
    fn emit(&mut self, now: Nanos, chunk: &Chunk, out: &mut impl FnMut(Segment)) {
        let mut flags = flags::ACK;
        let mut ecn = Ecn::NotEct;
        if chunk.push {
            flags |= flags::PSH;
        }
        if chunk.fin {
            flags |= flags::FIN;
        }
        if self.sender.ecn {
            let new_data = chunk.fresh && chunk.bytes > 0;
            // RFC 3168 §6.1.4 to §6.1.6: new data only
            if new_data || self.all_ect {
                ecn = Ecn::Ect0;
            }
            if new_data && std::mem::take(&mut self.sender.cwr_pending) {
                flags |= flags::CWR;
            }
            if self.receiver.echo {
                flags |= flags::ECE;
            }
        }
        let window = self.receiver.take_window();
        self.receiver.acknowledged();
        out(Segment {
            seq: chunk.seq as u32,
            ack: self.receiver.nxt as u32,
            window,
            payload_bytes: chunk.bytes as u16,
            flags,
            ecn,
            options: self.options(now, chunk.bytes),
        });
    }

    #[inline]
    fn options(&self, now: Nanos, payload_bytes: u32) -> Options {
        let mut options = Options::default();
        if self.timestamps {
            options.timestamps = Some(((now.0 / 1_000_000) as u32, self.receiver.ts_recent));
        }
        if self.sender.sack && !self.receiver.held.is_empty() {
            let blocks = self.receiver.held.blocks();
            let blocks_bytes = SACK_BLOCK_BYTES * blocks.as_slice().len() as u32;
            // a full segment has no room for them
            if payload_bytes + SACK_HEADER_BYTES + blocks_bytes <= self.sender.window.smss_bytes {
                options.sack = blocks;
            }
        }
        options
    }

    pub(crate) fn close(&mut self) {
        self.state = State::Closed;
        self.sender.deadline = None;
        self.receiver.deadline = None;
    }

    /// The handshake is done, and no reset undid it.
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Both directions finished and acknowledged, or reset, or given up.
    pub fn is_closed(&self) -> bool {
        let finished = self.sender.is_finished() && self.receiver.finished;
        self.state == State::Closed || finished
    }

    /// What it shows of itself.
    pub fn info(&self) -> Info {
        let sender = &self.sender;
        Info {
            cwnd_bytes: sender.window.cwnd_bytes,
            ssthresh_bytes: sender.window.ssthresh_bytes,
            send_window_bytes: sender.snd_wnd,
            flight_bytes: sender.flight_bytes(),
            smss_bytes: sender.window.smss_bytes,
            srtt: sender.rto.srtt().unwrap_or(Nanos::ZERO),
            rto: sender.rto.current(),
            alpha_q10: match &sender.law {
                Law::Dctcp(law) => law.alpha_q10(),
                Law::NewReno(_) | Law::Cubic(_) => 0,
            },
            ecn: sender.ecn,
            in_recovery: sender.phase == Phase::Fast,
            in_loss: sender.phase == Phase::Loss,
        }
    }

    /// What it counted.
    pub fn totals(&self) -> &Totals {
        &self.sender.totals
    }
}
