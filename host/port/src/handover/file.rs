//! The file that carries a port's flows to another host. All numbers are little-endian.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `uc-flows` |
//! | 8 | 4 | number of the format: 1 |
//! | 12 | 4 | number of the layout of a flow and its annex (`UC_FLOW_LAYOUT` in `core/flow.h`) |
//! | 16 | 4 | number of flows, at most [`FLOWS_MAX`] |
//! | 20 | 8 | time of the export, in ns since 1970 |
//! | 28 | 8 | the same by the exporting host's monotonic clock, in ns |
//! | 36 | 324 each | the flows |
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
//! | 40 | 192 | `struct uc_flow`; moments are those of the exporting host's clock |
//! | 232 | 92 | `struct uc_annex`; zeroes if the flow has none |

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use uc_core::{Annex, FLOW_LAYOUT, Flow, FlowState};
use zerocopy::{FromBytes, IntoBytes};

use super::obstacle::obstacle;
use crate::flows::mapped;

/// Maximum number of flows in a file.
pub const FLOWS_MAX: usize = 1 << 20;

const NAME: [u8; 8] = *b"uc-flows";
const FORMAT: u32 = 1;
const HEAD_BYTES: usize = 36;
const FLOW_AT: usize = 40;
const ANNEX_AT: usize = FLOW_AT + size_of::<FlowState>();
const ROW_BYTES: usize = ANNEX_AT + size_of::<Annex>();
const TAG_BYTES: usize = 8;

const _: () = assert!(ROW_BYTES == 324 && cfg!(target_endian = "little"));

/// Flows of a port, to be taken over by a port of another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// Time of the export in ns since 1970.
    pub(crate) realtime_ns: u64,
    /// Time of the export by the exporting host's monotonic clock, in ns.
    pub(crate) monotonic_ns: u64,
    pub(crate) flows: Vec<HandedFlow>,
}

/// A flow between two hosts: all that does not depend on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandedFlow {
    pub(crate) guest: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) vlan: u16,
    pub(crate) dscps: [u8; 2],
    pub(crate) state: Flow,
}

/// Errors of a file. Each names what is wrong and the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandoverError {
    /// The file does not begin as one.
    #[error(
        "not written by `uc handover --out`: it does not begin with 'uc-flows'; give another file"
    )]
    Foreign,
    /// The file has another format.
    #[error(
        "its format has number {0}, and this uc reads number {FORMAT}; give both hosts the same \
         release of uc"
    )]
    Format(u32),
    /// The flows have another layout.
    #[error(
        "its flows have layout {0}, and those of this uc layout {FLOW_LAYOUT}; give both hosts the \
         same release of uc"
    )]
    Layout(u32),
    /// The file has another length than its number of flows says.
    #[error(
        "its length does not fit its number of flows ({flows}): it has {bytes} bytes; it was cut \
         short, or another follows it: copy it again"
    )]
    Length {
        /// The file's length in bytes.
        bytes: usize,
        /// The number of flows that the file names.
        flows: u32,
    },
    /// The file names more flows than any may have.
    #[error("{0} flows, and the limit is {FLOWS_MAX}: they cannot be handed over")]
    TooMany(usize),
    /// No key of this host has signed the file.
    #[error(
        "it was changed, or signed with another key than those of --key-file; give both hosts the same \
         key, or copy the file again"
    )]
    NotSigned,
    /// A flow that a host would not have written.
    #[error("flow {number} of it: {why}; write the file again on the other host")]
    Flow {
        /// Number of the flow, from 1.
        number: usize,
        /// What is wrong.
        why: &'static str,
    },
}

impl Handover {
    /// Maximum size of a file in bytes.
    pub const BYTES_MAX: usize = HEAD_BYTES + FLOWS_MAX * ROW_BYTES + TAG_BYTES;

    /// Returns the number of flows.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Returns whether there is no flow.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Returns the file. `sign` returns the tag of the bytes before it.
    ///
    /// # Errors
    /// [`HandoverError::TooMany`].
    pub fn write(&self, sign: impl FnOnce(&[u8]) -> u64) -> Result<Vec<u8>, HandoverError> {
        if self.len() > FLOWS_MAX {
            return Err(HandoverError::TooMany(self.len()));
        }
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.len() * ROW_BYTES + TAG_BYTES);
        bytes.extend(NAME);
        for number in [FORMAT, FLOW_LAYOUT, self.len() as u32] {
            bytes.extend(number.to_le_bytes());
        }
        for time_ns in [self.realtime_ns, self.monotonic_ns] {
            bytes.extend(time_ns.to_le_bytes());
        }
        for flow in &self.flows {
            flow.write(&mut bytes);
        }
        let tag = sign(&bytes);
        bytes.extend(tag.to_le_bytes());
        Ok(bytes)
    }

    /// Reads a file, of which nothing is used unless all of it is as a host writes it. `is_signed` returns
    /// whether a tag is that of the bytes before it.
    ///
    /// # Errors
    /// [`HandoverError`], whichever is found first.
    pub fn read(
        bytes: &[u8],
        is_signed: impl FnOnce(&[u8], u64) -> bool,
    ) -> Result<Handover, HandoverError> {
        if !bytes.starts_with(&NAME) {
            return Err(HandoverError::Foreign);
        }
        if bytes.len() < HEAD_BYTES + TAG_BYTES {
            let bytes = bytes.len();
            return Err(HandoverError::Length { bytes, flows: 0 });
        }
        let word = |at: usize| number(&bytes[at..at + 4]) as u32;
        match (word(8), word(12), word(16)) {
            (FORMAT, FLOW_LAYOUT, flows) if flows as usize > FLOWS_MAX => {
                return Err(HandoverError::TooMany(flows as usize));
            }
            (FORMAT, FLOW_LAYOUT, flows) => {
                let rows = flows as usize * ROW_BYTES;
                if bytes.len() != HEAD_BYTES + rows + TAG_BYTES {
                    let bytes = bytes.len();
                    return Err(HandoverError::Length { bytes, flows });
                }
            }
            (FORMAT, layout, _) => return Err(HandoverError::Layout(layout)),
            (format, ..) => return Err(HandoverError::Format(format)),
        }
        let (signed, tag) = bytes.split_at(bytes.len() - TAG_BYTES);
        if !is_signed(signed, number(tag)) {
            return Err(HandoverError::NotSigned);
        }
        let mut handover = Handover {
            realtime_ns: number(&signed[20..28]),
            monotonic_ns: number(&signed[28..HEAD_BYTES]),
            flows: Vec::new(),
        };
        let rows = signed[HEAD_BYTES..].chunks_exact(ROW_BYTES);
        handover.flows = rows.map(HandedFlow::read).collect();
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

impl HandedFlow {
    fn write(&self, bytes: &mut Vec<u8>) {
        for end in [self.guest, self.remote] {
            bytes.extend(end.port().to_le_bytes());
        }
        for end in [self.guest, self.remote] {
            bytes.extend(mapped(end.ip()).octets());
        }
        bytes.extend(self.vlan.to_le_bytes());
        bytes.extend(self.dscps);
        bytes.extend(self.state.flow.as_bytes());
        bytes.extend(self.state.annex.as_bytes());
    }

    /// Reads a flow from its bytes.
    fn read(row: &[u8]) -> HandedFlow {
        let end = |port: usize, address: usize| {
            let octets: [u8; 16] = row[address..address + 16].try_into().expect("sixteen");
            let address = IpAddr::V6(Ipv6Addr::from(octets)).to_canonical();
            SocketAddr::new(address, number(&row[port..port + 2]) as u16)
        };
        let mut state = Flow::from(part::<FlowState>(&row[FLOW_AT..ANNEX_AT]));
        state.annex = part(&row[ANNEX_AT..]);
        HandedFlow {
            guest: end(0, 4),
            remote: end(2, 20),
            vlan: number(&row[36..38]) as u16,
            dscps: [row[38], row[39]],
            state,
        }
    }

    /// Returns why no host has such a flow; `None` if one may have it. `until_ns`: the time of the export.
    fn fault(&self, until_ns: u64) -> Option<&'static str> {
        let ends = [self.guest, self.remote];
        let is_one = |end: &SocketAddr| {
            end.port() != 0 && !end.ip().is_unspecified() && !end.ip().is_multicast()
        };
        // what has an obstacle is not entered
        let is_sound = self.state.is_sound() || obstacle(&self.state).is_some();
        match () {
            () if !ends.iter().all(is_one) => Some("an address or port of it is no connection's"),
            () if self.guest.is_ipv4() != self.remote.is_ipv4() => Some("it mixes IPv4 and IPv6"),
            () if self.vlan > 4095 => Some("its VLAN does not exist"),
            () if self.dscps.iter().any(|dscp| *dscp > 63) => Some("its DSCP does not exist"),
            () if self.state.seen_ns > until_ns => Some("its last segment is after the export"),
            () if !is_sound => Some("its state is invalid"),
            () => None,
        }
    }
}

/// Reads a number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(whole)
}

/// Reads a struct from bytes of its size.
fn part<T: FromBytes>(bytes: &[u8]) -> T {
    T::read_from_bytes(bytes).expect("a row has bytes for its parts")
}

#[cfg(test)]
mod tests;
