//! Translates sequence numbers and timestamps of scripts into those on the wire.
//!
//! A script counts them from 0; a host begins each connection at a random number. The SYN of the host
//! shows that number.

use uc_net::Ecn;
use uc_tcp::{Options, SackBlocks, Segment, flags};

use crate::syntax::{Content, Packet, Range, Tcp, TcpOption};
use crate::target::{Datagram, Report};
use crate::verdict::Stop;

/// First sequence number of the peer: numbers wrap after 4 KiB.
const THEIRS: u32 = 0u32.wrapping_sub(4096);
/// Number of SACK blocks that `uc_tcp::SackBlocks` holds.
const SACK_BLOCKS_MOST: usize = 4;
/// Time to live of segments whose script gives none.
const HOPS: u8 = 255;

/// The differences between a script's numbers and those on the wire.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    ours: u32,
    stamps: Option<u32>,
    /// Whether the next SYN of the host may have numbers of its own.
    opening: bool,
}

impl Numbers {
    /// Notes that the host may open a new connection: a call or a SYN asks for it.
    pub(crate) fn opens(&mut self) {
        self.opening = true;
    }

    /// Learns the host's numbers from its SYN, as `tcp` writes it.
    pub(crate) fn learn(&mut self, tcp: &Tcp, seen: &Segment) {
        if tcp.flags & flags::SYN == 0 || !seen.has(flags::SYN) || !self.opening {
            return;
        }
        self.opening = false;
        self.ours = seen.seq.wrapping_sub(tcp.range.from.unwrap_or(0));
        let written = tcp.options.iter().flatten().find_map(stamps);
        if let (Some((value, _)), Some((written, _))) = (seen.options.timestamps, written) {
            self.stamps = Some(value.wrapping_sub(written));
        }
    }

    /// Returns a sequence number of the host as scripts count.
    pub(crate) fn ours(&self, wire: u32) -> u32 {
        wire.wrapping_sub(self.ours)
    }

    /// Returns a sequence number of the peer as scripts count.
    pub(crate) fn theirs(&self, wire: u32) -> u32 {
        wire.wrapping_sub(THEIRS)
    }

    /// Returns a timestamp of the host as scripts count.
    pub(crate) fn stamp(&self, wire: u32) -> u32 {
        wire.wrapping_sub(self.stamps.unwrap_or(0))
    }

    /// Makes the segment that arrives.
    pub(crate) fn arriving(&self, packet: &Packet, tcp: &Tcp) -> Result<Datagram, Stop> {
        understood(packet, tcp)?;
        let Some(from) = tcp.range.from else {
            return Err(Stop::Differs(
                "an arriving segment needs a sequence number".into(),
            ));
        };
        let Some(window) = tcp.window else {
            return Err(Stop::Differs("an arriving segment needs a window".into()));
        };
        let payload_bytes = u16::try_from(tcp.range.bytes)
            .map_err(|_| Stop::Differs("a segment holds at most 65,535 bytes".into()))?;
        let (mut hops, mut class) = (HOPS, 0);
        for (name, value) in &packet.ip {
            match (name.as_str(), u8::try_from(*value)) {
                ("ttl" | "hlim", Ok(value)) => hops = value,
                ("tos" | "class", Ok(value)) => class = value & !3,
                _ => return Err(Stop::Lacks(format!("the IP field {name}"))),
            }
        }
        Ok(Datagram {
            segment: Segment {
                seq: from.wrapping_add(if tcp.range.absolute { 0 } else { THEIRS }),
                ack: tcp.ack.map_or(0, |ack| ack.wrapping_add(self.ours)),
                window,
                payload_bytes,
                flags: tcp.flags,
                ecn: packet.ecn.unwrap_or(Ecn::NotEct),
                options: self.arriving_options(tcp)?,
            },
            hops,
            class,
        })
    }

    fn arriving_options(&self, tcp: &Tcp) -> Result<Options, Stop> {
        let Some(written) = &tcp.options else {
            return Err(Stop::Differs(
                "an arriving segment needs its options".into(),
            ));
        };
        let echoes = tcp.flags & flags::ACK != 0;
        let stamp = self.stamps.filter(|_| echoes).unwrap_or(0);
        Ok(options(written, self.ours, stamp))
    }

    /// Makes the ICMP error that arrives.
    pub(crate) fn reported(&self, packet: &Packet) -> Result<Report, Stop> {
        let Content::Icmp(icmp) = &packet.content else {
            return Err(Stop::Lacks("UDP datagrams".to_owned()));
        };
        let Some(Range {
            from: Some(seq), ..
        }) = icmp.quoted
        else {
            return Err(Stop::Lacks("ICMP errors that quote no segment".to_owned()));
        };
        if packet.udp.is_some() {
            return Err(Stop::Lacks("TCP over UDP".to_owned()));
        }
        Ok(Report {
            kind: icmp.kind.clone(),
            code: icmp.code.clone(),
            mtu: icmp.mtu,
            seq: seq.wrapping_add(self.ours),
        })
    }
}

fn stamps(option: &TcpOption) -> Option<(u32, u32)> {
    match option {
        TcpOption::Timestamps(value, echo) => Some((*value, *echo)),
        _ => None,
    }
}

/// Makes options as a script writes them, with SACK blocks whose numbers are `ours` higher and an
/// echoed timestamp that is `stamp` higher.
pub(crate) fn options(written: &[TcpOption], ours: u32, stamp: u32) -> Options {
    let mut options = Options::default();
    for option in written {
        match option {
            TcpOption::Padding | TcpOption::Strange(_) => {}
            TcpOption::Mss(bytes) => options.mss_bytes = *bytes,
            TcpOption::WindowScale(scale) => options.wscale = Some(*scale),
            TcpOption::SackPermitted => options.sack_permitted = true,
            TcpOption::Sack(blocks) => options.sack = sacked(blocks, ours),
            TcpOption::Timestamps(value, echo) => {
                options.timestamps = Some((*value, echo.wrapping_add(stamp)));
            }
        }
    }
    options
}

/// Makes SACK blocks whose numbers are `added` higher.
pub(crate) fn sacked(blocks: &[(u32, u32)], added: u32) -> SackBlocks {
    let mut made = SackBlocks::default();
    for (from, to) in blocks {
        made.push(from.wrapping_add(added), to.wrapping_add(added));
    }
    made
}

/// Refuses what `uc_tcp::Segment` cannot carry.
pub(crate) fn understood(packet: &Packet, tcp: &Tcp) -> Result<(), Stop> {
    if packet.udp.is_some() {
        return Err(Stop::Lacks("TCP over UDP".to_owned()));
    }
    if !tcp.strange_flags.is_empty() {
        return Err(Stop::Lacks(format!(
            "the header flags {}",
            tcp.strange_flags
        )));
    }
    if tcp.urgent.is_some() {
        return Err(Stop::Lacks("urgent data".to_owned()));
    }
    for option in tcp.options.iter().flatten() {
        let feature = match option {
            TcpOption::Strange(name) if name == "md5" => "TCP MD5 signatures (RFC 2385)",
            TcpOption::Strange(_) => "TCP Fast Open (RFC 7413)",
            TcpOption::Sack(blocks) if blocks.len() > SACK_BLOCKS_MOST => "a fifth SACK block",
            _ => continue,
        };
        return Err(Stop::Lacks(feature.to_owned()));
    }
    Ok(())
}
