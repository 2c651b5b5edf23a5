//! The payload of bulk flows: bytes that depend on their position, so that the receiver detects
//! payload that was changed, lost, duplicated or moved.

/// Length of the content before it repeats: the largest prime below 2¹⁶, so that a shift by any
/// number of whole segments, blocks or powers of two is detected.
const PERIOD_BYTES: usize = 65_521;

/// Maximum size of a chunk that is written or compared at once.
pub const CHUNK_BYTES: usize = 128 * 1024;

/// The content, laid out so that a chunk from any position is one slice.
#[derive(Debug, Clone)]
pub struct Pattern {
    bytes: Vec<u8>,
}

impl Default for Pattern {
    fn default() -> Self {
        let mut state = 0_u64;
        let mut bytes: Vec<u8> = (0..PERIOD_BYTES).map(|_| split_mix(&mut state)).collect();
        bytes.extend_from_within(..);
        bytes.extend_from_within(..);
        Self { bytes }
    }
}

impl Pattern {
    /// Returns the `CHUNK_BYTES` bytes of the stream from position `at_byte` on.
    pub fn chunk(&self, at_byte: u64) -> &[u8] {
        let start = (at_byte % PERIOD_BYTES as u64) as usize;
        &self.bytes[start..start + CHUNK_BYTES]
    }

    /// Returns the position in the stream of the first byte of `received` that differs from the
    /// pattern, if `received` began at `at_byte`. `received` is at most `CHUNK_BYTES` long.
    pub fn first_difference(&self, at_byte: u64, received: &[u8]) -> Option<u64> {
        let expected = &self.chunk(at_byte)[..received.len()];
        if expected == received {
            return None;
        }
        let same = expected
            .iter()
            .zip(received)
            .take_while(|(left, right)| left == right)
            .count();
        Some(at_byte + same as u64)
    }
}

/// Returns the top byte of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): any fixed noise would do.
fn split_mix(state: &mut u64) -> u8 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_continue_the_stream() {
        let pattern = Pattern::default();
        let mut at_byte = 0;
        for length in [1, 1448, 65_521, CHUNK_BYTES, 7, 100_000] {
            let (head, tail) = pattern.chunk(at_byte).split_at(length.min(CHUNK_BYTES - 1));
            assert_eq!(
                &pattern.chunk(at_byte + head.len() as u64)[..tail.len()],
                tail
            );
            assert_eq!(pattern.first_difference(at_byte, head), None);
            at_byte += head.len() as u64;
        }
    }

    #[test]
    fn changed_bytes_and_lost_segments_are_detected_at_their_position() {
        let pattern = Pattern::default();
        let mut received = pattern.chunk(1_000_000)[..5000].to_vec();
        received[4321] ^= 1;
        assert_eq!(
            pattern.first_difference(1_000_000, &received),
            Some(1_004_321)
        );
        for lost in [1, 1448, 1460, 65_536] {
            let moved = &pattern.chunk(1_000_000 + lost)[..1448];
            let at = pattern.first_difference(1_000_000, moved);
            assert!(
                at.is_some_and(|at| at < 1_000_020),
                "{lost} bytes lost, seen at {at:?}"
            );
        }
    }
}
