//! The tree of a script.

use std::fmt;

use uc_net::{Ecn, Nanos};

/// A position in a script, both numbers from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line of the file.
    pub line: u32,
    /// Column, counted in characters.
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
    /// Where the reader stopped.
    pub place: Place,
    /// The syntax that was expected, and the text found.
    pub why: String,
    /// The feature of other versions of packetdrill that the text belongs to; `None`: a mistake.
    pub lacks: Option<&'static str>,
}

/// A whole script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// The lines at its head that begin with `--`.
    pub flags: Vec<Flag>,
    /// The script's events, in the order of the file.
    pub events: Vec<Event>,
}

impl Script {
    /// Replaces each command that names a shell file, such as `./defaults.sh`, by what `read` finds in
    /// it. A file that it does not find stays named.
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

/// A line such as `--ip_version=ipv4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Where the line begins.
    pub place: Place,
    /// The name without its dashes.
    pub name: String,
    /// What follows `=`; empty without one.
    pub value: String,
}

/// One step of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Where the step begins.
    pub place: Place,
    /// The lines `#ifdef` and `#ifndef` around it: a symbol, and whether it must be defined.
    pub conditions: Vec<(String, bool)>,
    /// When it happens.
    pub when: When,
    /// The action of the event.
    pub act: Act,
}

/// A time, from the script's start or from the event before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Whether the time counts from the event before.
    pub relative: bool,
    /// The distance from there.
    pub time: Nanos,
}

/// The time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At one moment, within the script's tolerance.
    At(Moment),
    /// At any time (`*`).
    Any,
    /// Between two moments (`~`).
    Between(Moment, Moment),
    /// A call that begins at the first moment and returns at the second (`...`).
    Blocking(Moment, Moment),
}

/// The action of an event.
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
    /// Other fields of the IP header, such as `ttl`, with their value.
    pub ip: Vec<(String, u64)>,
    /// The ports of UDP around TCP (RFC 6951's idea, FreeBSD's `udp_tunneling_port`).
    pub udp: Option<(u64, u64)>,
    /// The protocol part of the packet.
    pub content: Content,
}

/// The content of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A TCP segment.
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
    /// Bytes of payload.
    pub bytes: u32,
    /// Whether the number is the wire's own (`!`), not relative to the initial sequence number.
    pub absolute: bool,
}

/// A TCP segment as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Header flags, a union of the bits in `uc_tcp::flags`.
    pub flags: u8,
    /// Flags that `uc_tcp` does not know, by their letters.
    pub strange_flags: String,
    /// Sequence number and payload.
    pub range: Range,
    /// The acknowledgment number, if given.
    pub ack: Option<u32>,
    /// The window field, unscaled.
    pub window: Option<u16>,
    /// The urgent pointer.
    pub urgent: Option<u16>,
    /// The options; `None` for `<...>`, any.
    pub options: Option<Vec<TcpOption>>,
}

/// A TCP option as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// One byte of padding, `nop` or `eol`.
    Padding,
    /// Maximum segment size.
    Mss(u16),
    /// Window scale.
    WindowScale(u8),
    /// SACK permitted.
    SackPermitted,
    /// SACK blocks.
    Sack(Vec<(u32, u32)>),
    /// Timestamp and echo.
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

/// An ICMP error as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// The type of the error, such as `unreachable`.
    pub kind: String,
    /// The code within the type, such as `frag_needed`; may be empty.
    pub code: String,
    /// The MTU that it reports.
    pub mtu: Option<u32>,
    /// The segment that it quotes.
    pub quoted: Option<Range>,
}

/// A system call as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The name of the call.
    pub name: String,
    /// The arguments, in their order.
    pub arguments: Vec<Expression>,
    /// The value that it must return.
    pub result: Expression,
    /// The error that it must report.
    pub errno: Option<String>,
}

/// An argument or a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// `...`, whatever the interpreter chooses.
    Any,
    /// A number.
    Number(i64),
    /// A string between double quotes.
    Text(String),
    /// A constant, such as `SOCK_STREAM`.
    Name(String),
    /// Alternatives joined by `|`.
    Or(Vec<Expression>),
    /// A list between brackets.
    List(Vec<Expression>),
    /// A structure between braces.
    Fields(Vec<Expression>),
    /// A field of a structure and its value.
    Field(String, Box<Expression>),
    /// A function such as `htons(8080)`.
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
