//! The file that carries a port's flows to another host. All numbers are little-endian.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `uc-flows` |
//! | 8 | 4 | number of the format: 2 |
//! | 12 | 4 | bytes of the description, at most [`DESCRIPTION_MAX`] |
//! | 16 | 4 | number of flows, at most [`FLOWS_MAX`] |
//! | 20 | 8 | time of the export, in ns since 1970 |
//! | 28 | 8 | the same by the exporting host's monotonic clock, in ns |
//! | 36 | 4 | bytes of a flow, at most [`ROW_MAX`] |
//! | 40 | | description of `uc_flow` and `uc_annex` (`structs/description.rs`): the importing host may have another layout of them |
//! | then | | the flows |
//! | last | 8 | tag of all bytes before: SipHash-2-4 with the fleet's key (`docs/hwatch.md`) |
//!
//! A flow:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 2 + 2 | TCP ports of the guest and of the other end |
//! | 4 | 16 + 16 | their addresses; IPv4 as ::ffff:a.b.c.d |
//! | 36 | 2 | VLAN ID; 0: in none |
//! | 38 | 1 + 1 | DSCP of its SYN, and of the SYN that it stores |
//! | 40 | as described | `struct uc_flow`; moments are those of the exporting host's clock |
//! | then | as described | `struct uc_annex`; zeroes if the flow has none |

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use uc_core::{Annex, Flow, FlowState};
use zerocopy::IntoBytes;

use super::obstacle::{Obstacle, obstacle};
use crate::bytes;
use crate::flows::mapped;
use crate::object::own_shapes;
use crate::structs::conversion::Conversion;
use crate::structs::shape::Shape;

/// Maximum number of flows in a file.
pub const FLOWS_MAX: usize = 1 << 20;

const FORMAT: u32 = 2;
const HEAD_BYTES: usize = 40;
const FLOW_AT: usize = 40;
const ROW_BYTES: usize = FLOW_AT + size_of::<FlowState>() + size_of::<Annex>();
const TAG_BYTES: usize = 8;

/// Maximum size of a flow in a file, in bytes.
pub const ROW_MAX: usize = 4096;
/// Maximum size of a description, in bytes.
pub const DESCRIPTION_MAX: usize = 1 << 16;

/// Names of the structs that [`own_shapes`] describes, in the same order.
const STRUCTS: [&str; 2] = ["uc_flow", "uc_annex"];

const _: () = assert!(ROW_BYTES <= ROW_MAX && cfg!(target_endian = "little"));

/// Flows of a port, to be taken over by a port of another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// Time of the export in ns since 1970.
    pub(crate) realtime_ns: u64,
    /// Time of the export by the exporting host's monotonic clock, in ns.
    pub(crate) monotonic_ns: u64,
    pub(crate) flows: Vec<HandedFlow>,
    /// Names of fields that the exporting host's flows have and this build's lack.
    pub(crate) dropped: Vec<String>,
}

/// The part of a flow that does not depend on the host, as it is handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandedFlow {
    pub(crate) guest: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) vlan: u16,
    pub(crate) dscps: [u8; 2],
    pub(crate) state: Flow,
    /// Whether all values of the flow fit into this build's fields.
    pub(crate) fits: bool,
}

/// Errors of a file. Each names what is wrong and the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandoverError {
    /// The file does not begin as a hand-over file does.
    #[error(
        "not written by `uc handover --out`: it does not begin with 'uc-flows'; give another file"
    )]
    Foreign,
    /// The hand-over file has the number of another format.
    #[error(
        "its format has number {0}, and this uc reads number {FORMAT}; give both hosts the same \
         release of uc"
    )]
    Format(u32),
    /// The hand-over file ends within its head; the number is its length in bytes.
    #[error("it has {0} bytes, fewer than its head: it was cut short; copy it again")]
    Short(usize),
    /// The description of a flow's fields can't be read, or does not fit the size of the flows.
    #[error(
        "its description of a flow can't be read; copy it again, or give both hosts the same release \
         of uc"
    )]
    Description,
    /// The file has another length than its number of flows says.
    #[error(
        "its length does not fit its number of flows ({flows}): it has {bytes} bytes; it was cut \
         short, or another follows it: copy it again"
    )]
    Length {
        /// Length of the file in bytes.
        bytes: usize,
        /// The number of flows that the file names.
        flows: u32,
    },
    /// The hand-over has more flows than a file may have, 2^20.
    #[error("it names {0} flows, and a hand-over file has at most {FLOWS_MAX}")]
    TooMany(usize),
    /// No key of this host has signed the file.
    #[error(
        "it was changed, or signed with another key than those of --key-file; give both hosts the same \
         key, or copy the file again"
    )]
    NotSigned,
    /// A flow that a host would not have written.
    #[error("its flow {number}: {why}; write the file again on the old host")]
    Flow {
        /// Position of the invalid flow in the file, from 1.
        number: usize,
        /// Description of what is wrong with the flow.
        why: &'static str,
    },
}

impl Handover {
    /// The first bytes of every hand-over file.
    pub const NAME: [u8; 8] = *b"uc-flows";
    /// Maximum size of a file in bytes.
    pub const BYTES_MAX: usize = HEAD_BYTES + DESCRIPTION_MAX + FLOWS_MAX * ROW_MAX + TAG_BYTES;

    /// Returns the number of flows that are handed over.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Returns whether no flow is handed over.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Returns the names of fields that the exporting host's flows have and this build's lack: what they
    /// held is lost.
    pub fn dropped(&self) -> &[String] {
        &self.dropped
    }

    /// Returns the description of this build's flows.
    pub fn description() -> String {
        let each = STRUCTS.iter().zip(own_shapes());
        each.map(|(name, shape)| shape.describe(name)).collect()
    }

    /// Returns the bytes of the file. `sign` computes the tag at its end from all bytes before.
    ///
    /// # Errors
    /// [`HandoverError::TooMany`].
    pub fn write(&self, sign: impl FnOnce(&[u8]) -> u64) -> Result<Vec<u8>, HandoverError> {
        self.write_as(&Self::description(), sign)
    }

    /// Returns the file as a host writes it whose flows have this description. For tests.
    ///
    /// # Errors
    /// [`HandoverError::TooMany`]; [`HandoverError::Description`].
    pub fn write_as(
        &self,
        described: &str,
        sign: impl FnOnce(&[u8]) -> u64,
    ) -> Result<Vec<u8>, HandoverError> {
        if self.len() > FLOWS_MAX {
            return Err(HandoverError::TooMany(self.len()));
        }
        let [flow, annex] = shapes(described).ok_or(HandoverError::Description)?;
        let row_bytes = FLOW_AT + flow.bytes + annex.bytes;
        let [own_flow, own_annex] = own_shapes();
        let there = [
            Conversion::new(own_flow, &flow),
            Conversion::new(own_annex, &annex),
        ];
        let rows_bytes = self.len() * row_bytes;
        let all_bytes = HEAD_BYTES + described.len() + rows_bytes + TAG_BYTES;
        let mut bytes = Vec::with_capacity(all_bytes);
        bytes.extend(Self::NAME);
        for number in [FORMAT, described.len() as u32, self.len() as u32] {
            bytes.extend(number.to_le_bytes());
        }
        for time_ns in [self.realtime_ns, self.monotonic_ns] {
            bytes.extend(time_ns.to_le_bytes());
        }
        bytes.extend((row_bytes as u32).to_le_bytes());
        bytes.extend(described.as_bytes());
        for flow in &self.flows {
            flow.write(&mut bytes, &there);
        }
        let tag = sign(&bytes);
        bytes.extend(tag.to_le_bytes());
        Ok(bytes)
    }

    /// Reads a file. Refuses the whole file if any part is not as a host writes it. `is_signed` returns whether a tag
    /// is that of the bytes before it.
    ///
    /// # Errors
    /// [`HandoverError`], whichever is found first.
    pub fn read(
        bytes: &[u8],
        is_signed: impl FnOnce(&[u8], u64) -> bool,
    ) -> Result<Handover, HandoverError> {
        if !bytes.starts_with(&Self::NAME) {
            return Err(HandoverError::Foreign);
        }
        if bytes.len() < HEAD_BYTES + TAG_BYTES {
            return Err(HandoverError::Short(bytes.len()));
        }
        let word = |at: usize| number(&bytes[at..at + 4]) as usize;
        let (format, described, flows, row_bytes) = (word(8), word(12), word(16), word(36));
        if format != FORMAT as usize {
            return Err(HandoverError::Format(format as u32));
        }
        if flows > FLOWS_MAX {
            return Err(HandoverError::TooMany(flows));
        }
        if described > DESCRIPTION_MAX || row_bytes > ROW_MAX {
            return Err(HandoverError::Description);
        }
        let rows_at = HEAD_BYTES + described;
        if bytes.len() != rows_at + flows * row_bytes + TAG_BYTES {
            let (bytes, flows) = (bytes.len(), flows as u32);
            return Err(HandoverError::Length { bytes, flows });
        }
        let (signed, tag) = bytes.split_at(bytes.len() - TAG_BYTES);
        if !is_signed(signed, number(tag)) {
            return Err(HandoverError::NotSigned);
        }
        let layout = Layout::read(&signed[HEAD_BYTES..rows_at], row_bytes);
        let layout = layout.ok_or(HandoverError::Description)?;
        let rows = signed[rows_at..].chunks_exact(row_bytes);
        let handover = Handover {
            realtime_ns: number(&signed[20..28]),
            monotonic_ns: number(&signed[28..36]),
            flows: rows.map(|row| HandedFlow::read(row, &layout)).collect(),
            dropped: [layout.flow.dropped(), layout.annex.dropped()].concat(),
        };
        handover.check()?;
        Ok(handover)
    }

    /// Checks that each flow is one that a host may have, and none is there twice.
    fn check(&self) -> Result<(), HandoverError> {
        let mut seen = HashSet::new();
        for (flow, number) in self.flows.iter().zip(1..) {
            let why = match flow.fault(self.monotonic_ns) {
                Some(why) => why,
                None if seen.insert((flow.guest, flow.remote, flow.vlan)) => continue,
                None => "its ends are those of a flow before it",
            };
            return Err(HandoverError::Flow { number, why });
        }
        Ok(())
    }
}

/// How the flows of a file are converted to this build's.
struct Layout {
    flow: Conversion,
    annex: Conversion,
    /// Offset of the annex in a flow's row, in bytes.
    annex_at: usize,
}

impl Layout {
    /// Reads a description of flows. `None` if it is invalid, or its flows do not have `row_bytes`.
    fn read(described: &[u8], row_bytes: usize) -> Option<Layout> {
        let text = std::str::from_utf8(described).ok()?;
        let [flow, annex] = shapes(text)?;
        let [own_flow, own_annex] = own_shapes();
        let annex_at = FLOW_AT + flow.bytes;
        (annex_at + annex.bytes == row_bytes).then(|| Layout {
            flow: Conversion::new(&flow, own_flow),
            annex: Conversion::new(&annex, own_annex),
            annex_at,
        })
    }
}

impl HandedFlow {
    /// Appends the flow to a file; `there` converts its state and its annex to the file's layout.
    fn write(&self, bytes: &mut Vec<u8>, there: &[Conversion; 2]) {
        for end in [self.guest, self.remote] {
            bytes.extend(end.port().to_le_bytes());
        }
        for end in [self.guest, self.remote] {
            bytes.extend(mapped(end.ip()).octets());
        }
        bytes.extend(self.vlan.to_le_bytes());
        bytes.extend(self.dscps);
        let state = [self.state.flow.as_bytes(), self.state.annex.as_bytes()];
        for (conversion, own) in there.iter().zip(state) {
            bytes.extend(conversion.convert(own).0);
        }
    }

    /// Reads a flow of the hand-over file from its bytes.
    fn read(row: &[u8], layout: &Layout) -> HandedFlow {
        let end = |port: usize, address: usize| {
            let octets: [u8; 16] = row[address..address + 16].try_into().expect("sixteen");
            let address = IpAddr::V6(Ipv6Addr::from(octets)).to_canonical();
            SocketAddr::new(address, number(&row[port..port + 2]) as u16)
        };
        let (flow, no_room) = layout.flow.convert(&row[FLOW_AT..layout.annex_at]);
        let (annex, no_room_either) = layout.annex.convert(&row[layout.annex_at..]);
        let mut state = Flow::from(bytes::read::<FlowState>(&flow).unwrap_or_default());
        state.annex = bytes::read(&annex).unwrap_or_default();
        HandedFlow {
            guest: end(0, 4),
            remote: end(2, 20),
            vlan: number(&row[36..38]) as u16,
            dscps: [row[38], row[39]],
            state,
            fits: no_room.is_none() && no_room_either.is_none(),
        }
    }

    /// Returns why this host can't take over the flow; `None` if it can.
    pub(crate) fn obstacle(&self) -> Option<Obstacle> {
        match self.fits {
            true => obstacle(&self.state),
            false => Some(Obstacle::Narrow),
        }
    }

    /// Returns why no host has such a flow; `None` if one may have it. `until_ns`: the time of the export.
    fn fault(&self, until_ns: u64) -> Option<&'static str> {
        let ends = [self.guest, self.remote];
        let is_one = |end: &SocketAddr| {
            end.port() != 0 && !end.ip().is_unspecified() && !end.ip().is_multicast()
        };
        // what has an obstacle is not entered
        let is_sound = self.state.is_sound() || self.obstacle().is_some();
        match () {
            () if !ends.iter().all(is_one) => {
                Some("an address or port is one that no connection has")
            }
            () if self.guest.is_ipv4() != self.remote.is_ipv4() => Some("it mixes IPv4 and IPv6"),
            () if self.vlan > 4095 => Some("its VLAN does not exist"),
            () if self.dscps.iter().any(|dscp| *dscp > 63) => Some("its DSCP does not exist"),
            () if self.state.seen_ns > until_ns => Some("its last segment is after the export"),
            () if !is_sound => Some("its state is invalid"),
            () => None,
        }
    }
}

/// Reads the shapes of [`STRUCTS`] from a description of flows; `None` if it is not one.
fn shapes(described: &str) -> Option<[Shape; 2]> {
    let lines: Vec<&str> = described.lines().collect();
    let [flow, annex] = STRUCTS.map(|name| Shape::of_description(name, &lines));
    Some([flow?, annex?])
}

/// Reads a little-endian number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(whole)
}

#[cfg(test)]
mod tests;
