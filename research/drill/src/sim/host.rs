//! The simulated host: its clock, what arrives and what it sends.

use std::collections::{BTreeMap, VecDeque};

use uc_net::Nanos;
use uc_tcp::{Connection, Segment, Stage, flags, reset_for};

use crate::constants::known;
use crate::sim::ends::End;
use crate::sim::settings::Settings;
use crate::sim::sockets::{Role, Socket, Sockets};
use crate::syntax::Flag;
use crate::target::{Answer, Datagram, Report, SystemCall, Target, TcpInfo};
use crate::verdict::Stop;

/// Time to live of packets that the host sends for no socket.
const HOPS: u8 = 64;
/// Distance between the initial sequence numbers of successive connections. An odd distance repeats a number only after
/// 2^32 connections.
const ISS_STEP: u32 = 0x3c6e_f35f;
/// Time of the host's clock when the script's begins: not 0, so that timestamps and estimates do not begin at 0.
const BOOT: Nanos = Nanos::from_secs(1000);

/// A simulated host with sockets, which scripts drive.
#[derive(Debug)]
pub struct Host {
    /// Time on the clock of the script.
    pub(crate) now: Nanos,
    pub(crate) settings: Settings,
    pub(crate) sockets: Sockets,
    /// Connections by number, the newest last.
    pub(crate) ends: BTreeMap<usize, End>,
    next_end: usize,
    /// Number of the peer from which arriving segments come.
    pub(crate) peer: u32,
    sent: VecDeque<(Nanos, Datagram)>,
    waiting: Option<SystemCall>,
    completed: Option<(Nanos, Answer)>,
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

impl Host {
    /// Creates a host without sockets, with the settings of the RFCs.
    pub fn new() -> Host {
        Host {
            now: Nanos::ZERO,
            settings: Settings::new(),
            sockets: Sockets::default(),
            ends: BTreeMap::new(),
            next_end: 0,
            peer: 0,
            sent: VecDeque::new(),
            waiting: None,
            completed: None,
        }
    }

    /// Returns an unused initial sequence number.
    pub(crate) fn iss(&self) -> u32 {
        (self.next_end as u32 + 1).wrapping_mul(ISS_STEP)
    }

    /// Adds a connection and returns its number.
    pub(crate) fn add(&mut self, end: End) -> usize {
        self.next_end += 1;
        self.ends.insert(self.next_end, end);
        self.next_end
    }

    /// Calls `act` on a connection, and sends the segments that `act` produces. Returns its result; `None` without such
    /// a connection.
    pub(crate) fn act<R>(
        &mut self,
        id: usize,
        act: impl FnOnce(&mut End, Nanos, &mut dyn FnMut(Segment)) -> R,
    ) -> Option<R> {
        let end = self.ends.get_mut(&id)?;
        let mut segments = Vec::new();
        let result = act(end, BOOT + self.now, &mut |segment| segments.push(segment));
        end.settle(BOOT + self.now);
        let (hops, class) = (end.hops, end.class);
        for segment in segments {
            self.send(segment, hops, class);
        }
        self.ends.retain(|_, end| !end.is_gone());
        Some(result)
    }

    fn send(&mut self, segment: Segment, hops: u8, class: u8) {
        let datagram = Datagram {
            segment,
            hops,
            class,
            urgent: None,
            others: Vec::new(),
        };
        self.sent.push_back((self.now, datagram));
    }

    /// Returns the number of the newest connection with the present peer that is not closed; `None`: there is none.
    pub(crate) fn current(&self) -> Option<usize> {
        let mut ends = self.ends.iter().rev();
        let found = ends.find(|(_, end)| end.is_reachable(self.peer));
        found.map(|(id, _)| *id)
    }

    fn take(&mut self, segment: &Segment) {
        let current = self.current();
        let is_opening = current.is_none_or(|id| {
            let stage = self.ends[&id].connection.stage();
            matches!(stage, Stage::SynSent | Stage::SynReceived)
        });
        let is_both = segment.has(flags::SYN) && segment.has(flags::FIN);
        if is_both && is_opening && self.settings.drops_syn_fin {
            return;
        }
        if let Some(id) = current {
            self.act(id, |end, now, mut out| end.receive(now, segment, &mut out));
            return;
        }
        let Some((listener, socket)) = self.sockets.listener() else {
            if !segment.has(flags::RST) {
                let bound = self.sockets.bound();
                let (hops, class) = bound.map_or((HOPS, 0), |socket| (socket.hops, socket.class));
                self.send(reset_for(segment), hops, class);
            }
            return;
        };
        // RFC 9293 §3.10.7.2
        if segment.has(flags::RST) {
            return;
        }
        if segment.has(flags::ACK) {
            let (hops, class) = (socket.hops, socket.class);
            self.send(reset_for(segment), hops, class);
            return;
        }
        if segment.has(flags::SYN) {
            let (connection, hops, class) = self.server(socket);
            let mut end = End::new(connection, self.peer, hops, class);
            end.listener = Some(listener);
            let id = self.add(end);
            self.act(id, |end, now, mut out| end.receive(now, segment, &mut out));
        }
    }

    fn server(&self, socket: &Socket) -> (Connection, u8, u8) {
        let config = self.config(socket);
        let mut connection = Connection::server(&config, self.iss());
        connection.set_reading(BOOT + self.now, false, &mut |_| {});
        (connection, socket.hops, socket.class)
    }

    /// Returns the settings of a socket's connection.
    pub(crate) fn config(&self, socket: &Socket) -> uc_tcp::Config {
        let mut config = self.settings.config.clone();
        if let Some(bytes) = socket.receive_buffer_bytes {
            config.receive_buffer_bytes = bytes;
        }
        config.mss_bytes = socket.mss_bytes.unwrap_or(config.mss_bytes);
        config.nagle &= !socket.has_no_delay;
        config
    }

    /// Runs timers up to `to`; if `stops`, only until a segment waits to be taken.
    fn run(&mut self, to: Nanos, stops: bool) {
        loop {
            self.retry();
            if stops && !self.sent.is_empty() {
                return;
            }
            let due = self
                .ends
                .iter()
                .filter_map(|(id, end)| end.deadline().map(|at| (at, *id)))
                .min()
                .filter(|(at, _)| *at <= BOOT + to);
            let Some((at, id)) = due else {
                self.now = self.now.max(to);
                return;
            };
            self.now = self.now.max(at.since(BOOT));
            self.act(id, |end, now, mut out| end.expire(now, &mut out));
        }
    }

    /// Tries the blocked call again, if there is one, and stores its answer if it returns.
    fn retry(&mut self) {
        if let Some(call) = self.waiting
            && let Some(answer) = self.attempt(call, true)
        {
            self.waiting = None;
            self.completed = Some((self.now, answer));
        }
    }
}

impl Target for Host {
    fn begin(&mut self, flags: &[Flag]) -> Result<(), Stop> {
        flags
            .iter()
            .try_for_each(|flag| self.settings.take_flag(flag))
    }

    fn defines(&self, symbol: &str) -> bool {
        symbol == "STANDARD"
    }

    fn advance(&mut self, to: Nanos) {
        self.run(to, false);
    }

    fn next_sent(&mut self, until: Nanos) -> Option<(Nanos, Datagram)> {
        self.run(until, true);
        self.sent.pop_front()
    }

    fn arrive(&mut self, datagram: &Datagram) -> Result<(), Stop> {
        self.take(&datagram.segment);
        self.retry();
        Ok(())
    }

    fn report(&mut self, report: &Report) -> Result<(), Stop> {
        let Some(id) = self.current() else {
            return Ok(());
        };
        let is_obeyed = self.settings.obeys_icmp;
        let error = icmp_error(report);
        let error = error.ok_or_else(|| {
            let Report { kind, code, .. } = report;
            Stop::Lacks(format!("the ICMP error {kind} {code} is not supported"))
        })?;
        self.act(id, |end, _, mut out| {
            // Only the SYN can be quoted, and only errors of the path count (RFC 5927 §4).
            let quotes_syn = end.connection.stage() == Stage::SynSent
                && end.connection.first_unacknowledged() == report.seq;
            if is_obeyed && quotes_syn && error != 0 {
                end.connection.abort(&mut out);
                end.error = error;
            }
        });
        Ok(())
    }

    fn call(&mut self, call: SystemCall, _blocks: bool) -> Option<Answer> {
        let answer = self.attempt(call, false);
        if answer.is_none() {
            self.waiting = Some(call);
        }
        answer
    }

    fn completed(&mut self) -> Option<(Nanos, Answer)> {
        self.completed.take()
    }

    fn command(&mut self, command: &str) -> Result<(), Stop> {
        self.run_command(command)
    }

    fn info(&mut self, fd: i64) -> Option<TcpInfo> {
        let socket = self.sockets.get(fd)?;
        let state = |name| TcpInfo::from([("state", known(name))]);
        Some(match socket.role {
            Role::Fresh => state("TCP_CLOSE"),
            Role::Listens => state("TCP_LISTEN"),
            Role::Connected(id) => {
                let end = self.ends.get(&id)?;
                let info = end.connection.info();
                let segments = |bytes: u32| i64::from(bytes / info.smss_bytes.max(1));
                let mut fields = state(state_name(end.connection.stage()));
                fields.insert("snd_cwnd", segments(info.cwnd_bytes));
                fields.insert("snd_ssthresh", segments(info.ssthresh_bytes));
                fields
            }
        })
    }
}

/// Returns Linux's name of a state.
pub(crate) fn state_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Closed => "TCP_CLOSE",
        Stage::Listen => "TCP_LISTEN",
        Stage::SynSent => "TCP_SYN_SENT",
        Stage::SynReceived => "TCP_SYN_RECV",
        Stage::Established => "TCP_ESTABLISHED",
        Stage::FinWait1 => "TCP_FIN_WAIT1",
        Stage::FinWait2 => "TCP_FIN_WAIT2",
        Stage::CloseWait => "TCP_CLOSE_WAIT",
        Stage::Closing => "TCP_CLOSING",
        Stage::LastAck => "TCP_LAST_ACK",
        Stage::TimeWait => "TCP_TIME_WAIT",
    }
}

/// Returns the number of the error that a socket gets if an ICMP error quotes its SYN. 0: the error is soft and may
/// pass (RFC 9293 §3.9.2.2, RFC 5461); `None`: the host does not know it.
fn icmp_error(report: &Report) -> Option<i64> {
    Some(match (report.kind.as_str(), report.code.as_str()) {
        ("unreachable", "port_unreachable" | "protocol_unreachable" | "packet_filtered")
        | ("parameter_problem", "unknown_next_header") => known("ECONNREFUSED"),
        ("unreachable", code) if code.ends_with("prohibited") => known("ECONNREFUSED"),
        ("time_exceeded", "ttl_exceeded_in_transit" | "exceeded_hop_limit") => {
            known("EHOSTUNREACH")
        }
        (
            "unreachable" | "time_exceeded" | "parameter_problem" | "source_quench" | "redirect"
            | "packet_too_big",
            _,
        ) => 0,
        _ => return None,
    })
}
