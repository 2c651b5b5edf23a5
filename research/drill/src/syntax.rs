//! The tree of a script.

use std::fmt;

use uc_net::{Ecn, Nanos};

/// A position in a script, both numbers from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the line in the script, from 1.
    pub line: u32,
    /// Number of the column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A violation of the grammar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct Error {
    /// Place in the script at which the parser stopped.
    pub place: Place,
    /// The syntax that was expected, and the text found.
    pub why: String,
    /// The feature of other versions of packetdrill that the text belongs to; `None`: a mistake.
    pub lacks: Option<&'static str>,
}

/// A packetdrill script, parsed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// The lines at the script's head that begin with `--`.
    pub flags: Vec<Flag>,
    /// The script's events, in the order of the file.
    pub events: Vec<Event>,
}

impl Script {
    /// Replaces each command that names a shell file, such as `./defaults.sh`, by the content that `read` returns for
    /// the file. If `read` returns `None`, the command stays.
    pub fn include(&mut self, read: impl Fn(&str) -> Option<String>) {
        for event in &mut self.events {
            let Act::Command(command) = &mut event.act else {
                continue;
            };
            let is_file = |line: &str| line.starts_with('.') && line.ends_with(".sh");
            let lines = command.lines().map(str::trim);
            let lines = lines.map(|line| match is_file(line).then(|| read(line)) {
                Some(Some(text)) => text,
                _ => line.to_owned(),
            });
            *command = lines.collect::<Vec<_>>().join("\n");
        }
    }
}

/// A line that sets an option, such as `--ip_version=ipv4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Place in the script at which the line begins.
    pub place: Place,
    /// Name of the option, without its dashes.
    pub name: String,
    /// What follows `=`; empty without one.
    pub value: String,
}

/// One event of a script: a time and an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Place in the script at which the event begins.
    pub place: Place,
    /// The lines `#ifdef` and `#ifndef` around the event: a symbol, and whether the symbol must be defined.
    pub conditions: Vec<(String, bool)>,
    /// Time at which the event happens.
    pub when: When,
    /// What happens: the action of the event.
    pub act: Act,
}

/// A time, from the script's start or from the event before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Whether the time counts from the event before.
    pub relative: bool,
    /// Time between the reference point and the moment.
    pub time: Nanos,
}

/// The time at which an event may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At one moment, within the script's tolerance.
    At(Moment),
    /// At any time, written `*`.
    Any,
    /// Between two moments, written with `~`.
    Between(Moment, Moment),
    /// A call that begins at the first moment and returns at the second (`...`).
    Blocking(Moment, Moment),
}

/// What happens in an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// A packet that arrives at the host.
    Arrives(Packet),
    /// A packet that the host must send.
    Sends(Packet),
    /// A system call, with the result that it must have.
    Calls(Call),
    /// A shell command, between back quotes.
    Command(String),
    /// Assertions about the connection, between `%{` and `}%`.
    Code(String),
}

/// A packet: what the script says of its IP header, and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The ECN codepoint; `None`: not given.
    pub ecn: Option<Ecn>,
    /// Other fields of the IP header, such as `ttl`: names and values.
    pub ip: Vec<(String, u64)>,
    /// Source and destination port of UDP around TCP (RFC 6951's idea, FreeBSD's `udp_tunneling_port`); `None`: plain
    /// TCP.
    pub udp: Option<(u64, u64)>,
    /// The protocol part of the packet.
    pub content: Content,
}

/// The content of a packet in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The packet has a TCP segment.
    Tcp(Tcp),
    /// An ICMP error about a segment.
    Icmp(Icmp),
    /// A UDP datagram with this many bytes.
    Udp(u64),
}

/// A sequence range such as `1:1001(1000)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Sequence number of the first byte; `None` for `...`, any.
    pub from: Option<u32>,
    /// Number of payload bytes.
    pub bytes: u32,
    /// Whether the number is the one on the wire (`!`), not relative to the initial sequence number.
    pub absolute: bool,
}

/// A TCP segment, as the script writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Header flags, a union of the bits in `uc_tcp::flags`.
    pub flags: u8,
    /// Flags that `uc_tcp` does not know, by their letters.
    pub strange_flags: String,
    /// Sequence number and payload length of the segment.
    pub range: Range,
    /// Acknowledgment number; `None`: the script gives none.
    pub ack: Option<u32>,
    /// The window field, unscaled; `None`: the script gives none.
    pub window: Option<u16>,
    /// Urgent pointer; `None`: the script gives none.
    pub urgent: Option<u16>,
    /// The options; `None` for `<...>`, any.
    pub options: Option<Vec<TcpOption>>,
}

/// A TCP option, as the script writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// One byte of padding, `nop` or `eol`.
    Padding,
    /// The option maximum segment size (MSS).
    Mss(u16),
    /// The option window scale.
    WindowScale(u8),
    /// The option SACK permitted.
    SackPermitted,
    /// The option SACK, with its blocks.
    Sack(Vec<(u32, u32)>),
    /// The option timestamps: value and echo.
    Timestamps(u32, u32),
    /// Any option that `uc_tcp` does not know.
    Other(OtherOption),
}

/// A TCP option that only some targets can carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherOption {
    /// The option's kind (RFC 9293 §3.1).
    pub kind: u8,
    /// The bytes after kind and length.
    pub bytes: Vec<u8>,
}

/// An ICMP error, as the script writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// The type of the error, such as `unreachable`.
    pub kind: String,
    /// The code within the type, such as `frag_needed`; may be empty.
    pub code: String,
    /// MTU that the error reports, if it reports one.
    pub mtu: Option<u32>,
    /// Sequence range of the segment that the error quotes, if it quotes one.
    pub quoted: Option<Range>,
}

/// A system call, as the script writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Name of the system call.
    pub name: String,
    /// Arguments of the call, in order.
    pub arguments: Vec<Expression>,
    /// The value that the call must return.
    pub result: Expression,
    /// The name of the error that the call must report; `None`: the script names none.
    pub errno: Option<String>,
}

/// An argument or a result of a system call in a script.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// `...`: any value that the interpreter chooses.
    Any,
    /// A number in the script.
    Number(i64),
    /// A string between double quotes.
    Text(String),
    /// The name of a constant, such as `SOCK_STREAM`.
    Name(String),
    /// Values that are combined by `|`.
    Or(Vec<Expression>),
    /// A list of values between brackets.
    List(Vec<Expression>),
    /// A structure: fields between braces.
    Fields(Vec<Expression>),
    /// A field of a structure and its value.
    Field(String, Box<Expression>),
    /// A call of a function such as `htons(8080)`.
    Function(String, Vec<Expression>),
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, items: &[Expression], between: &str| {
            for (index, item) in items.iter().enumerate() {
                let before = if index == 0 { "" } else { between };
                write!(f, "{before}{item}")?;
            }
            Ok(())
        };
        match self {
            Self::Any => f.write_str("..."),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::Name(name) => f.write_str(name),
            Self::Or(parts) => list(f, parts, "|"),
            Self::List(items) => {
                f.write_str("[")?;
                list(f, items, ", ")?;
                f.write_str("]")
            }
            Self::Fields(items) => {
                f.write_str("{")?;
                list(f, items, ", ")?;
                f.write_str("}")
            }
            Self::Field(name, value) => write!(f, "{name}={value}"),
            Self::Function(name, arguments) => {
                write!(f, "{name}(")?;
                list(f, arguments, ", ")?;
                f.write_str(")")
            }
        }
    }
}
