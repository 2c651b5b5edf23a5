//! A start under attack from off the path: segments that the guest discards count for nothing.

use crate::flows::{flag, for_all};
use crate::watch::{BEGIN, Home, MSS, data, paper};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::prop_assert_eq;
use uc_core::{Segment, consts};

const WSCALE: u8 = 2;
/// The largest window that the guest's scale can express.
const WINDOW: u32 = 65_535 << WSCALE;

#[test]
fn segment_outside_the_window_changes_nothing_in_a_start() {
    let forged = vec((any::<u32>(), any::<bool>(), any::<u8>(), 0u8..4), 1..60);
    for_all(2_000, &(forged, 0u32..40), |(forged, acked)| {
        let mut home = Home::new(paper());
        home.handshake(65_535, WSCALE);
        for number in 0..acked {
            home.data(number, number % 3 == 0);
            home.ack(number + 1, 60_000);
        }
        let expected = BEGIN.wrapping_add(acked * MSS);
        let before = home.start;
        for (far, ahead, flags, ecn) in forged {
            let far = 1 + far % (1 << 30);
            let bytes = if ecn == 0 { 0 } else { MSS };
            let fin = u32::from(flags & flag::FIN != 0);
            let seq = if ahead {
                expected.wrapping_add(WINDOW + far)
            } else {
                expected.wrapping_sub(far + bytes + fin)
            };
            let segment = Segment {
                seq,
                payload_bytes: bytes,
                wire_payload_bytes: bytes as u16,
                flags: flags & !flag::SYN,
                ..data(0, ecn.into())
            };
            assert!(!home.start.arrives(&segment), "{segment:?}");
            prop_assert_eq!(&home.start, &before, "{:?}", segment);
        }
        Ok(())
    });
}

#[test]
fn reordered_and_repeated_data_inside_the_window_count() {
    let mut home = Home::new(paper());
    home.handshake(65_535, WSCALE);
    for number in [3, 1, 2, 0] {
        assert!(home.start.arrives(&data(number, consts::CE)));
    }
    assert_eq!(home.start.marked, 4);
    home.ack(4, 60_000);
    // the guest's ACK was lost, and its answer to a copy of the last segment repeats it
    assert!(home.start.arrives(&data(3, consts::ECT0)));
    assert!(!home.start.arrives(&data(2, consts::ECT0)));
}
