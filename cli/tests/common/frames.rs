//! Frames of a capture, byte for byte.

use std::collections::BTreeMap;
use std::path::Path;

const ETHERNET_BYTES: usize = 14;
const PCAP_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;
/// First word of a capture file in this machine's byte order, with microseconds.
const PCAP_MAGIC: u32 = 0xa1b2_c3d4;
const TCP: u8 = 6;

/// Returns every frame of a file that tcpdump wrote.
pub fn frames(file: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(file).unwrap();
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), PCAP_MAGIC, "{}", file.display());
    let mut frames = Vec::new();
    let mut at = PCAP_HEADER_BYTES;
    while at < bytes.len() {
        let (captured, whole) = (word(at + 8) as usize, word(at + 12) as usize);
        assert_eq!(captured, whole, "a cut frame in {}", file.display());
        at += RECORD_HEADER_BYTES;
        frames.push(bytes[at..at + captured].to_vec());
        at += captured;
    }
    frames
}

/// Returns IP's version and protocol, and the offset of the transport header. IPv6's extension
/// headers count as protocols.
pub fn ip(frame: &[u8]) -> Option<(u8, u8, usize)> {
    match frame.get(12..14)? {
        [0x08, 0x00] => {
            let header_bytes = usize::from(frame.get(14)? & 0xf) * 4;
            Some((4, *frame.get(23)?, ETHERNET_BYTES + header_bytes))
        }
        [0x86, 0xdd] => Some((6, *frame.get(20)?, ETHERNET_BYTES + 40)),
        _ => None,
    }
}

/// Returns the frame with zeros where a law may write: IP's ECN bits, ECE and CWR, the window, and
/// the two checksums over them.
pub fn without_editable_fields(mut frame: Vec<u8>) -> Vec<u8> {
    let Some((version, TCP, tcp)) = ip(&frame) else {
        return frame;
    };
    if version == 4 {
        frame[ETHERNET_BYTES + 1] &= !3;
        frame[ETHERNET_BYTES + 10..ETHERNET_BYTES + 12].fill(0);
    } else {
        frame[ETHERNET_BYTES + 1] &= !0x30;
    }
    frame[tcp + 13] &= !0xc0;
    frame[tcp + 14..tcp + 18].fill(0);
    frame
}

/// Counts each distinct frame, on which two captures of one path must agree in any order.
pub fn occurrences(frames: impl IntoIterator<Item = Vec<u8>>) -> BTreeMap<Vec<u8>, usize> {
    let mut seen = BTreeMap::new();
    for frame in frames {
        *seen.entry(frame).or_insert(0) += 1;
    }
    seen
}

/// Panics unless both captures contain the same frames except for what a law may write; returns
/// their number.
pub fn assert_only_editable_fields_differ(one: &Path, other: &Path) -> usize {
    let of = |file: &Path| {
        let of_ip = frames(file).into_iter().filter(|frame| ip(frame).is_some());
        occurrences(of_ip.map(without_editable_fields))
    };
    let (one_side, other_side) = (of(one), of(other));
    for (here, there, file) in [
        (&one_side, &other_side, one),
        (&other_side, &one_side, other),
    ] {
        let lone: Vec<_> = here
            .iter()
            .filter(|(f, times)| there.get(*f) != Some(*times))
            .collect();
        let first = lone.first();
        assert!(
            first.is_none(),
            "{} only in {}: {first:02x?}",
            lone.len(),
            file.display()
        );
    }
    one_side.values().sum()
}
