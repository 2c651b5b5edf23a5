//! Questions for first windows and their answers: one UDP datagram each, signed with the hosts' key.
//!
//! ```text
//!    0       4       8              16      20             28
//!    | kind  | value | id           | slot  | tag          |
//! ```
//!
//! Numbers are big-endian. The slot is the time slot of probes (`bpf/watch/probe.h`), so hosts whose
//! clocks agree for probes agree here; the tag is SipHash-2-4 of all before it.

use crate::key::{ProbeKey, ProbeKeys};
use crate::layout::{UC_PROBE_SLOTS_LATE, uc_shim_watch_slot};

/// Length of a datagram between a host and the granter, in bytes.
pub(crate) const MESSAGE_BYTES: usize = 28;
const SIGNED_BYTES: usize = 20;

/// The kind of a datagram. A question that is sent back does not count as an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A question; its value is the number of bytes of the link for which a flow asks, or 0 to find out whether a
    /// granter answers.
    Question,
    /// An answer; its value is the time for which the flow waits, in nanoseconds.
    Answer,
}

impl Kind {
    fn magic(self) -> [u8; 4] {
        match self {
            Kind::Question => *b"ucq1",
            Kind::Answer => *b"uca1",
        }
    }
}

/// A question to the granter, or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Number of bytes in a question; in an answer the time to wait, in nanoseconds.
    pub value: u32,
    /// Number of the question, which its answer repeats.
    pub id: u64,
}

/// Returns the time slot of a wall-clock time.
fn slot(wall_ns: u64) -> u32 {
    // SAFETY: no pointers.
    unsafe { uc_shim_watch_slot(wall_ns) }
}

impl Message {
    /// Encodes the message as a datagram, and signs it with the key.
    pub fn encode(self, kind: Kind, wall_ns: u64, key: &ProbeKey) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&kind.magic());
        bytes[4..8].copy_from_slice(&self.value.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.id.to_be_bytes());
        bytes[16..SIGNED_BYTES].copy_from_slice(&slot(wall_ns).to_be_bytes());
        let tag = key.sign(&bytes[..SIGNED_BYTES]);
        bytes[SIGNED_BYTES..].copy_from_slice(&tag.to_be_bytes());
        bytes
    }

    /// Reads a datagram; `None` if it is of another kind or time, or no host with a key has signed it.
    pub fn decode(bytes: &[u8], kind: Kind, wall_ns: u64, keys: &ProbeKeys) -> Option<Message> {
        let bytes: &[u8; MESSAGE_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| Some(u32::from_be_bytes(bytes[at..at + 4].try_into().ok()?));
        let long = |at: usize| Some(u64::from_be_bytes(bytes[at..at + 8].try_into().ok()?));
        let age = slot(wall_ns).wrapping_sub(word(16)?).cast_signed();
        let known = bytes[..4] == kind.magic()
            && age.unsigned_abs() <= UC_PROBE_SLOTS_LATE
            && keys.have_signed(&bytes[..SIGNED_BYTES], long(SIGNED_BYTES)?);
        known.then_some(Message {
            value: word(4)?,
            id: long(8)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL_NS: u64 = 1_763_800_000_000_000_000;
    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn a_message_is_read_by_hosts_with_its_key_within_seconds_and_as_its_kind_only() {
        let own = ProbeKey::from_bytes([7; 16]);
        let other = ProbeKey::from_bytes([8; 16]);
        let changing = ProbeKeys {
            own: other,
            also: Some(own),
        };
        let message = Message {
            value: 15_140,
            id: u64::MAX - 1,
        };
        let bytes = message.encode(Kind::Question, WALL_NS, &own);
        let read = |bytes: &[u8], kind, wall_ns, keys: ProbeKeys| {
            Message::decode(bytes, kind, wall_ns, &keys)
        };
        for keys in [own.into(), changing] {
            for wall_ns in [WALL_NS - 2 * SECOND_NS, WALL_NS, WALL_NS + 2 * SECOND_NS] {
                assert_eq!(read(&bytes, Kind::Question, wall_ns, keys), Some(message));
            }
        }
        for wall_ns in [0, WALL_NS - 4 * SECOND_NS, WALL_NS + 4 * SECOND_NS] {
            assert_eq!(read(&bytes, Kind::Question, wall_ns, own.into()), None);
        }
        assert_eq!(read(&bytes, Kind::Answer, WALL_NS, own.into()), None);
        assert_eq!(read(&bytes, Kind::Question, WALL_NS, other.into()), None);
        assert_eq!(
            read(&bytes[..27], Kind::Question, WALL_NS, own.into()),
            None
        );
        for bit in 0..8 * MESSAGE_BYTES {
            let mut forged = bytes;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                read(&forged, Kind::Question, WALL_NS, own.into()),
                None,
                "{bit}"
            );
        }
    }
}
