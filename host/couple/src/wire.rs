//! What goes over a channel: frames of fixed parts, little endian, with a checksum.
//!
//! ```text
//! frame   magic "UcCC" · version u8 · kind u8 · parts u16 · at_ns u64 · checksum u32 · parts
//! report  a part of 96 bytes for each group of the guest; a frame has all of them
//! answer  a part of 48 bytes for each of these
//! ```
//!
//! `at_ns` is the guest's clock when it made the report; the answer repeats it, so no clocks are
//! compared. The checksum is CRC-32 (IEEE 802.3) of the frame with zeros in its place: a channel
//! whose other end was exchanged in the middle of a frame is found out.

/// How a frame begins: "UcCC".
pub(crate) const MAGIC: [u8; 4] = *b"UcCC";
/// Another layout is another version. Who hears one that it doesn't know closes the channel.
pub const VERSION: u8 = 1;
/// Groups of one guest that are coupled; it reports those with the largest windows.
pub const GROUPS_MAX: usize = 16;

const HEADER_BYTES: usize = 20;
const CHECKSUM_AT: usize = 16;
const REPORT_BYTES: usize = 96;
const ANSWER_BYTES: usize = 48;
/// The longest frame.
pub const FRAME_BYTES_MAX: usize = HEADER_BYTES + GROUPS_MAX * REPORT_BYTES;

/// Which group of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupName {
    /// Where its connections go: the prefix with zeros after it, IPv4 as ::ffff:a.b.c.d.
    pub remote: [u8; 16],
    /// The guest's own number for groups that go to the same place.
    pub space: u64,
}

/// What a guest says of one group. Counters count from when the group was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupReport {
    /// Which one.
    pub name: GroupName,
    /// Another number: another group under the name.
    pub opened_ns: u64,
    /// By how much its flows have opened its window.
    pub grown_bytes: u64,
    /// What they had acknowledged.
    pub acked_bytes: u64,
    /// `at_ns` of the answer that it follows; 0: none.
    pub taken_ns: u64,
    /// Its window.
    pub window_bytes: u32,
    /// Its slow start threshold.
    pub ssthresh_bytes: u32,
    /// In flight now.
    pub flight_bytes: u32,
    /// The most in flight during the last round trip.
    pub used_bytes: u32,
    /// The longest smoothed round trip of its flows, ×8; 0: not measured.
    pub srtt_us: u32,
    /// Loss events that it has answered.
    pub cuts: u32,
    /// How long ago the last was.
    pub cut_age_us: u32,
    /// Its window before that one.
    pub cut_from_bytes: u32,
    /// And after.
    pub cut_to_bytes: u32,
    /// A segment.
    pub mss_bytes: u16,
    /// Its window holds back nobody: the applications do.
    pub limited: bool,
    /// All its flows wait after a timeout.
    pub stalled: bool,
}

/// What the host says to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupAnswer {
    /// Of which group.
    pub name: GroupName,
    /// Of which of that name.
    pub opened_ns: u64,
    /// The group's window.
    pub window_bytes: u32,
    /// Its part of ssthresh.
    pub ssthresh_bytes: u32,
    /// How many of its cuts are in this.
    pub cuts: u32,
    /// How long ago the host cut last; the largest number: never.
    pub cut_age_us: u32,
}

/// The parts of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parts {
    /// From a guest: all its groups; those that aren't here have ended.
    Report(Vec<GroupReport>),
    /// To a guest.
    Answer(Vec<GroupAnswer>),
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The guest's clock when the report was made.
    pub at_ns: u64,
    /// What is in it.
    pub parts: Parts,
}

/// Why a channel isn't listened to any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// No frame begins where one should.
    #[error("not a frame of this protocol; is anything else connected to the channel?")]
    Garbage,
    /// A frame of another version.
    #[error(
        "version {0} of the protocol, this is {VERSION}; install the same release at both ends"
    )]
    Version(u8),
    /// A kind of frame, or a number of parts, that there isn't.
    #[error("a frame that no version {VERSION} has (kind {kind}, {parts} parts)")]
    Shape {
        /// Its kind.
        kind: u8,
        /// And parts.
        parts: u16,
    },
    /// The checksum is another.
    #[error("a damaged frame")]
    Checksum,
}

const REPORT: u8 = 1;
const ANSWER: u8 = 2;
const LIMITED: u8 = 1;
const STALLED: u8 = 2;

impl Frame {
    /// The bytes of the frame. Parts beyond [`GROUPS_MAX`] are left out.
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
        let sum = crc32(&bytes);
        bytes[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The frame at the beginning of `bytes` and its length; `None` while it isn't complete.
    ///
    /// # Errors
    /// [`WireError`], as soon as what is there can't become a frame.
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

/// Takes numbers off the front of a part, whose length was checked.
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

/// IEEE 802.3's, bit by bit: a frame has a few hundred bytes, a hundred times a second.
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
    fn the_checksum_is_the_one_of_ethernet() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn the_parts_have_the_lengths_that_are_said() {
        let mut bytes = Vec::new();
        put_report(&mut bytes, &GroupReport::default());
        assert_eq!(bytes.len(), REPORT_BYTES);
        bytes.clear();
        put_answer(&mut bytes, &GroupAnswer::default());
        assert_eq!(bytes.len(), ANSWER_BYTES);
    }
}
