//! Between frames of a tap and the core's segments: IPv4 and TCP only.

use uc_core::{Edit, Segment, consts};

const IP: usize = 14;
const TCP: usize = IP + 20;
/// Where the fields of the TCP header lie that an edit writes.
const FLAGS: usize = TCP + 13;
const WINDOW: usize = TCP + 14;
const CHECKSUM: usize = TCP + 16;

/// The kind of the option that carries blocks of SACK.
const SACK: u8 = 5;

/// A frame's segment, and the ports of its ends.
#[derive(Clone, Copy, Debug)]
pub struct Parsed {
    pub segment: Segment,
    pub source: u16,
    pub destination: u16,
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from(short(bytes, at)) << 16 | u32::from(short(bytes, at + 2))
}

/// Parses a frame; `None` if it carries no TCP.
pub fn parse(bytes: &[u8], direction: u32) -> Option<Parsed> {
    if bytes.len() < TCP + 20 || short(bytes, 12) != 0x800 || bytes[IP + 9] != 6 {
        return None;
    }
    let header_bytes = usize::from(bytes[TCP + 12] >> 4) * 4;
    let end = IP + usize::from(short(bytes, IP + 2));
    let payload_bytes = (end - TCP - header_bytes) as u32;
    let mut segment = Segment {
        seq: long(bytes, TCP + 4),
        ack: long(bytes, TCP + 8),
        payload_bytes,
        wire_payload_bytes: payload_bytes as u16,
        window: short(bytes, WINDOW),
        flags: bytes[FLAGS],
        ecn: bytes[IP + 1] & 3,
        direction: direction as u8,
        ..Segment::default()
    };
    read_options(&bytes[TCP + 20..TCP + header_bytes], &mut segment);
    Some(Parsed {
        segment,
        source: short(bytes, TCP),
        destination: short(bytes, TCP + 2),
    })
}

fn read_options(mut options: &[u8], segment: &mut Segment) {
    let is_syn = u32::from(segment.flags) & consts::SYN != 0;
    while let [kind, rest @ ..] = options {
        let length = match (kind, rest) {
            (0, _) => return,
            (1, _) => {
                options = rest;
                continue;
            }
            (_, [length, ..]) => usize::from(*length),
            _ => return,
        };
        if is_syn {
            read_syn_option(*kind, &options[2..length], segment);
        } else if *kind == SACK && u32::from(segment.direction) == consts::TO_GUEST {
            let block = |bytes: &[u8]| (long(bytes, 0), long(bytes, 4));
            let blocks: Vec<_> = options[2..length].chunks_exact(8).map(block).collect();
            uc_core::set_sack(segment, &blocks);
        }
        options = &options[length..];
    }
}

fn read_syn_option(kind: u8, value: &[u8], segment: &mut Segment) {
    segment.options |= match kind {
        2 => {
            segment.mss_bytes = short(value, 0);
            consts::OPT_MSS as u8
        }
        3 => {
            segment.wscale = value[0];
            consts::OPT_WSCALE as u8
        }
        4 => consts::OPT_SACK as u8,
        8 => consts::OPT_TIMESTAMPS as u8,
        _ => 0,
    };
}

/// Writes an edit into the frame, with both checksums.
pub fn write(bytes: &mut [u8], edit: &Edit) {
    let tos = bytes[IP + 1];
    bytes[IP + 1] = tos & !3 | edit.ecn;
    adjust(bytes, IP + 10, tos.into(), bytes[IP + 1].into());
    let flags = short(bytes, FLAGS - 1);
    bytes[FLAGS] = edit.flags;
    adjust(bytes, CHECKSUM, flags, short(bytes, FLAGS - 1));
    let window = short(bytes, WINDOW);
    bytes[WINDOW..WINDOW + 2].copy_from_slice(&edit.window.to_be_bytes());
    adjust(bytes, CHECKSUM, window, edit.window);
}

/// Updates a checksum for a word that changed (RFC 1624 §3).
fn adjust(bytes: &mut [u8], at: usize, before: u16, after: u16) {
    let mut sum = u32::from(!short(bytes, at)) + u32::from(!before) + u32::from(after);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    bytes[at..at + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}
