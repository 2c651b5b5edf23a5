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
    /// Type of the ICMP error, such as `unreachable`.
    pub kind: String,
    /// The code, such as `host_unreachable`; may be empty.
    pub code: String,
    /// MTU that the ICMP error reports, if it reports one.
    pub mtu: Option<u32>,
    /// Sequence number of the segment that the ICMP error quotes.
    pub seq: u32,
}

/// An option of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// The socket's pending error (`SO_ERROR`).
    Error,
    /// The receive buffer in bytes (`SO_RCVBUF`).
    ReceiveBuffer,
    /// Whether an address may be bound again (`SO_REUSEADDR`).
    ReuseAddress,
    /// Whether small segments may leave while data is in flight (`TCP_NODELAY`).
    NoDelay,
    /// The socket's maximum segment size (`TCP_MAXSEG`).
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
    /// `listen` on this file descriptor.
    Listen(i64),
    /// `accept` on this file descriptor.
    Accept(i64),
    /// `connect` of this file descriptor to the script's peer.
    Connect(i64),
    /// `read` or `recv` on a file descriptor.
    Receive {
        /// File descriptor of the socket.
        fd: i64,
        /// Size of the caller's buffer, in bytes.
        bytes: u32,
        /// Whether the data stay in the socket's buffer.
        peek: bool,
    },
    /// `write`, `send` or `sendto` on a file descriptor.
    Send {
        /// File descriptor of the socket.
        fd: i64,
        /// Number of bytes to send.
        bytes: u32,
    },
    /// `close` of this file descriptor.
    Close(i64),
    /// `shutdown` of a socket's sending side; true: also of its receiving side.
    Shutdown(i64, bool),
    /// `setsockopt` of a file descriptor: sets an option to a number.
    SetOption(i64, SocketOption, i64),
    /// `getsockopt` of a file descriptor.
    GetOption(i64, SocketOption),
    /// `fcntl` of a file descriptor with `F_GETFL`.
    Flags(i64),
    /// `fcntl` with `F_SETFL`; true: calls do not block.
    SetFlags(i64, bool),
}

/// The result of a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The result, −1 after an error.
    pub result: i64,
    /// The error's number in Linux; 0 without an error.
    pub errno: i64,
    /// Value that `getsockopt` returns through its pointer; `None` after other calls.
    pub value: Option<i64>,
    /// The arguments of a [`KernelCall`] after the call, with what the kernel wrote; empty after a [`SystemCall`].
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

    /// Makes the answer of a `getsockopt` that returns this value.
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

/// A host whose TCP is tested by scripts.
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

    /// Returns how long the script's clock has stood still since the script began, because this process was late: so far
    /// the host's timestamps may be ahead.
    fn stood_still(&self) -> Nanos {
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

    /// Makes a call that only a kernel makes; answers or blocks as [`Target::call`].
    fn call_kernel(&mut self, _call: KernelCall) -> Option<Answer> {
        None
    }

    /// Returns whether scripts see this symbol as defined (`#ifdef SYMBOL`).
    fn defines(&self, symbol: &str) -> bool;

    /// Lets the host run until `to`, timers at `to` included.
    fn advance(&mut self, to: Nanos);

    /// Returns the next segment that the host has sent, and when. Waits for a segment until `until`; `None`: none came.
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

    /// Makes a system call. Returns `None` if the call blocks: [`Target::completed`] will have its answer. `blocks`:
    /// the script expects the call to block.
    fn call(&mut self, call: SystemCall, blocks: bool) -> Option<Answer>;

    /// Returns when the blocked call returned, and its answer, once; `None` while it blocks.
    fn completed(&mut self) -> Option<(Nanos, Answer)>;

    /// Runs a shell command.
    ///
    /// # Errors
    ///
    /// `Stop::Lacks` for a command or setting that has no meaning on the target, `Stop::Differs` if
    /// it fails.
    fn command(&mut self, command: &str) -> Result<(), Stop>;

    /// Returns what `getsockopt(fd, IPPROTO_TCP, TCP_INFO)` reports of a socket; `None` without such a socket.
    fn info(&mut self, fd: i64) -> Option<TcpInfo>;
}
