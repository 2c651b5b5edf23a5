//! Sequence numbers without the wrap: a 64-bit place in the stream whose low 32 bits are what the
//! wire carries. Comparisons are then plain, and nothing that was remembered ever comes round.

/// The place of an initial sequence number: one turn above zero, so that what lies before it is
/// no negative number.
pub(crate) fn start(isn: u32) -> u64 {
    (1 << 32) + u64::from(isn)
}

/// The place that the wire's 32 bits mean: the one nearest to `near` (RFC 9293 §3.4).
pub(crate) fn unwrap(near: u64, wire: u32) -> u64 {
    let ahead = wire.wrapping_sub(near as u32) as i32;
    near.wrapping_add_signed(i64::from(ahead))
}

#[cfg(test)]
mod tests {
    use super::{start, unwrap};

    #[test]
    fn a_place_survives_the_way_over_the_wire_across_the_wrap() {
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
