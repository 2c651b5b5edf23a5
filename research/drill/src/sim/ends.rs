//! The connections of a simulated host.

use uc_net::Nanos;
use uc_tcp::{Connection, Segment, Stage, flags, reset_for};

use crate::constants::known;

/// Length of TIME-WAIT, twice the maximum segment lifetime (RFC 9293 §3.4.2; 30 s as in Linux).
const TIME_WAIT: Nanos = Nanos::from_secs(60);

/// One connection of the host, as its sockets and its peer know it.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) connection: Connection,
    /// Number of the connection's peer, from 0.
    pub(crate) peer: u32,
    /// File descriptor of the socket that listened for the connection; `None` for a connection that the host opened,
    /// and after `accept`.
    pub(crate) listener: Option<i64>,
    /// Whether a socket refers to the connection.
    pub(crate) has_socket: bool,
    /// The pending error of the socket; 0: none.
    pub(crate) error: i64,
    /// Time to live, or hop limit, of the connection's packets.
    pub(crate) hops: u8,
    /// Type of service, or traffic class, of the connection's packets.
    pub(crate) class: u8,
    /// Time at which the state TIME-WAIT ends; `None` in other states.
    ends_at: Option<Nanos>,
    /// Time at which an unfinished connection setup fails; `None`: setup is complete or has no limit.
    pub(crate) setup_until: Option<Nanos>,
}

impl End {
    pub(crate) fn new(connection: Connection, peer: u32, hops: u8, class: u8) -> End {
        End {
            connection,
            peer,
            listener: None,
            has_socket: false,
            error: 0,
            hops,
            class,
            ends_at: None,
            setup_until: None,
        }
    }

    /// Returns whether nothing refers to the connection any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.connection.stage() == Stage::Closed && !self.has_socket
    }

    /// Returns whether segments from this peer belong to the connection.
    pub(crate) fn is_reachable(&self, peer: u32) -> bool {
        self.peer == peer && self.connection.stage() != Stage::Closed
    }

    /// Returns when the connection's next timer fires; `None`: none runs.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        let timers = [self.connection.deadline(), self.ends_at, self.setup_until];
        timers.into_iter().flatten().min()
    }

    /// Runs the timers due at `now`.
    pub(crate) fn expire(&mut self, now: Nanos, out: &mut impl FnMut(Segment)) {
        let due = |at: Option<Nanos>| at.is_some_and(|at| at <= now);
        if due(self.ends_at) {
            self.ends_at = None;
            self.connection.abort(&mut |_| {});
            return;
        }
        let before = self.connection.stage();
        if due(self.setup_until) {
            self.setup_until = None;
            self.connection.abort(&mut |_| {});
        } else {
            self.connection.expire(now, out);
        }
        if before != Stage::Closed && self.connection.stage() == Stage::Closed {
            self.error = known("ETIMEDOUT");
        }
        self.settle(now);
    }

    /// Processes a segment that arrived at this end.
    pub(crate) fn receive(&mut self, now: Nanos, segment: &Segment, out: &mut impl FnMut(Segment)) {
        let before = self.connection.stage();
        // A reset does not shorten TIME-WAIT (RFC 1337 §3).
        if before == Stage::TimeWait && segment.has(flags::RST) {
            return;
        }
        // Data that no program can read reset the connection (RFC 9293 §3.6.1).
        let is_orphan = !self.has_socket && self.listener.is_none();
        let is_closing = matches!(before, Stage::FinWait1 | Stage::FinWait2);
        if is_orphan && is_closing && segment.payload_bytes > 0 && !segment.has(flags::RST) {
            self.connection.abort(&mut |_| {});
            out(reset_for(segment));
            return;
        }
        self.connection.receive(now, segment, out);
        let is_dead = !self.connection.is_established();
        if before != Stage::Closed && is_dead && self.connection.stage() == Stage::Closed {
            self.error = match before {
                Stage::SynSent => known("ECONNREFUSED"),
                // The host has opened it, too (RFC 9293 §3.10.7.4).
                Stage::SynReceived if self.has_socket => known("ECONNREFUSED"),
                _ => known("ECONNRESET"),
            };
        }
        self.settle(now);
    }

    /// Starts and stops the timers that depend on the state.
    pub(crate) fn settle(&mut self, now: Nanos) {
        let stage = self.connection.stage();
        match stage {
            Stage::TimeWait if self.ends_at.is_none() => self.ends_at = Some(now + TIME_WAIT),
            Stage::TimeWait => {}
            _ => self.ends_at = None,
        }
        if !matches!(stage, Stage::SynSent | Stage::SynReceived) {
            self.setup_until = None;
        }
    }
}
