//! Comparison of a segment that the host sent with the script's.
//!
//! The order and padding of options are the host's own and not compared.

use uc_net::Ecn;
use uc_tcp::{Options, Segment, flags};

use crate::syntax::{Packet, Tcp};
use crate::target::Datagram;
use crate::translate::{Numbers, options, others, sacked};
use crate::verdict::Stop;

/// The packet that a script expects, and its context.
pub(crate) struct Against<'a> {
    pub(crate) packet: &'a Packet,
    /// The TCP segment that the script expects.
    pub(crate) tcp: &'a Tcp,
    /// The difference that timestamps may have, in their own unit; `None`: any.
    pub(crate) stamps_apart: Option<u64>,
    /// Whether something on the path edits ECN, which is not compared then.
    pub(crate) is_ecn_edited: bool,
}

/// Compares a segment with what the script expects.
pub(crate) fn compare(
    numbers: &Numbers,
    against: &Against<'_>,
    seen: &Datagram,
) -> Result<(), Stop> {
    let (packet, tcp) = (against.packet, against.tcp);
    let segment = readable(numbers, &seen.segment);
    let mut differs = Vec::new();
    let mut want = |holds: bool, what: String| {
        if !holds {
            differs.push(what);
        }
    };
    let edited = if against.is_ecn_edited {
        flags::ECE | flags::CWR
    } else {
        0
    };
    want(
        segment.flags | edited == tcp.flags | edited,
        format!("flags {}", letters(tcp.flags)),
    );
    if let Some(from) = tcp.range.from {
        let seq = if tcp.range.absolute {
            seen.segment.seq
        } else {
            segment.seq
        };
        want(seq == from, format!("sequence number {from}"));
    }
    want(
        u32::from(segment.payload_bytes) == tcp.range.bytes,
        format!("{} bytes", tcp.range.bytes),
    );
    if let Some(ack) = tcp.ack {
        want(segment.ack == ack, format!("ack {ack}"));
    }
    if tcp.urgent.is_some() || seen.urgent.is_some() {
        let shown = format!("urg {}", tcp.urgent.unwrap_or(0));
        want(seen.urgent == tcp.urgent, shown);
    }
    if let Some(window) = tcp.window {
        want(segment.window == window, format!("win {window}"));
    }
    if let Some(ecn) = packet.ecn {
        let is_equal = segment.ecn == ecn || against.is_ecn_edited;
        want(is_equal, format!("{ecn:?}"));
    }
    for (name, value) in &packet.ip {
        let has = match name.as_str() {
            "ttl" | "hlim" => u64::from(seen.hops) == *value,
            "tos" | "class" => u64::from(seen.class) == value & !3,
            "ect01" => matches!(segment.ecn, Ecn::Ect0 | Ecn::Ect1) || against.is_ecn_edited,
            other => {
                return Err(Stop::Lacks(format!(
                    "the IP field {other} is not supported"
                )));
            }
        };
        want(has, format!("{name} {value}"));
    }
    if let Some(written) = &tcp.options {
        let wanted = options(written, 0);
        let stamps = segment.options.timestamps;
        let close = match (wanted.timestamps, stamps) {
            (Some((value, echo)), Some((seen, seen_echo))) => {
                let apart = (value.wrapping_sub(seen) as i32).unsigned_abs();
                let may = against.stamps_apart;
                may.is_none_or(|may| u64::from(apart) <= may) && echo == seen_echo
            }
            (wanted, seen) => wanted == seen,
        };
        let equal = Options {
            timestamps: stamps,
            ..wanted
        } == segment.options;
        let (wanted_others, seen_others) = (others(tcp), &seen.others);
        want(close && equal, format!("options {}", list(&wanted)));
        want(
            wanted_others == *seen_others,
            format!("options {wanted_others:?}, seen {seen_others:?}"),
        );
    }
    if differs.is_empty() {
        return Ok(());
    }
    Err(Stop::Differs(format!(
        "expected {}, seen {}",
        differs.join(", "),
        show(numbers, seen)
    )))
}

/// Joins a segment with those before it, as packetdrill does. The result has the sequence number and CWR of the first
/// segment, the payload length of all together, and every other field of the last.
///
/// # Errors
/// [`Stop::Differs`] if `next` does not continue `whole`: its sequence number is not the next one; flags (except FIN,
/// PSH and CWR), ACK number, window, time to live, traffic class or ECN differ; only one of the two has timestamps; or
/// `next` is not `last_bytes` long, as the segment before it, and does not hold the `left` bytes that the script's
/// line still lacks.
pub(crate) fn join(
    whole: &Datagram,
    last_bytes: u16,
    next: &Datagram,
    left: u32,
) -> Result<Datagram, Stop> {
    let (before, segment) = (&whole.segment, &next.segment);
    let loose = flags::FIN | flags::PSH | flags::CWR;
    let end = before.seq.wrapping_add(u32::from(before.payload_bytes));
    let bytes = segment.payload_bytes;
    let fits = before.flags | loose == segment.flags | loose
        && (end, before.ack, before.window) == (segment.seq, segment.ack, segment.window)
        && before.options.timestamps.is_some() == segment.options.timestamps.is_some()
        && (whole.hops, whole.class, before.ecn) == (next.hops, next.class, segment.ecn)
        && (u32::from(bytes) >= left || bytes == last_bytes);
    if !fits {
        let why = "the segments that make up the line's bytes differ in more than their numbers";
        return Err(Stop::Differs(why.to_owned()));
    }
    let mut joined = next.clone();
    joined.segment.seq = before.seq;
    joined.segment.payload_bytes = before.payload_bytes.saturating_add(bytes);
    joined.segment.flags = segment.flags & !flags::CWR | before.flags & flags::CWR;
    Ok(joined)
}

/// Returns a segment of the host with sequence numbers, ACK numbers and timestamps as the script counts them.
fn readable(numbers: &Numbers, wire: &Segment) -> Segment {
    let mut segment = *wire;
    let is_syn = wire.has(flags::SYN);
    let theirs = numbers.theirs(is_syn);
    segment.seq = wire.seq.wrapping_sub(numbers.ours(is_syn));
    segment.ack = if wire.has(flags::ACK) {
        wire.ack.wrapping_sub(theirs)
    } else {
        0
    };
    if let Some((value, _)) = &mut segment.options.timestamps {
        *value = numbers.stamp(*value);
    }
    let blocks: Vec<_> = wire.options.sack.as_slice().to_vec();
    segment.options.sack = sacked(&blocks, 0u32.wrapping_sub(theirs));
    segment
}

/// Writes a segment of the host as a script does.
pub(crate) fn show(numbers: &Numbers, seen: &Datagram) -> String {
    let segment = readable(numbers, &seen.segment);
    let (from, bytes) = (segment.seq, segment.payload_bytes);
    let to = from.wrapping_add(u32::from(bytes));
    let ack = if segment.has(flags::ACK) {
        format!(" ack {}", segment.ack)
    } else {
        String::new()
    };
    format!(
        "{} {from}:{to}({bytes}){ack} win {} {}",
        letters(segment.flags),
        segment.window,
        list(&segment.options)
    )
}

fn letters(bits: u8) -> String {
    let letters = [
        ('S', flags::SYN),
        ('F', flags::FIN),
        ('R', flags::RST),
        ('P', flags::PSH),
        ('E', flags::ECE),
        ('W', flags::CWR),
        ('.', flags::ACK),
    ];
    let set = letters.iter().filter(|(_, bit)| bits & bit != 0);
    set.map(|(letter, _)| letter).collect()
}

fn list(options: &Options) -> String {
    let mut parts = Vec::new();
    if options.mss_bytes > 0 {
        parts.push(format!("mss {}", options.mss_bytes));
    }
    if let Some(scale) = options.wscale {
        parts.push(format!("wscale {scale}"));
    }
    if options.sack_permitted {
        parts.push("sackOK".to_owned());
    }
    if let Some((value, echo)) = options.timestamps {
        parts.push(format!("TS val {value} ecr {echo}"));
    }
    let blocks = options.sack.as_slice();
    if !blocks.is_empty() {
        let blocks: Vec<_> = blocks.iter().map(|(a, b)| format!("{a}:{b}")).collect();
        parts.push(format!("sack {}", blocks.join(" ")));
    }
    format!("<{}>", parts.join(","))
}
