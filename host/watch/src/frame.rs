//! Parses a waiting frame for its probes, and completes its checksum, which the guest's kernel may
//! have left to hardware that never processes it.

use crate::layout::uc_held;

const ETHERNET_BYTES: usize = 14;
const IPV6_BYTES: usize = 40;
const TCP_BYTES: usize = 20;
const TCP_PROTOCOL: u8 = 6;
const SYN_AND_ACK: u8 = 0x12;
const ACK: u8 = 0x10;

/// The IP version of a frame, and the header fields that its probes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// IPv4: type of service, whose ECN bits are ignored here, and time to live.
    V4 { tos: u8, ttl: u8 },
    /// IPv6: version, traffic class and flow label, and hop limit.
    V6 { first_word: u32, hops: u8 },
}

/// A handshake's frame, as sent by the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handshake {
    /// The Ethernet header: destination, source and EtherType.
    pub ethernet: [u8; ETHERNET_BYTES],
    pub family: Family,
    /// Source address of the packet; an IPv4 address a.b.c.d is `::ffff:a.b.c.d`.
    pub source: [u8; 16],
    pub destination: [u8; 16],
    /// Source and destination port, in network byte order.
    pub ports: [u8; 4],
    /// Sequence number of the connection's SYN, which is this frame or the one that it answers.
    pub connection: u32,
}

/// Offsets of a frame's TCP segment.
struct Place {
    family: Family,
    tcp: usize,
    end: usize,
}

fn place(frame: &[u8]) -> Option<Place> {
    let ip = frame.get(ETHERNET_BYTES..)?;
    let (family, header, bytes) = match (frame[12], frame[13]) {
        (0x08, 0x00) => {
            let header = usize::from(ip.first()? & 0x0f) * 4;
            let total = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
            if header < 20 || *ip.get(9)? != TCP_PROTOCOL {
                return None;
            }
            let family = Family::V4 {
                tos: ip[1],
                ttl: ip[8],
            };
            (family, header, total.checked_sub(header)?)
        }
        (0x86, 0xdd) => {
            if *ip.get(6)? != TCP_PROTOCOL {
                return None;
            }
            let family = Family::V6 {
                first_word: u32::from_be_bytes(ip[..4].try_into().ok()?),
                hops: *ip.get(7)?,
            };
            let bytes = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
            (family, IPV6_BYTES, bytes)
        }
        _ => return None,
    };
    let tcp = ETHERNET_BYTES + header;
    let end = tcp + bytes;
    (bytes >= TCP_BYTES && end <= frame.len()).then_some(Place { family, tcp, end })
}

/// Returns the IPv4-mapped address ::ffff:a.b.c.d.
pub(crate) fn mapped(address: [u8; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[10] = 0xff;
    bytes[11] = 0xff;
    bytes[12..].copy_from_slice(&address);
    bytes
}

/// Parses the frame of a SYN or SYN-ACK; `None` for anything else.
pub(crate) fn handshake(frame: &[u8]) -> Option<Handshake> {
    let place = place(frame)?;
    let ip = &frame[ETHERNET_BYTES..];
    let tcp = &frame[place.tcp..place.end];
    let (source, destination) = match place.family {
        Family::V4 { .. } => (
            mapped(ip[12..16].try_into().ok()?),
            mapped(ip[16..20].try_into().ok()?),
        ),
        Family::V6 { .. } => (ip[8..24].try_into().ok()?, ip[24..40].try_into().ok()?),
    };
    let number = |at: usize| Some(u32::from_be_bytes(tcp[at..at + 4].try_into().ok()?));
    let connection = match tcp[13] & SYN_AND_ACK {
        0 | ACK => return None,
        SYN_AND_ACK => number(8)?.wrapping_sub(1),
        _ => number(4)?,
    };
    Some(Handshake {
        ethernet: frame[..ETHERNET_BYTES].try_into().ok()?,
        family: place.family,
        source,
        destination,
        ports: tcp[..4].try_into().ok()?,
        connection,
    })
}

/// Returns the frame in a held entry.
pub(crate) fn frame_of(held: &uc_held) -> &[u8] {
    let bytes = usize::from(held.frame_bytes).min(held.frame.len());
    &held.frame[..bytes]
}

/// Computes the one's complement sum of 16-bit words (RFC 1071), with carries folded in.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u32::from(u16::from_be_bytes([pair[0], low]));
        }
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// Returns the checksum of an IPv4 header whose checksum field is zero.
pub(crate) fn ipv4_checksum(header: &[u8]) -> [u8; 2] {
    (!sum(&[header])).to_be_bytes()
}

/// Completes a partial checksum. A segment that leaves a guest's stack has the sum of the
/// pseudo-header in its checksum field, and leaves the rest to the hardware (`CHECKSUM_PARTIAL`); a
/// copy of the frame lacks that flag. A complete or wrong checksum stays unchanged.
pub(crate) fn complete_checksum(frame: &mut [u8]) {
    let Some(place) = place(frame) else { return };
    let ip = &frame[ETHERNET_BYTES..];
    let addresses = match place.family {
        Family::V4 { .. } => &ip[12..20],
        Family::V6 { .. } => &ip[8..40],
    };
    let length = ((place.end - place.tcp) as u16).to_be_bytes();
    let pseudo = sum(&[addresses, &[0, TCP_PROTOCOL], &length]);
    let field = place.tcp + 16;
    if frame[field..field + 2] != pseudo.to_be_bytes() {
        return;
    }
    // The field contains the pseudo-header's part already.
    let whole = !sum(&[&frame[place.tcp..place.end]]);
    frame[field..field + 2].copy_from_slice(&whole.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn syn(ipv6: bool) -> Vec<u8> {
        let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let packet = if ipv6 {
            ethernet.ipv6([1; 16], [2; 16], 61)
        } else {
            ethernet.ipv4([10, 77, 0, 1], [10, 77, 0, 2], 61)
        };
        let mut bytes = Vec::new();
        let packet = packet.tcp(40_000, 80, 0x01020304, 1000).syn();
        packet.write(&mut bytes, &[]).unwrap();
        bytes
    }

    fn checksum_at(frame: &[u8]) -> usize {
        place(frame).unwrap().tcp + 16
    }

    #[test]
    fn a_handshakes_connection_is_the_sequence_number_of_its_syn() {
        for ipv6 in [false, true] {
            let mut frame = syn(ipv6);
            let said = handshake(&frame).unwrap();
            assert_eq!(said.connection, 0x01020304);
            assert_eq!(said.ports, [0x9c, 0x40, 0, 80]);
            assert_eq!(said.ethernet[..6], [4; 6]);
            let tcp = place(&frame).unwrap().tcp;
            frame[tcp + 8..tcp + 12].copy_from_slice(&8u32.to_be_bytes());
            frame[tcp + 13] = 0x12;
            assert_eq!(handshake(&frame).unwrap().connection, 7);
            frame[tcp + 13] = 0x10;
            assert_eq!(handshake(&frame), None);
        }
    }

    #[test]
    fn only_a_partial_checksum_is_completed() {
        for ipv6 in [false, true] {
            let whole = syn(ipv6);
            let at = checksum_at(&whole);
            let mut frame = whole.clone();
            complete_checksum(&mut frame);
            assert_eq!(frame, whole, "a complete one");
            let wrong = [whole[at] ^ 0x55, whole[at + 1]];
            frame[at..at + 2].copy_from_slice(&wrong);
            complete_checksum(&mut frame);
            assert_eq!(frame[at..at + 2], wrong, "a wrong one");
            // Subtracts the segment's sum, without the field, from the complete sum: the
            // pseudo-header's part remains.
            let tcp = &whole[at - 16..];
            let segment = sum(&[&tcp[..16], &tcp[18..]]);
            let complete = u16::from_be_bytes([whole[at], whole[at + 1]]);
            let pseudo = sum(&[&(!complete).to_be_bytes(), &(!segment).to_be_bytes()]);
            frame[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
            complete_checksum(&mut frame);
            assert_eq!(frame, whole, "a partial one");
        }
    }

    #[test]
    fn a_truncated_frame_is_no_handshake() {
        for whole in [syn(false), syn(true)] {
            for length in 0..whole.len() {
                let mut frame = whole[..length].to_vec();
                assert_eq!(handshake(&frame), None, "{length} bytes");
                complete_checksum(&mut frame);
                assert_eq!(frame, whole[..length], "{length} bytes");
            }
        }
    }
}
