//! The endpoint under test, its virtual clock, and the segments it has sent.

use std::collections::VecDeque;

use uc_net::{Ecn, Nanos};
use uc_tcp::{Config, Connection, Options, SackBlocks, Segment, flags};

use super::parse::Pattern;
use super::settings::Peer;
use super::{OUR_ISS, PEER_ISS, show};

/// The peer's timestamp clock at the scripts' time 0: wraps after 150 ms.
const PEER_CLOCK: u32 = 0u32.wrapping_sub(150);
/// Maximum number of timer calls in a script; more mean a timer that never stops.
const TIMER_CALLS_MOST: u32 = 100_000;

pub struct Endpoint {
    pub connection: Connection,
    pub now: Nanos,
    /// Time 0 of the script.
    pub origin: Nanos,
    /// Segments sent and not yet compared.
    pub sent: VecDeque<(Nanos, Segment)>,
    pub trace: Vec<String>,
    /// ACKs on the way: time of arrival, acknowledgment number, flags.
    pub served: VecDeque<(Nanos, u32, u8)>,
    /// Segments with timestamps, kept to echo them.
    stamped: Vec<Segment>,
    /// This end's timestamp clock at time 0 of the run.
    our_clock: u32,
    echoes: bool,
    peer_next: u32,
    last_ack: u32,
    last_window: u16,
    timer_calls: u32,
}

impl Endpoint {
    pub fn new(config: &Config, server: bool) -> Endpoint {
        let connection = if server {
            Connection::server(config, OUR_ISS)
        } else {
            Connection::client(config, OUR_ISS)
        };
        Endpoint {
            connection,
            now: Nanos::ZERO,
            origin: Nanos::ZERO,
            sent: VecDeque::new(),
            trace: Vec::new(),
            served: VecDeque::new(),
            stamped: Vec::new(),
            our_clock: 0,
            echoes: false,
            peer_next: 0,
            last_ack: 0,
            last_window: u16::MAX,
            timer_calls: 0,
        }
    }

    /// Formats a script time for messages.
    pub fn clock(&self, at: Nanos) -> String {
        if at < self.origin {
            return format!("-{}", self.origin.since(at));
        }
        at.since(self.origin).to_string()
    }

    /// Calls the endpoint and collects the segments that it sends.
    pub fn call(&mut self, act: impl FnOnce(&mut Connection, Nanos, &mut dyn FnMut(Segment))) {
        let (now, mut out) = (self.now, Vec::new());
        act(&mut self.connection, now, &mut |segment| out.push(segment));
        for segment in out {
            if let Some((value, _)) = segment.options.timestamps {
                if self.stamped.is_empty() {
                    self.our_clock = value.wrapping_sub(millis(now));
                }
                self.stamped.push(segment);
            }
            let shown = show(&self.readable(&segment), OUR_ISS, PEER_ISS);
            self.trace
                .push(format!("{:>10}  > {shown}", self.clock(now)));
            self.sent.push_back((now, segment));
        }
    }

    /// Returns the segment with timestamps as the scripts write them: milliseconds of script time.
    pub fn readable(&self, segment: &Segment) -> Segment {
        let mut segment = *segment;
        let zero = self.our_clock.wrapping_add(millis(self.origin));
        if let Some((value, echo)) = &mut segment.options.timestamps {
            *value = value.wrapping_sub(zero);
            *echo = if *echo == 0 {
                0
            } else {
                echo.wrapping_sub(PEER_CLOCK)
            };
        }
        segment
    }

    /// Advances time to `to`, timers at `to` included.
    pub fn advance(&mut self, to: Nanos) -> Result<(), String> {
        if to < self.now {
            return Err(format!(
                "time runs backwards, it is {} already",
                self.clock(self.now)
            ));
        }
        while let Some(deadline) = self
            .connection
            .deadline()
            .filter(|deadline| *deadline <= to)
        {
            self.now = self.now.max(deadline);
            self.timer_calls += 1;
            if self.timer_calls > TIMER_CALLS_MOST {
                return Err(format!("the timer at {deadline} fires forever"));
            }
            self.call(|connection, now, mut out| connection.expire(now, &mut out));
        }
        self.now = to;
        Ok(())
    }

    /// Runs the handshake, of which only the outcome is checked; its end is time 0.
    pub fn handshake(&mut self, peer: &Peer, config: &Config) -> Result<(), String> {
        let mut syn = Pattern {
            flags: flags::SYN,
            times: 1,
            range: Some((0, 0, 0)),
            mss: Some(peer.mss_bytes),
            wscale: Some(peer.wscale),
            sack_permitted: Some(peer.sack),
            window: Some(peer.window),
            ..Pattern::default()
        };
        self.origin = peer.rtt;
        if peer.timestamps {
            syn.timestamps = Some(Some((0u32.wrapping_sub(millis(peer.rtt)), 0)));
        }
        if peer.opens {
            syn.flags |= if peer.ecn { flags::ECE | flags::CWR } else { 0 };
            self.arrives(&syn, 0);
            self.echoes = peer.timestamps && config.timestamps;
            self.advance(peer.rtt)?;
            let ack = Pattern {
                flags: flags::ACK,
                times: 1,
                ..Pattern::default()
            };
            self.arrives(&ack, 1);
        } else {
            self.call(|connection, now, mut out| connection.open(now, &mut out));
            self.advance(peer.rtt)?;
            let syn_sent = self.sent.front().map(|(_, segment)| *segment);
            let stamp = syn_sent.and_then(|segment| segment.options.timestamps);
            self.echoes = peer.timestamps && stamp.is_some();
            syn.flags |= flags::ACK | if peer.ecn { flags::ECE } else { 0 };
            syn.timestamps = None;
            self.arrives(&syn, 1);
        }
        if !self.connection.is_established() {
            return Err(format!("the handshake failed:\n{}", self.trace.join("\n")));
        }
        self.sent.clear();
        Ok(())
    }

    /// Delivers a segment of the peer described by `pattern` that acknowledges `ack`.
    pub fn arrives(&mut self, pattern: &Pattern, ack: u32) {
        let (from, to, size) = pattern.range.unwrap_or((self.peer_next, self.peer_next, 0));
        let mut from = from;
        loop {
            let end = if size == 0 {
                to
            } else {
                to.min(from.wrapping_add(size))
            };
            let segment = self.peer_segment(pattern, from, end, ack);
            let sequence_end = from.wrapping_add(segment.sequence_bytes());
            self.peer_next = self.peer_next.max(sequence_end);
            let shown = show(&self.peer_readable(&segment), PEER_ISS, OUR_ISS);
            self.trace
                .push(format!("{:>10}  < {shown}", self.clock(self.now)));
            self.call(|connection, now, mut out| connection.receive(now, &segment, &mut out));
            from = end;
            if from == to {
                return;
            }
        }
    }

    /// Returns the last ACK number that arrived, the default of a segment that specifies none.
    pub fn last_ack(&self) -> u32 {
        self.last_ack
    }

    fn peer_segment(&mut self, pattern: &Pattern, from: u32, to: u32, ack: u32) -> Segment {
        self.last_ack = ack;
        self.last_window = pattern.window.unwrap_or(self.last_window);
        let mut sack = SackBlocks::default();
        for (from, to) in pattern.sack.iter().flatten() {
            sack.push(OUR_ISS.wrapping_add(*from), OUR_ISS.wrapping_add(*to));
        }
        let has_ack = pattern.flags & flags::ACK != 0;
        Segment {
            seq: PEER_ISS.wrapping_add(from),
            ack: if has_ack {
                OUR_ISS.wrapping_add(ack)
            } else {
                0
            },
            window: self.last_window,
            payload_bytes: to.wrapping_sub(from) as u16,
            flags: pattern.flags,
            ecn: pattern.ecn.unwrap_or(Ecn::NotEct),
            options: Options {
                mss_bytes: pattern.mss.unwrap_or(0),
                wscale: pattern.wscale.flatten(),
                sack_permitted: pattern.sack_permitted.unwrap_or(false),
                timestamps: self.peer_stamp(pattern, ack),
                sack,
            },
        }
    }

    /// Returns the peer's timestamp: as written, or its clock and the echo of the segment that
    /// moved its left edge last (RFC 7323 §4.3).
    fn peer_stamp(&self, pattern: &Pattern, ack: u32) -> Option<(u32, u32)> {
        let zero = self.our_clock.wrapping_add(millis(self.origin));
        match pattern.timestamps {
            Some(None) => None,
            Some(Some((value, echo))) if pattern.flags & flags::ACK == 0 => {
                Some((PEER_CLOCK.wrapping_add(value), echo))
            }
            Some(Some((value, echo))) => {
                Some((PEER_CLOCK.wrapping_add(value), zero.wrapping_add(echo)))
            }
            None if !self.echoes => None,
            None => {
                let last_byte = OUR_ISS.wrapping_add(ack).wrapping_sub(1);
                let covers = |segment: &&Segment| {
                    last_byte.wrapping_sub(segment.seq) < segment.sequence_bytes()
                };
                let echo = self
                    .stamped
                    .iter()
                    .rev()
                    .find(covers)
                    .or(self.stamped.last());
                let echo = echo
                    .and_then(|segment| segment.options.timestamps)
                    .map_or(0, |ts| ts.0);
                let script_ms = millis(self.now).wrapping_sub(millis(self.origin));
                Some((PEER_CLOCK.wrapping_add(script_ms), echo))
            }
        }
    }

    fn peer_readable(&self, segment: &Segment) -> Segment {
        let mut segment = *segment;
        let zero = self.our_clock.wrapping_add(millis(self.origin));
        if let Some((value, echo)) = &mut segment.options.timestamps {
            *value = value.wrapping_sub(PEER_CLOCK);
            *echo = if *echo == 0 {
                0
            } else {
                echo.wrapping_sub(zero)
            };
        }
        segment
    }
}

fn millis(at: Nanos) -> u32 {
    (at.0 / 1_000_000) as u32
}
