//! Parses a frame with etherparse, or names the reason that the programs must count for a frame
//! that the core can't use.

use std::net::{IpAddr, SocketAddr};

use etherparse::checksum::Sum16BitWords;
use etherparse::{
    EtherType, Ethernet2Slice, Ipv4HeaderSlice, Ipv6HeaderSlice, SingleVlanHeader, TcpHeaderSlice,
};
use uc_core::{Edit, Segment, consts};

use super::frame::ETHERNET;

/// A segment, its ends, and the positions of its headers in the frame.
#[derive(Clone, Debug)]
pub struct Reading {
    pub segment: Segment,
    pub guest: SocketAddr,
    pub remote: SocketAddr,
    /// ID of the VLAN; 0: in none.
    pub vlan: u16,
    pub ip_at: usize,
    pub tcp_at: usize,
    /// Where the IP packet ends; padding may follow.
    pub end: usize,
    pub ipv6: bool,
}

struct Network {
    source: IpAddr,
    destination: IpAddr,
    ecn: u8,
    header_bytes: usize,
    packet_bytes: usize,
}

fn ipv4(bytes: &[u8]) -> Result<Network, &'static str> {
    if bytes.len() < 20 {
        return Err("malformed");
    }
    if bytes[9] != 6 {
        return Err("not_tcp");
    }
    if u16::from_be_bytes([bytes[6], bytes[7]]) & 0x3fff != 0 {
        return Err("fragment");
    }
    let header = Ipv4HeaderSlice::from_slice(bytes).map_err(|_| "malformed")?;
    Ok(Network {
        source: IpAddr::V4(header.source_addr()),
        destination: IpAddr::V4(header.destination_addr()),
        ecn: header.ecn().value(),
        header_bytes: header.slice().len(),
        packet_bytes: header.total_len().into(),
    })
}

fn ipv6(bytes: &[u8]) -> Result<Network, &'static str> {
    if bytes.len() < 40 {
        return Err("malformed");
    }
    match bytes[6] {
        6 => {}
        44 => return Err("fragment"),
        0 | 43 | 51 | 60 => return Err("ip_extension"),
        _ => return Err("not_tcp"),
    }
    let header = Ipv6HeaderSlice::from_slice(bytes).map_err(|_| "malformed")?;
    Ok(Network {
        source: IpAddr::V6(header.source_addr()),
        destination: IpAddr::V6(header.destination_addr()),
        ecn: header.traffic_class() & 3,
        header_bytes: 40,
        packet_bytes: 40 + usize::from(header.payload_length()),
    })
}

/// Parses the options of a SYN or SYN-ACK.
fn read_options(mut rest: &[u8], segment: &mut Segment) -> Result<(), &'static str> {
    while let [kind, tail @ ..] = rest {
        match kind {
            0 => return Ok(()),
            1 => rest = tail,
            _ => {
                let length = usize::from(*tail.first().ok_or("malformed")?);
                if length < 2 || length > rest.len() {
                    return Err("malformed");
                }
                read_option(*kind, &rest[2..length], segment)?;
                rest = &rest[length..];
            }
        }
    }
    Ok(())
}

fn read_option(kind: u8, value: &[u8], segment: &mut Segment) -> Result<(), &'static str> {
    let bit = match (kind, value) {
        (2, &[high, low]) => {
            segment.mss_bytes = u16::from_be_bytes([high, low]);
            consts::OPT_MSS
        }
        (3, &[shift]) => {
            segment.wscale = shift;
            consts::OPT_WSCALE
        }
        (2 | 3, _) => return Err("malformed"),
        (4, _) => consts::OPT_SACK,
        (8, _) => consts::OPT_TIMESTAMPS,
        (19 | 29, _) => consts::OPT_SIGNED,
        (30, _) => consts::OPT_MPTCP,
        _ => 0,
    };
    segment.options |= bit as u8;
    Ok(())
}

/// Returns the first two blocks of the SACK option, as far as they are whole.
fn read_sack(mut rest: &[u8]) -> Vec<(u32, u32)> {
    while let [kind, tail @ ..] = rest {
        let length = match kind {
            0 => break,
            1 => 1,
            _ => tail.first().map_or(0, |&length| usize::from(length)),
        };
        if length == 0 || (*kind != 1 && length < 2) || length > rest.len() {
            break;
        }
        if *kind == 5 {
            let word = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
            let blocks = rest[2..length].chunks_exact(8).take(2);
            return blocks
                .map(|block| (word(&block[..4]), word(&block[4..])))
                .collect();
        }
        rest = &rest[length..];
    }
    Vec::new()
}

/// Returns the ID of the frame's VLAN, where its IP header begins, and what it carries.
fn link(frame: &[u8]) -> Result<(u16, usize, EtherType), &'static str> {
    let is_tag = |kind: EtherType| [0x8100, 0x88a8].contains(&kind.0);
    let ethernet = Ethernet2Slice::from_slice_without_fcs(frame).map_err(|_| "malformed")?;
    if !is_tag(ethernet.ether_type()) {
        return Ok((0, ETHERNET, ethernet.ether_type()));
    }
    let tag = SingleVlanHeader::from_slice(&frame[ETHERNET..])
        .map_err(|_| "malformed")?
        .0;
    if is_tag(tag.ether_type) {
        return Err("vlan_stack");
    }
    Ok((tag.vlan_id.value(), ETHERNET + 4, tag.ether_type))
}

/// Parses a frame, or returns the reason why it has no usable segment.
pub fn read(frame: &[u8], gso_size: u32, from_guest: bool) -> Result<Reading, &'static str> {
    let (vlan, ip_at, carried) = link(frame)?;
    let bytes = &frame[ip_at..];
    let network = match carried {
        EtherType::IPV4 => ipv4(bytes)?,
        EtherType::IPV6 => ipv6(bytes)?,
        _ => return Err("not_tcp"),
    };
    let transport = bytes.get(network.header_bytes..).ok_or("malformed")?;
    let tcp = TcpHeaderSlice::from_slice(transport).map_err(|_| "malformed")?;
    let end = if gso_size > 0 {
        bytes.len()
    } else {
        network.packet_bytes
    };
    let payload_at = network.header_bytes + tcp.slice().len();
    if payload_at > end || end > bytes.len() {
        return Err("malformed");
    }
    let payload_bytes = (end - payload_at) as u32;
    let cut = gso_size > 0 && gso_size < payload_bytes;
    let mut segment = Segment {
        seq: tcp.sequence_number(),
        ack: tcp.acknowledgment_number(),
        payload_bytes,
        wire_payload_bytes: if cut { gso_size } else { payload_bytes } as u16,
        window: tcp.window_size(),
        flags: tcp.slice()[13],
        options: if tcp.ns() { consts::OPT_AE as u8 } else { 0 },
        ecn: network.ecn,
        direction: if from_guest {
            consts::FROM_GUEST
        } else {
            consts::TO_GUEST
        } as u8,
        ..Segment::default()
    };
    if tcp.syn() {
        let whole = read_options(tcp.options(), &mut segment);
        if from_guest || !tcp.ack() {
            whole?;
        } else if whole.is_err() {
            segment.options |= consts::OPT_BROKEN as u8;
        }
    } else if !from_guest {
        uc_core::set_sack(&mut segment, &read_sack(tcp.options()));
    }
    let source = SocketAddr::new(network.source, tcp.source_port());
    let destination = SocketAddr::new(network.destination, tcp.destination_port());
    let (guest, remote) = if from_guest {
        (source, destination)
    } else {
        (destination, source)
    };
    Ok(Reading {
        segment,
        guest,
        remote,
        vlan,
        ip_at,
        tcp_at: ip_at + network.header_bytes,
        end: ip_at + end,
        ipv6: network.source.is_ipv6(),
    })
}

/// Writes NOPs over the options that an edit removes.
fn write_options(mut rest: &mut [u8], edit: &Edit) {
    while let [kind, tail @ ..] = rest {
        let length = match kind {
            0 => return,
            1 => 1,
            _ => match tail.first().map(|length| usize::from(*length)) {
                Some(length) if (2..=1 + tail.len()).contains(&length) => length,
                // the port reads no further than an option that contradicts its length
                _ => return,
            },
        };
        let bit = match kind {
            3 => consts::OPT_WSCALE,
            4 => consts::OPT_SACK,
            8 => consts::OPT_TIMESTAMPS,
            30 => consts::OPT_MPTCP,
            _ => 0,
        };
        let (option, after) = rest.split_at_mut(length);
        if u32::from(edit.removed) & bit != 0 {
            option.fill(1);
        }
        rest = after;
    }
}

/// Returns whether a frame that [`read`] can't use may carry TCP (RFC 8200 §4.1).
pub fn hides_tcp(frame: &[u8]) -> bool {
    let Ok((_, ip_at, EtherType::IPV6)) = link(frame) else {
        return true;
    };
    let bytes = &frame[ip_at..];
    let (Some(&first), mut at) = (bytes.get(6), 40) else {
        return true;
    };
    let mut next = first;
    for _ in 0..8 {
        if next == 6 {
            return true;
        }
        if ![0, 43, 44, 51, 60].contains(&next) {
            return false;
        }
        let Some(header) = bytes.get(at..at + 4) else {
            return true;
        };
        if next == 44 && u16::from_be_bytes([header[2], header[3]]) & 0xfff8 != 0 {
            return header[0] == 6;
        }
        at += match next {
            44 => 8,
            51 => (usize::from(header[1]) + 2) * 4,
            _ => (usize::from(header[1]) + 1) * 8,
        };
        next = header[0];
    }
    true
}

impl Reading {
    /// Returns the frame with the edit applied, and unchanged checksums.
    pub fn edited(&self, frame: &[u8], edit: &Edit) -> Vec<u8> {
        let mut bytes = frame.to_vec();
        if self.ipv6 {
            bytes[self.ip_at + 1] = bytes[self.ip_at + 1] & !0x30 | edit.ecn << 4;
        } else {
            bytes[self.ip_at + 1] = bytes[self.ip_at + 1] & !3 | edit.ecn;
        }
        bytes[self.tcp_at + 13] = edit.flags;
        if u32::from(edit.removed) & consts::OPT_AE != 0 {
            bytes[self.tcp_at + 12] &= !1;
        }
        if edit.removed != 0 {
            let end = self.tcp_at + usize::from(bytes[self.tcp_at + 12] >> 4) * 4;
            write_options(&mut bytes[self.tcp_at + 20..end], edit);
        }
        bytes[self.tcp_at + 14..self.tcp_at + 16].copy_from_slice(&edit.window.to_be_bytes());
        bytes
    }

    /// Returns the frame with zero checksums, to compare the rest.
    pub fn without_checksums(&self, frame: &[u8]) -> Vec<u8> {
        let mut bytes = frame.to_vec();
        if !self.ipv6 {
            bytes[self.ip_at + 10..self.ip_at + 12].fill(0);
        }
        bytes[self.tcp_at + 16..self.tcp_at + 18].fill(0);
        bytes
    }

    /// Checks IPv4's header checksum and TCP's over the pseudo-header (RFC 9293 §3.1): a sum over
    /// everything, including the checksum, is zero.
    pub fn checksums_hold(&self, frame: &[u8]) -> bool {
        let header = &frame[self.ip_at..self.tcp_at];
        let tcp = &frame[self.tcp_at..self.end];
        let ip = Sum16BitWords::new().add_slice(header).ones_complement();
        let addresses = if self.ipv6 {
            &header[8..40]
        } else {
            &header[12..20]
        };
        let transport = Sum16BitWords::new()
            .add_slice(addresses)
            .add_slice(&(tcp.len() as u32).to_be_bytes())
            .add_slice(&[0, 6])
            .add_slice(tcp)
            .ones_complement();
        (self.ipv6 || ip == 0) && transport == 0
    }
}
