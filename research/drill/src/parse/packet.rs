//! Packets: TCP segments, ICMP errors, UDP datagrams.

use uc_net::Ecn;
use uc_tcp::flags;

use crate::cursor::Cursor;
use crate::syntax::{Content, Error, Icmp, OtherOption, Packet, Range, Tcp, TcpOption};

/// The letter and the bit of each TCP flag.
const LETTERS: [(char, u8); 8] = [
    ('F', flags::FIN),
    ('S', flags::SYN),
    ('R', flags::RST),
    ('P', flags::PSH),
    ('.', flags::ACK),
    ('E', flags::ECE),
    ('W', flags::CWR),
    ('-', 0),
];
/// Letters of header flags that `uc_tcp` does not know.
const STRANGE_LETTERS: &str = "UA";
/// Kinds of the TCP options MD5 signature, TCP Fast Open and experiment; the last two bytes identify Fast Open as an
/// experiment.
const MD5: u8 = 19;
const FAST_OPEN: u8 = 34;
const EXPERIMENT: u8 = 254;
const FAST_OPEN_MAGIC: [u8; 2] = [0xf9, 0x89];
/// Features of other versions of packetdrill that this reader lacks; `LACKING` has the words that begin their syntax.
const ACCURATE_ECN: &str = "Accurate ECN (RFC 9768)";
const MULTIPATH: &str = "Multipath TCP (RFC 8684)";
const LACKING: [(&str, &str); 22] = [
    ("ECN", ACCURATE_ECN),
    ("exp", ACCURATE_ECN),
    ("mp_capable", MULTIPATH),
    ("mp_capable_no_cs", MULTIPATH),
    ("mp_join_syn", MULTIPATH),
    ("mp_join_syn_ack", MULTIPATH),
    ("mp_join_ack", MULTIPATH),
    ("mp_prio", MULTIPATH),
    ("mp_fail", MULTIPATH),
    ("mp_fastclose", MULTIPATH),
    ("mp_reset", MULTIPATH),
    ("dss", MULTIPATH),
    ("add_address", MULTIPATH),
    ("remove_address", MULTIPATH),
    ("nocheck", "the TCP option nocheck"),
    ("sctp", "SCTP (RFC 9260)"),
    ("udplite", "UDP-Lite (RFC 3828)"),
    ("gre", "encapsulated packets"),
    ("mpls", "encapsulated packets"),
    ("ipv4", "encapsulated packets"),
    ("ipv6", "encapsulated packets"),
    ("psp", "encapsulated packets"),
];

/// Refuses the word that comes next if it begins a feature that this reader lacks.
fn lacking(cursor: &mut Cursor<'_>) -> Result<(), Error> {
    let found = LACKING.iter().find(|(word, _)| cursor.sees_word(word));
    found.map_or(Ok(()), |(_, feature)| Err(cursor.lacks(feature)))
}

/// Takes a packet; the cursor is behind its direction, `<` or `>`.
pub(super) fn packet(cursor: &mut Cursor<'_>) -> Result<Packet, Error> {
    let (mut ecn, mut ip) = (None, Vec::new());
    for (open, close) in [("(", ")"), ("[", "]")] {
        if cursor.take(open) {
            while !cursor.take(close) {
                header_field(cursor, &mut ecn, &mut ip)?;
                cursor.take(",");
            }
        }
    }
    lacking(cursor)?;
    let content = if cursor.take_word("icmp") {
        Content::Icmp(icmp(cursor)?)
    } else if cursor.take_word("udp") {
        cursor.expect("(")?;
        let bytes = cursor.number()?;
        cursor.expect(")")?;
        Content::Udp(bytes)
    } else {
        Content::Tcp(segment(cursor)?)
    };
    let udp = around(cursor)?;
    Ok(Packet {
        ecn,
        ip,
        udp,
        content,
    })
}

/// Takes one field of the IP header.
fn header_field(
    cursor: &mut Cursor<'_>,
    ecn: &mut Option<Ecn>,
    ip: &mut Vec<(String, u64)>,
) -> Result<(), Error> {
    let before = cursor.clone();
    let name = cursor.word().unwrap_or("");
    match name {
        "noecn" => *ecn = Some(Ecn::NotEct),
        "ect0" => *ecn = Some(Ecn::Ect0),
        "ect1" => *ecn = Some(Ecn::Ect1),
        "ce" => *ecn = Some(Ecn::Ce),
        "ect01" => ip.push((name.to_owned(), 0)),
        "ttl" | "hlim" | "tos" | "class" | "flowlabel" => {
            ip.push((name.to_owned(), cursor.number()?));
        }
        name if name.starts_with("caddr") || name.starts_with("saddr") => {
            return Err(before.clone().lacks(MULTIPATH));
        }
        _ => return Err(cursor.error("expected a field of the IP header, such as `ect0` or `ttl`")),
    }
    Ok(())
}

/// Takes the two ports of UDP around a segment, if the script has them.
fn around(cursor: &mut Cursor<'_>) -> Result<Option<(u64, u64)>, Error> {
    if !cursor.take("/") {
        return Ok(None);
    }
    cursor.expect("udp")?;
    cursor.expect("(")?;
    let from = cursor.number()?;
    cursor.expect(">")?;
    let to = cursor.number()?;
    cursor.expect(")")?;
    Ok(Some((from, to)))
}

fn segment(cursor: &mut Cursor<'_>) -> Result<Tcp, Error> {
    let mut tcp = Tcp {
        flags: 0,
        strange_flags: String::new(),
        range: Range {
            from: None,
            bytes: 0,
            absolute: false,
        },
        ack: None,
        window: None,
        urgent: None,
        options: Some(Vec::new()),
    };
    let mut any = false;
    // Where the last letter ends.
    let mut end = cursor.clone();
    end.skip();
    // A letter and the dot may stand apart.
    while !cursor.sees("...") {
        let known = |c: char| LETTERS.iter().find(|(letter, _)| *letter == c);
        let letters = cursor.take_while(|c| known(c).is_some() || STRANGE_LETTERS.contains(c));
        if letters.is_empty() {
            if end.sees_digit() {
                // The count of Accurate ECN stands in place of its flags.
                return Err(cursor.lacks(ACCURATE_ECN));
            }
            break;
        }
        (any, end) = (true, cursor.clone());
        for letter in letters.chars() {
            match known(letter) {
                Some((_, bit)) => tcp.flags |= bit,
                None => tcp.strange_flags.push(letter),
            }
        }
    }
    if !any {
        return Err(cursor.error("expected the segment's flags, `icmp` or `udp`"));
    }
    tcp.range = range(cursor)?;
    if cursor.take_word("ack") {
        tcp.ack = Some(cursor.number()?);
    }
    if cursor.take_word("win") {
        tcp.window = Some(cursor.number()?);
    }
    if cursor.take_word("urg") {
        tcp.urgent = Some(cursor.number()?);
    }
    if cursor.take("<") {
        tcp.options = options(cursor)?;
    }
    Ok(tcp)
}

/// Takes `FROM:TO(BYTES)` or `...(BYTES)`, and `!` after it.
fn range(cursor: &mut Cursor<'_>) -> Result<Range, Error> {
    let from = if cursor.take("...") {
        None
    } else {
        let from: u32 = cursor.number()?;
        cursor.expect(":")?;
        Some((from, cursor.number::<u32>()?))
    };
    let place = cursor.place();
    cursor.expect("(")?;
    let bytes: u32 = cursor.number()?;
    cursor.expect(")")?;
    if let Some((from, to)) = from
        && from.wrapping_add(bytes) != to
    {
        let why = format!("{from}:{to} are not {bytes} bytes");
        let lacks = None;
        return Err(Error { place, why, lacks });
    }
    Ok(Range {
        from: from.map(|(from, _)| from),
        bytes,
        absolute: cursor.take("!"),
    })
}

/// Takes options up to `>`; `None` for `...`.
fn options(cursor: &mut Cursor<'_>) -> Result<Option<Vec<TcpOption>>, Error> {
    if cursor.take("...") {
        cursor.expect(">")?;
        return Ok(None);
    }
    let mut options = Vec::new();
    while !cursor.take(">") {
        if !options.is_empty() {
            cursor.expect(",")?;
        }
        options.push(option(cursor)?);
    }
    Ok(Some(options))
}

fn option(cursor: &mut Cursor<'_>) -> Result<TcpOption, Error> {
    lacking(cursor)?;
    Ok(match cursor.word().unwrap_or("") {
        "nop" | "eol" => TcpOption::Padding,
        "mss" => TcpOption::Mss(cursor.number()?),
        "wscale" => TcpOption::WindowScale(cursor.number()?),
        "sackOK" => TcpOption::SackPermitted,
        "sack" => {
            let mut blocks = Vec::new();
            while !cursor.sees(",") && !cursor.sees(">") {
                let from = cursor.number()?;
                cursor.expect(":")?;
                blocks.push((from, cursor.number()?));
            }
            TcpOption::Sack(blocks)
        }
        "TS" => {
            cursor.expect("val")?;
            let value = cursor.number()?;
            cursor.expect("ecr")?;
            TcpOption::Timestamps(value, cursor.number()?)
        }
        "FO" => other(FAST_OPEN, &[], cursor)?,
        "FOEXP" => other(EXPERIMENT, &FAST_OPEN_MAGIC, cursor)?,
        "md5" => other(MD5, &[], cursor)?,
        _ => return Err(cursor.error("expected a TCP option")),
    })
}

/// Takes the bytes of an option, in hexadecimal digits; `first` come before them.
fn other(kind: u8, first: &[u8], cursor: &mut Cursor<'_>) -> Result<TcpOption, Error> {
    let digits = cursor.clone().take_while(|c| c.is_ascii_hexdigit());
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
    let bytes = bytes.filter(|_| digits.len().is_multiple_of(2));
    let bytes = bytes.ok_or_else(|| cursor.error("expected pairs of hexadecimal digits"))?;
    cursor.take_while(|c| c.is_ascii_hexdigit());
    let bytes = [first, &bytes].concat();
    Ok(TcpOption::Other(OtherOption { kind, bytes }))
}

fn icmp(cursor: &mut Cursor<'_>) -> Result<Icmp, Error> {
    let Some(kind) = cursor.word() else {
        return Err(cursor.error("expected the type of an ICMP error"));
    };
    let mut icmp = Icmp {
        kind: kind.to_owned(),
        code: String::new(),
        mtu: None,
        quoted: None,
    };
    if !cursor.take_word("mtu") {
        icmp.code = cursor.word().unwrap_or("").to_owned();
        if cursor.take_word("mtu") {
            icmp.mtu = Some(cursor.number()?);
        }
    } else {
        icmp.mtu = Some(cursor.number()?);
    }
    if cursor.take("[") {
        icmp.quoted = Some(range(cursor)?);
        around(cursor)?;
        cursor.expect("]")?;
    }
    Ok(icmp)
}
