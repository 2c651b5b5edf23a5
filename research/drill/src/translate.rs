//! Translates sequence numbers and timestamps of scripts into those on the wire.
//!
//! A script counts them from those of the SYNs that it writes; a host begins each connection at a random
//! number. The SYN of the host shows that number.

use std::collections::HashMap;

use uc_net::Ecn;
use uc_tcp::{Options, SackBlocks, Segment, flags};

use crate::syntax::{Content, OtherOption, Packet, Tcp, TcpOption};
use crate::target::{Datagram, Report};
use crate::verdict::Stop;

/// Sequence number on the wire for the peer's 0 in a script. After 4096 bytes the numbers wrap.
const THEIRS: u32 = 0u32.wrapping_sub(4096);
/// Number of SACK blocks that `uc_tcp::SackBlocks` holds.
const SACK_BLOCKS_MOST: usize = 4;
/// Kind of the option for MD5 signatures.
const MD5: u8 = 19;
/// Time to live of segments whose script gives none.
const HOPS: u8 = 255;

/// One end's initial sequence number, on the wire and in the script.
///
/// A script's SYN has any number. Later numbers in the script are relative to the SYN, which counts as 0 for them.
#[derive(Clone, Copy, Debug, Default)]
struct Initial {
    wire: u32,
    written: u32,
}

impl Initial {
    /// Returns what a number on the wire has more than the script's; `is_syn`: the segment has SYN.
    fn added(self, is_syn: bool) -> u32 {
        let written = if is_syn { self.written } else { 0 };
        self.wire.wrapping_sub(written)
    }
}

/// The differences between a script's numbers and those on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    ours: Initial,
    theirs: Initial,
    /// Whether `theirs` is the peer's number of the present connection.
    knows_theirs: bool,
    /// The peer's number from a SYN that may open another connection; `None`: no such SYN is open.
    offered: Option<Initial>,
    stamps: Option<u32>,
    /// Timestamps on the wire that the host has sent, by their values in the script.
    sent_stamps: HashMap<u32, u32>,
    /// Whether the host's next SYN may begin a new connection, so that its numbers are learned.
    opening: bool,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers {
            ours: Initial::default(),
            theirs: Initial {
                wire: THEIRS,
                written: 0,
            },
            knows_theirs: false,
            offered: None,
            stamps: None,
            sent_stamps: HashMap::new(),
            opening: false,
        }
    }
}

impl Numbers {
    /// Notes that the host may open a new connection: a call or a SYN asks for it.
    pub(crate) fn opens(&mut self) {
        self.opening = true;
    }

    /// Learns the host's numbers from a segment `seen` that it sent; `tcp` is the segment as the script writes it.
    pub(crate) fn learn(&mut self, tcp: &Tcp, seen: &Segment) {
        if tcp.flags & flags::SYN != 0 && seen.has(flags::SYN) && self.opening {
            self.opening = false;
            self.ours = Initial {
                wire: seen.seq,
                written: tcp.range.from.unwrap_or(0),
            };
            match self.offered.take() {
                Some(offered) if seen.has(flags::ACK) => self.theirs = offered,
                _ => self.knows_theirs &= seen.has(flags::ACK),
            }
            self.stamps = None;
            self.sent_stamps.clear();
        }
        let written = tcp.options.iter().flatten().find_map(stamps);
        if let (Some((value, _)), Some((written, _))) = (seen.options.timestamps, written) {
            self.stamps.get_or_insert(value.wrapping_sub(written));
            self.sent_stamps.insert(written, value);
        }
    }

    /// Returns what the host's sequence numbers on the wire have more than the script's; `is_syn`: on a segment with
    /// SYN.
    pub(crate) fn ours(&self, is_syn: bool) -> u32 {
        self.ours.added(is_syn)
    }

    /// Returns what the peer's sequence numbers on the wire have more than the script's; `is_syn`: on a segment with
    /// SYN.
    pub(crate) fn theirs(&self, is_syn: bool) -> u32 {
        self.theirs.added(is_syn)
    }

    /// Returns the script's value of a timestamp that the host sent.
    pub(crate) fn stamp(&self, wire: u32) -> u32 {
        wire.wrapping_sub(self.stamps.unwrap_or(0))
    }

    /// Makes the segment that arrives.
    pub(crate) fn arriving(&mut self, packet: &Packet, tcp: &Tcp) -> Result<Datagram, Stop> {
        let Some(from) = tcp.range.from else {
            return Err(Stop::Differs(
                "the script gives an arriving segment no sequence number; add it".into(),
            ));
        };
        let Some(window) = tcp.window else {
            return Err(Stop::Differs(
                "the script gives an arriving segment no window; add `win`".into(),
            ));
        };
        let payload_bytes = u16::try_from(tcp.range.bytes)
            .map_err(|_| Stop::Differs("a segment holds at most 65,535 bytes".into()))?;
        let (mut hops, mut class) = (HOPS, 0);
        let mut ecn = packet.ecn.unwrap_or(Ecn::NotEct);
        for (name, value) in &packet.ip {
            match (name.as_str(), u8::try_from(*value)) {
                ("ttl" | "hlim", Ok(value)) => hops = value,
                ("tos" | "class", Ok(value)) => {
                    class = value & !3;
                    ecn = Ecn::from_bits(value & 3);
                }
                _ => return Err(Stop::Lacks(format!("the IP field {name} is not supported"))),
            }
        }
        let is_syn = tcp.flags & flags::SYN != 0;
        if is_syn {
            self.opens();
            let initial = Initial {
                wire: THEIRS.wrapping_add(from),
                written: from,
            };
            if self.knows_theirs {
                self.offered = Some(initial);
            } else {
                (self.theirs, self.knows_theirs) = (initial, true);
            }
        }
        let added = match (tcp.range.absolute, is_syn) {
            (true, _) => 0,
            (false, true) => THEIRS,
            (false, false) => self.theirs(false),
        };
        Ok(Datagram {
            segment: Segment {
                seq: from.wrapping_add(added),
                ack: tcp.ack.map_or(0, |ack| ack.wrapping_add(self.ours(is_syn))),
                window,
                payload_bytes,
                flags: tcp.flags,
                ecn,
                options: self.arriving_options(tcp)?,
            },
            hops,
            class,
            urgent: tcp.urgent,
            others: others(tcp),
        })
    }

    fn arriving_options(&self, tcp: &Tcp) -> Result<Options, Stop> {
        let Some(written) = &tcp.options else {
            return Err(Stop::Differs(
                "the script gives an arriving segment no options; add `<…>`".into(),
            ));
        };
        let mut options = options(written, self.ours(tcp.flags & flags::SYN != 0));
        if let Some((_, echo)) = &mut options.timestamps
            && tcp.flags & flags::ACK != 0
        {
            let sent = self.sent_stamps.get(echo).copied();
            *echo = sent.unwrap_or(echo.wrapping_add(self.stamps.unwrap_or(0)));
        }
        Ok(options)
    }

    /// Makes the ICMP error that arrives. If the script's error quotes no segment, it quotes the host's initial
    /// sequence number.
    pub(crate) fn reported(&self, packet: &Packet) -> Result<Report, Stop> {
        let Content::Icmp(icmp) = &packet.content else {
            return Err(Stop::Lacks("UDP datagrams are not supported".to_owned()));
        };
        let quoted = icmp.quoted.and_then(|range| range.from).unwrap_or(0);
        if packet.udp.is_some() {
            return Err(Stop::Lacks("TCP over UDP is not supported".to_owned()));
        }
        Ok(Report {
            kind: icmp.kind.clone(),
            code: icmp.code.clone(),
            mtu: icmp.mtu,
            seq: quoted.wrapping_add(self.ours(false)),
        })
    }
}

/// Returns the options of a segment that `uc_tcp` does not know.
pub(crate) fn others(tcp: &Tcp) -> Vec<OtherOption> {
    let options = tcp.options.iter().flatten();
    let other = options.filter_map(|option| match option {
        TcpOption::Other(other) => Some(other.clone()),
        _ => None,
    });
    other.collect()
}

fn stamps(option: &TcpOption) -> Option<(u32, u32)> {
    match option {
        TcpOption::Timestamps(value, echo) => Some((*value, *echo)),
        _ => None,
    }
}

/// Makes options as a script writes them, with SACK blocks whose numbers are `added` higher.
pub(crate) fn options(written: &[TcpOption], added: u32) -> Options {
    let mut options = Options::default();
    for option in written {
        match option {
            TcpOption::Padding | TcpOption::Other(_) => {}
            TcpOption::Mss(bytes) => options.mss_bytes = *bytes,
            TcpOption::WindowScale(scale) => options.wscale = Some(*scale),
            TcpOption::SackPermitted => options.sack_permitted = true,
            TcpOption::Sack(blocks) => options.sack = sacked(blocks, added),
            TcpOption::Timestamps(value, echo) => options.timestamps = Some((*value, *echo)),
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

/// Refuses what a target cannot carry; `is_kernel`: the target carries any options and urgent data.
pub(crate) fn understood(packet: &Packet, tcp: &Tcp, is_kernel: bool) -> Result<(), Stop> {
    if packet.udp.is_some() {
        return Err(Stop::Lacks("TCP over UDP is not supported".to_owned()));
    }
    if tcp.strange_flags.contains('A') {
        return Err(Stop::Lacks(
            "Accurate ECN (RFC 9768) is not supported".to_owned(),
        ));
    }
    if !is_kernel && (tcp.urgent.is_some() || !tcp.strange_flags.is_empty()) {
        return Err(Stop::Lacks("urgent data is not supported".to_owned()));
    }
    for option in tcp.options.iter().flatten() {
        let feature = match option {
            TcpOption::Other(_) if is_kernel => continue,
            TcpOption::Other(other) if other.kind == MD5 => {
                "the option TCP MD5 signature (RFC 2385)"
            }
            TcpOption::Other(_) => "TCP Fast Open (RFC 7413)",
            TcpOption::Sack(blocks) if blocks.len() > SACK_BLOCKS_MOST => "a fifth SACK block",
            _ => continue,
        };
        return Err(Stop::Lacks(format!("{feature} is not supported")));
    }
    Ok(())
}
