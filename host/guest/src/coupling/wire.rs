//! The protocol of a channel: frames with a header and parts of fixed size, little endian, with a checksum.
//!
//! ```text
//! frame   magic "UcCC" · version u8 · kind u8 · parts u16 · at_ns u64 · checksum u32 · parts
//! report  from a guest: a part of 96 bytes for each of its groups
//! answer  from the host: a part of 48 bytes for each reported group
//! ```
//!
//! `at_ns` is the guest's clock when it made the report. The answer repeats this value, so that no clocks are compared.
//! The checksum is CRC-32 (IEEE 802.3) of the frame with zeros in the checksum's place. It detects a channel whose
//! other end was replaced in the middle of a frame.

/// First bytes of each frame of the coupling protocol: "UcCC".
pub(crate) const MAGIC: [u8; 4] = *b"UcCC";
/// Version of the frames' layout. An end that receives another version closes the channel.
pub const VERSION: u8 = 1;
/// Maximum number of a guest's groups that are coupled. A guest with more reports those with the largest windows.
pub const GROUPS_MAX: usize = 16;

const HEADER_BYTES: usize = 20;
const CHECKSUM_AT: usize = 16;
const REPORT_BYTES: usize = 96;
const ANSWER_BYTES: usize = 48;
/// Maximum length of a frame of the coupling protocol, in bytes.
pub const FRAME_BYTES_MAX: usize = HEADER_BYTES + GROUPS_MAX * REPORT_BYTES;

/// Identifies a group of connections within its guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupName {
    /// Remote prefix of the group's connections, with zeros after it; an IPv4 prefix as ::ffff:a.b.c.d.
    pub remote: [u8; 16],
    /// Number by which the guest tells apart groups with the same remote prefix.
    pub space: u64,
}

/// A guest's report of one group. Counters begin at 0 when the guest creates the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupReport {
    /// Identifies the reported group within its guest.
    pub name: GroupName,
    /// When the guest created the group (its monotonic clock, ns). A new value under the same name
    /// means a new group.
    pub opened_ns: u64,
    /// Number of bytes by which the group's flows have increased its window.
    pub grown_bytes: u64,
    /// Number of bytes of the group's flows that were acknowledged.
    pub acked_bytes: u64,
    /// Value of `at_ns` of the answer that the group follows; 0: the group follows no answer.
    pub taken_ns: u64,
    /// Window of the reported group, in bytes.
    pub window_bytes: u32,
    /// Slow-start threshold of the group, in bytes.
    pub ssthresh_bytes: u32,
    /// Number of the group's bytes in flight.
    pub flight_bytes: u32,
    /// Maximum bytes in flight during the last round trip.
    pub used_bytes: u32,
    /// Longest smoothed round-trip time of the group's flows, in 1/8 µs; 0: not measured.
    pub srtt_us: u32,
    /// Number of loss events that the group has responded to.
    pub cuts: u32,
    /// Time since the last loss event, in microseconds; has no meaning while `cuts` is 0.
    pub cut_age_us: u32,
    /// Window before the last loss event, in bytes.
    pub cut_from_bytes: u32,
    /// Window after the last loss event, in bytes.
    pub cut_to_bytes: u32,
    /// Segment size of the group's connections, in bytes.
    pub mss_bytes: u16,
    /// Whether only the applications limit the group's flows, not its window.
    pub limited: bool,
    /// Whether all flows of the group are in RTO recovery.
    pub stalled: bool,
}

/// The host's answer for one group of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupAnswer {
    /// Identifies the answered group within its guest.
    pub name: GroupName,
    /// Creation time of the group, as in the report.
    pub opened_ns: u64,
    /// Window that the host gives the guest's group, in bytes.
    pub window_bytes: u32,
    /// Slow-start threshold that the host gives the guest's group, in bytes.
    pub ssthresh_bytes: u32,
    /// Number of the group's loss events that the answer takes into account.
    pub cuts: u32,
    /// Time since the host last reduced the window of its own group, in microseconds; `u32::MAX`: never.
    pub cut_age_us: u32,
}

/// The content of a frame, by its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parts {
    /// Report of a guest, with all its groups; groups that are absent have ended.
    Report(Vec<GroupReport>),
    /// Answer of the host to a report.
    Answer(Vec<GroupAnswer>),
}

/// One frame of the coupling protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Guest's clock when it made the report, in nanoseconds; an answer repeats the report's value.
    pub at_ns: u64,
    /// Content of the frame.
    pub parts: Parts,
}

/// Why a channel is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes at the start of a frame are not the protocol's.
    #[error(
        "received bytes that are not a frame of the coupling protocol; connect the channel to `uc \
         guest couple` only"
    )]
    Garbage,
    /// The frame has another version of the coupling protocol.
    #[error(
        "received version {0} of the coupling protocol, but this program has version {VERSION}; \
         install the same \
         release in host and guest"
    )]
    Version(u8),
    /// The frame has a kind or a number of parts that does not exist.
    #[error(
        "received a frame that version {VERSION} of the coupling protocol lacks (kind {kind}, \
         {parts} parts)"
    )]
    Shape {
        /// Kind of the frame that is not known.
        kind: u8,
        /// Number of parts that the frame says it has.
        parts: u16,
    },
    /// The checksum of the frame does not match its bytes.
    #[error("received a frame of the coupling protocol with a wrong checksum")]
    Checksum,
}

const REPORT: u8 = 1;
const ANSWER: u8 = 2;
const LIMITED: u8 = 1;
const STALLED: u8 = 2;

impl Frame {
    /// Encodes the frame. Omits parts after the first [`GROUPS_MAX`].
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FRAME_BYTES_MAX);
        let (kind, parts) = match &self.parts {
            Parts::Report(parts) => (REPORT, parts.len()),
            Parts::Answer(parts) => (ANSWER, parts.len()),
        };
        bytes.extend(MAGIC);
        bytes.extend([VERSION, kind]);
        bytes.extend((parts.min(GROUPS_MAX) as u16).to_le_bytes());
        bytes.extend(self.at_ns.to_le_bytes());
        bytes.extend([0; HEADER_BYTES - CHECKSUM_AT]);
        match &self.parts {
            Parts::Report(parts) => parts
                .iter()
                .take(GROUPS_MAX)
                .for_each(|part| put_report(&mut bytes, part)),
            Parts::Answer(parts) => parts
                .iter()
                .take(GROUPS_MAX)
                .for_each(|part| put_answer(&mut bytes, part)),
        }
        Self::seal(&mut bytes);
        bytes
    }

    /// Writes the checksum into the bytes of a frame. Bytes that are shorter than a header stay unchanged.
    pub fn seal(bytes: &mut [u8]) {
        if bytes.len() < HEADER_BYTES {
            return;
        }
        bytes[CHECKSUM_AT..HEADER_BYTES].fill(0);
        let sum = crc32(bytes);
        bytes[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
    }

    /// Decodes the frame at the beginning of `bytes`; returns it and its length, or `None` while it is incomplete.
    ///
    /// # Errors
    /// [`WireError`], as soon as the bytes can't become a valid frame.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, WireError> {
        let known = bytes.len().min(MAGIC.len());
        if bytes[..known] != MAGIC[..known] {
            return Err(WireError::Garbage);
        }
        if let Some(&version) = bytes.get(MAGIC.len())
            && version != VERSION
        {
            return Err(WireError::Version(version));
        }
        if bytes.len() < HEADER_BYTES {
            return Ok(None);
        }
        let mut header = Reader(&bytes[5..]);
        let (kind, count, at_ns, sum) = (header.u8(), header.u16(), header.u64(), header.u32());
        let length = match kind {
            REPORT => REPORT_BYTES,
            ANSWER => ANSWER_BYTES,
            _ => 0,
        };
        if length == 0 || usize::from(count) > GROUPS_MAX {
            return Err(WireError::Shape { kind, parts: count });
        }
        let end = HEADER_BYTES + usize::from(count) * length;
        let Some(whole) = bytes.get(..end) else {
            return Ok(None);
        };
        let mut blank = whole.to_vec();
        blank[CHECKSUM_AT..HEADER_BYTES].fill(0);
        if crc32(&blank) != sum {
            return Err(WireError::Checksum);
        }
        let parts = whole[HEADER_BYTES..].chunks_exact(length).map(Reader);
        let parts = if kind == REPORT {
            Parts::Report(parts.map(take_report).collect())
        } else {
            Parts::Answer(parts.map(take_answer).collect())
        };
        Ok(Some((Self { at_ns, parts }, end)))
    }
}

fn put_report(bytes: &mut Vec<u8>, part: &GroupReport) {
    bytes.extend(part.name.remote);
    for number in [
        part.name.space,
        part.opened_ns,
        part.grown_bytes,
        part.acked_bytes,
        part.taken_ns,
    ] {
        bytes.extend(number.to_le_bytes());
    }
    for number in [
        part.window_bytes,
        part.ssthresh_bytes,
        part.flight_bytes,
        part.used_bytes,
        part.srtt_us,
        part.cuts,
        part.cut_age_us,
        part.cut_from_bytes,
        part.cut_to_bytes,
    ] {
        bytes.extend(number.to_le_bytes());
    }
    let flags = u8::from(part.limited) * LIMITED + u8::from(part.stalled) * STALLED;
    bytes.extend(part.mss_bytes.to_le_bytes());
    bytes.extend([flags, 0]);
}

fn take_report(mut from: Reader<'_>) -> GroupReport {
    let mut part = GroupReport {
        name: from.name(),
        opened_ns: from.u64(),
        grown_bytes: from.u64(),
        acked_bytes: from.u64(),
        taken_ns: from.u64(),
        window_bytes: from.u32(),
        ssthresh_bytes: from.u32(),
        flight_bytes: from.u32(),
        used_bytes: from.u32(),
        srtt_us: from.u32(),
        cuts: from.u32(),
        cut_age_us: from.u32(),
        cut_from_bytes: from.u32(),
        cut_to_bytes: from.u32(),
        mss_bytes: from.u16(),
        ..GroupReport::default()
    };
    let flags = from.u8();
    part.limited = flags & LIMITED != 0;
    part.stalled = flags & STALLED != 0;
    part
}

fn put_answer(bytes: &mut Vec<u8>, part: &GroupAnswer) {
    bytes.extend(part.name.remote);
    bytes.extend(part.name.space.to_le_bytes());
    bytes.extend(part.opened_ns.to_le_bytes());
    for number in [
        part.window_bytes,
        part.ssthresh_bytes,
        part.cuts,
        part.cut_age_us,
    ] {
        bytes.extend(number.to_le_bytes());
    }
}

fn take_answer(mut from: Reader<'_>) -> GroupAnswer {
    GroupAnswer {
        name: from.name(),
        opened_ns: from.u64(),
        window_bytes: from.u32(),
        ssthresh_bytes: from.u32(),
        cuts: from.u32(),
        cut_age_us: from.u32(),
    }
}

/// Reads the fields of a part, whose length was checked before.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (first, rest) = self.0.split_at(N);
        self.0 = rest;
        let mut taken = [0; N];
        taken.copy_from_slice(first);
        taken
    }

    fn name(&mut self) -> GroupName {
        GroupName {
            remote: self.take(),
            space: self.u64(),
        }
    }

    fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

/// Computes IEEE 802.3's CRC-32 bit by bit. This is fast enough: a frame has a few hundred bytes, and there are a
/// hundred frames per second.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, &byte: &u8| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg())
        })
    };
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_equals_that_of_ethernet() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn the_parts_have_the_documented_lengths() {
        let mut bytes = Vec::new();
        put_report(&mut bytes, &GroupReport::default());
        assert_eq!(bytes.len(), REPORT_BYTES);
        bytes.clear();
        put_answer(&mut bytes, &GroupAnswer::default());
        assert_eq!(bytes.len(), ANSWER_BYTES);
    }
}
