//! One end of one connection.

use uc_net::{Ecn, Nanos};

use crate::coalescing::Coalescer;
use crate::config::{Config, CongestionControl};
use crate::info::{Info, Totals};
use crate::outlet::Outlet;
use crate::overruled::Overruled;
use crate::receiver::Receiver;
use crate::segment::{Options, Segment, flags};
use crate::sender::{Phase, Sender};
use crate::seq;

/// The states of RFC 9293 §3.3.2, without those that only distinguish which side closed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    Listen,
    SynSent,
    SynReceived,
    /// ESTABLISHED and every later state, until both directions are finished.
    Established,
    /// The connection was reset, or given up after timeouts.
    Closed,
}

/// One end of one connection, both directions.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) state: State,
    /// Whether both ends use timestamps (RFC 7323 §3.2).
    pub(crate) timestamps: bool,
    /// Whether both ends scale windows (RFC 7323 §2.2).
    pub(crate) scaling: bool,
    pub(crate) peer_wscale: u8,
    pub(crate) syn_lost: bool,
    /// Whether the peer's FIN came before this end's left.
    pub(crate) closed_last: bool,
    pub(crate) peer_mss_bytes: u16,
    pub(crate) syn_sent_at: Nanos,
    /// Whether every segment is ECN-capable, as with DCTCP in Linux (RFC 8311 §4.3 allows it).
    pub(crate) all_ect: bool,
    pub(crate) config: Box<Config>,
    /// Segments that wait for others to become one; `None`: the host merges none.
    pub(crate) coalescer: Option<Box<Coalescer>>,
    /// State of a connection whose window a coupled group sets; `None`: the connection's own congestion control sets
    /// the window.
    pub(crate) overruled: Option<Box<Overruled>>,
}

impl Connection {
    /// Creates the end that will send the SYN, in [`Connection::open`].
    pub fn client(config: &Config, iss: u32) -> Connection {
        Connection::new(config, iss, State::Idle)
    }

    /// Creates the end that waits for a SYN.
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
            closed_last: false,
            peer_mss_bytes: config.mss_bytes,
            syn_sent_at: Nanos::ZERO,
            all_ect: matches!(config.congestion_control, CongestionControl::Dctcp { .. }),
            config: Box::new(config.clone()),
            coalescer: config
                .coalescing
                .map(|policy| Box::new(Coalescer::new(policy))),
            overruled: None,
        }
    }

    /// Queues `bytes` of application data (u64::MAX: never runs dry) and sends what may go.
    pub fn write(&mut self, now: Nanos, bytes: u64, out: &mut impl FnMut(Segment)) {
        self.sender.write(bytes);
        self.flush(now, out);
    }

    /// Ends the application's data: a FIN follows the last byte.
    pub fn finish(&mut self, now: Nanos, out: &mut impl FnMut(Segment)) {
        self.sender.finishing = true;
        self.flush(now, out);
    }

    /// Discards the data not sent yet, and ends the data (FIN).
    pub fn stop(&mut self, now: Nanos, out: &mut impl FnMut(Segment)) {
        // In these states the SYN, which precedes the data, has not been sent.
        let is_silent = matches!(self.state, State::Idle | State::Listen);
        self.sender.take_back(u64::from(is_silent));
        self.finish(now, out);
    }

    /// Sets whether the application reads data on arrival (the default) or lets the buffer fill.
    pub fn set_reading(&mut self, now: Nanos, reading: bool, out: &mut impl FnMut(Segment)) {
        let taken = self.receiver.set_reading(reading);
        self.sender.totals.delivered_bytes += u64::from(taken);
        self.flush(now, out);
    }

    /// Reads up to `bytes` of the data that have arrived in order, if the application does not read
    /// on arrival ([`Connection::set_reading`]). Returns how many it read.
    pub fn read(&mut self, now: Nanos, bytes: u32, out: &mut impl FnMut(Segment)) -> u32 {
        let taken = self.receiver.read(bytes);
        self.sender.totals.delivered_bytes += u64::from(taken);
        self.flush(now, out);
        taken
    }

    /// Returns the bytes in order that the application can read.
    pub fn readable_bytes(&self) -> u32 {
        self.receiver.unread_bytes()
    }

    /// Returns SND.UNA as on the wire, the sequence number that an ICMP error may quote.
    pub fn first_unacknowledged(&self) -> u32 {
        self.sender.una as u32
    }

    /// Returns the receive buffer in bytes, after rounding.
    pub fn receive_buffer_bytes(&self) -> u32 {
        self.receiver.buffer_bytes()
    }

    /// Ends the connection. Sends a reset (RFC 9293 §3.10.5) if the peer knows of the connection.
    pub fn abort(&mut self, out: &mut impl Outlet) {
        if matches!(self.state, State::SynReceived | State::Established) {
            out.send(Segment {
                seq: self.sender.max as u32,
                ack: self.receiver.nxt as u32,
                window: 0,
                payload_bytes: 0,
                flags: flags::RST | flags::ACK,
                ecn: Ecn::NotEct,
                options: Options::default(),
            });
        }
        self.close();
    }

    /// Processes a segment that arrived at this end.
    #[inline(always)]
    pub fn receive(&mut self, now: Nanos, segment: &Segment, out: &mut impl Outlet) {
        // Asked first: nearly every segment finds this state.
        if self.state == State::Established {
            if self.coalescer.is_some() {
                return self.coalesce(now, segment, out);
            }
            return self.receive_established(now, segment, out);
        }
        match self.state {
            State::SynReceived => self.receive_last_ack(now, segment, out),
            State::SynSent => self.receive_syn_ack(now, segment, out),
            State::Listen => self.receive_syn(now, segment, out),
            State::Idle | State::Closed | State::Established => {}
        }
    }

    /// Runs the timers due at `now`; called when `deadline` has come or is past.
    pub fn expire(&mut self, now: Nanos, out: &mut impl FnMut(Segment)) {
        self.expire_due(now, now, out);
    }

    /// Runs the timers due at `due` or before, at the time `now`: for a host whose clock shows
    /// `due` at `now`.
    pub fn expire_due(&mut self, due: Nanos, now: Nanos, out: &mut impl FnMut(Segment)) {
        let is_due = |deadline: Option<Nanos>| deadline.is_some_and(|deadline| deadline <= due);
        if is_due(self.coalescing_deadline()) {
            self.release(now, out);
        }
        if is_due(self.receiver.deadline) {
            self.receiver.expire();
        }
        if is_due(self.sender.deadline) {
            match self.state {
                State::SynSent | State::SynReceived => self.syn_timeout(now, out),
                _ => self.sender.expire(now),
            }
            if self.sender.is_out_of_patience(now) {
                self.close();
            }
        }
        self.flush(now, out);
    }

    /// Returns the time at which [`Connection::expire`] is next to be called; `None` while no timer
    /// runs.
    #[inline]
    pub fn deadline(&self) -> Option<Nanos> {
        let deadline = match (self.sender.deadline, self.receiver.deadline) {
            (Some(sender), Some(receiver)) => Some(sender.min(receiver)),
            (deadline, None) | (None, deadline) => deadline,
        };
        match self.coalescing_deadline() {
            Some(merging) => Some(deadline.map_or(merging, |deadline| deadline.min(merging))),
            None => deadline,
        }
    }

    #[inline]
    fn coalescing_deadline(&self) -> Option<Nanos> {
        self.coalescer.as_ref()?.deadline()
    }

    pub(crate) fn close(&mut self) {
        self.state = State::Closed;
        self.sender.deadline = None;
        self.receiver.deadline = None;
        self.coalescer = None;
    }

    /// Returns whether the handshake is complete and no reset has followed.
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Returns whether both directions are finished and acknowledged, or the connection was reset
    /// or given up.
    pub fn is_closed(&self) -> bool {
        let finished = self.sender.is_finished() && self.receiver.finished;
        self.state == State::Closed || finished
    }

    /// Returns the connection's current state.
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
            alpha_q10: sender.law.alpha_q10(),
            ecn: sender.ecn,
            in_recovery: sender.phase == Phase::Fast,
            in_loss: sender.phase == Phase::Loss,
        }
    }

    /// Returns the counters of this end of the connection.
    pub fn totals(&self) -> &Totals {
        &self.sender.totals
    }
}
