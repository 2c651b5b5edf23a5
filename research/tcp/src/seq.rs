//! Sequence numbers without wrapping: a 64-bit position in the stream whose low 32 bits are the
//! sequence number on the wire. Comparisons are then plain, and old positions never become valid
//! again.

/// Returns the position of an initial sequence number: 2^32 above it, so that earlier positions are
/// not negative.
pub(crate) fn start(isn: u32) -> u64 {
    (1 << 32) + u64::from(isn)
}

/// Returns the position of the wire's 32 bits: the one nearest to `near` (RFC 9293 §3.4).
pub(crate) fn unwrap(near: u64, wire: u32) -> u64 {
    let ahead = wire.wrapping_sub(near as u32) as i32;
    near.wrapping_add_signed(i64::from(ahead))
}

#[cfg(test)]
mod tests {
    use super::{start, unwrap};

    #[test]
    fn a_position_survives_the_wire_format_across_the_wrap() {
        for near in [start(0), start(u32::MAX), start(u32::MAX) + 70_000, 9 << 32] {
            for ahead in [-2_000_000_000i64, -1, 0, 1, 65_535, 2_000_000_000] {
                let place = near.wrapping_add_signed(ahead);
                assert_eq!(
                    unwrap(near, place as u32),
                    place,
                    "near {near}, ahead {ahead}"
                );
            }
        }
    }
}
