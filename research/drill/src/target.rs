//! What plays a script: a host that makes system calls, takes packets and sends packets.

use std::collections::BTreeMap;

use uc_net::Nanos;
use uc_tcp::Segment;

use crate::kernel_call::{Argument, KernelCall};
use crate::syntax::{Flag, OtherOption};
use crate::verdict::Stop;

/// A TCP segment with the fields of the IP header that scripts can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The segment, and the ECN codepoint.
    pub segment: Segment,
    /// Time to live, or the hop limit.
    pub hops: u8,
    /// Type of service, or the traffic class, without the ECN codepoint: its upper six bits.
    pub class: u8,
    /// The urgent pointer, if the flag URG is set.
    pub urgent: Option<u16>,
    /// Options that `uc_tcp` does not know.
    pub others: Vec<OtherOption>,
}

/// An ICMP error that arrives at the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The type, such as `unreachable`.
    pub kind: String,
    /// The code, such as `host_unreachable`; may be empty.
    pub code: String,
    /// The MTU that it reports.
    pub mtu: Option<u32>,
    /// Sequence number of the segment that it quotes.
    pub seq: u32,
}

/// An option of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// The pending error (`SO_ERROR`).
    Error,
    /// The receive buffer in bytes (`SO_RCVBUF`).
    ReceiveBuffer,
    /// Whether an address may be bound again (`SO_REUSEADDR`).
    ReuseAddress,
    /// Whether small segments may leave while data is in flight (`TCP_NODELAY`).
    NoDelay,
    /// The maximum segment size (`TCP_MAXSEG`).
    MaxSegment,
    /// The time to live or hop limit (`IP_TTL`, `IPV6_UNICAST_HOPS`).
    Hops,
    /// The type of service or traffic class (`IP_TOS`, `IPV6_TCLASS`).
    Class,
    /// The limit of connection setup in seconds (`TCP_KEEPINIT`).
    SetupLimit,
}

/// A system call with the target's own file descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemCall {
    /// `socket`, of TCP; true: calls do not block.
    Socket(bool),
    /// `bind` to the script's local port.
    Bind(i64),
    /// `listen`.
    Listen(i64),
    /// `accept`.
    Accept(i64),
    /// `connect` to the script's peer.
    Connect(i64),
    /// `read` and `recv`.
    Receive {
        /// The file descriptor.
        fd: i64,
        /// Size of the caller's buffer.
        bytes: u32,
        /// Whether the data stay in the socket's buffer.
        peek: bool,
    },
    /// `write`, `send` and `sendto`.
    Send {
        /// The file descriptor.
        fd: i64,
        /// Bytes to send.
        bytes: u32,
    },
    /// `close`.
    Close(i64),
    /// `shutdown` of a socket's sending side; true: also of its receiving side.
    Shutdown(i64, bool),
    /// `setsockopt` to a number.
    SetOption(i64, SocketOption, i64),
    /// `getsockopt`.
    GetOption(i64, SocketOption),
    /// `fcntl` with `F_GETFL`.
    Flags(i64),
    /// `fcntl` with `F_SETFL`; true: calls do not block.
    SetFlags(i64, bool),
}

/// What a system call returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The result, −1 after an error.
    pub result: i64,
    /// The error's number in Linux; 0 without one.
    pub errno: i64,
    /// The value that `getsockopt` yields.
    pub value: Option<i64>,
    /// The arguments of a [`KernelCall`] after it.
    pub after: Vec<Argument>,
}

impl Answer {
    /// Makes the answer of a call that succeeds.
    pub fn returns(result: i64) -> Answer {
        Answer {
            result,
            errno: 0,
            value: None,
            after: Vec::new(),
        }
    }

    /// Makes the answer of a call that fails.
    pub fn fails(errno: i64) -> Answer {
        Answer {
            result: -1,
            errno,
            value: None,
            after: Vec::new(),
        }
    }

    /// Makes the answer of `getsockopt`.
    pub fn yields(value: i64) -> Answer {
        Answer {
            result: 0,
            errno: 0,
            value: Some(value),
            after: Vec::new(),
        }
    }
}

/// The fields of `struct tcp_info` that a target knows, by their names without `tcpi_`.
pub type TcpInfo = BTreeMap<&'static str, i64>;

/// A host that plays scripts.
pub trait Target {
    /// Prepares the host for the flags at a script's head.
    ///
    /// # Errors
    ///
    /// `Stop::Lacks` for a flag that the target does not know.
    fn begin(&mut self, flags: &[Flag]) -> Result<(), Stop>;

    /// Returns the smallest tolerance by which a segment's time may differ from the script's here,
    /// whatever tolerance the script asks for.
    fn least_tolerance(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Returns whether something on the path edits ECN: the ECN codepoint, ECE and CWR of what the
    /// host sends are not compared then.
    fn edits_ecn(&self) -> bool {
        false
    }

    /// Returns whether the target is a kernel, which carries any TCP option and urgent data, and makes
    /// calls that [`SystemCall`] lacks.
    fn is_kernel(&self) -> bool {
        false
    }

    /// Makes a call that only a kernel makes, as [`Target::call`].
    fn call_kernel(&mut self, _call: KernelCall) -> Option<Answer> {
        None
    }

    /// Returns whether `#ifdef SYMBOL` holds.
    fn defines(&self, symbol: &str) -> bool;

    /// Lets the host run until `to`, timers at `to` included.
    fn advance(&mut self, to: Nanos);

    /// Returns the next segment that the host has sent, and when; waits for it until `until`.
    fn next_sent(&mut self, until: Nanos) -> Option<(Nanos, Datagram)>;

    /// Makes a segment arrive at the host.
    ///
    /// # Errors
    ///
    /// `Stop::Lacks` for what the target cannot deliver.
    fn arrive(&mut self, datagram: &Datagram) -> Result<(), Stop>;

    /// Makes an ICMP error arrive at the host.
    ///
    /// # Errors
    ///
    /// `Stop::Lacks` for an error that the target does not know.
    fn report(&mut self, report: &Report) -> Result<(), Stop>;

    /// Makes a system call; `None`: it blocks, and `completed` will have its answer. `blocks`: the
    /// script expects that.
    fn call(&mut self, call: SystemCall, blocks: bool) -> Option<Answer>;

    /// Returns when the call that blocked returned, and its answer.
    fn completed(&mut self) -> Option<(Nanos, Answer)>;

    /// Runs a shell command.
    ///
    /// # Errors
    ///
    /// `Stop::Lacks` for a command or setting that has no meaning on the target, `Stop::Differs` if
    /// it fails.
    fn command(&mut self, command: &str) -> Result<(), Stop>;

    /// Returns what `getsockopt(fd, IPPROTO_TCP, TCP_INFO)` reports of a socket.
    fn info(&mut self, fd: i64) -> Option<TcpInfo>;
}
