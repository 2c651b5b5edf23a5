//! A window in whole segments whose mean is the window that was given.

use crate::flows::seeded::for_all;
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::{prop_assert, prop_assert_eq};
use uc_core::coupling::Segments;

const MSS: u32 = 1460;

/// The windows of so many round trips, with an ACK for every second segment.
fn rounds(cwnd_bytes: u32, rounds: u32) -> Vec<u32> {
    let mut segments = Segments::default();
    let mut windows = Vec::new();
    let mut whole = segments.whole(cwnd_bytes, 0, MSS as u16);
    for _ in 0..rounds {
        windows.push(whole);
        let mut left_bytes = whole;
        while left_bytes > 0 {
            let acked_bytes = left_bytes.min(2 * MSS);
            left_bytes -= acked_bytes;
            whole = segments.whole(cwnd_bytes, acked_bytes, MSS as u16);
        }
    }
    windows
}

#[test]
fn a_window_of_nine_and_a_half_segments_is_nine_and_ten_in_turn() {
    let windows = rounds(9 * MSS + MSS / 2, 200);
    let tens = windows.iter().filter(|&&window| window == 10 * MSS).count();
    let nines = windows.iter().filter(|&&window| window == 9 * MSS).count();
    assert_eq!(nines + tens, 200, "{windows:?}");
    assert!((90..=110).contains(&tens), "{windows:?}");
    let most = windows.chunk_by(|one, other| one == other).map(<[_]>::len);
    assert!(most.max().unwrap_or(0) <= 4, "{windows:?}");
}

#[test]
fn a_window_of_whole_segments_stays_as_it_is() {
    assert_eq!(rounds(7 * MSS, 50), vec![7 * MSS; 50]);
}

#[test]
fn the_mean_is_the_window_that_was_given() {
    for_all(300, &(2 * MSS..100 * MSS), |cwnd_bytes| {
        let windows = rounds(cwnd_bytes, 400);
        let mean = windows.iter().map(|&window| u64::from(window)).sum::<u64>() / 400;
        let off = mean.abs_diff(cwnd_bytes.into());
        prop_assert!(
            off <= u64::from(MSS / 100),
            "{cwnd_bytes} has a mean of {mean}"
        );
        Ok(())
    });
}

#[test]
fn answers_are_whole_segments_at_least_one_and_less_than_one_away() {
    let said = vec((any::<u32>(), any::<u32>(), any::<u16>()), 1..60);
    for_all(1000, &said, |said| {
        let mut segments = Segments::default();
        for (cwnd_bytes, acked_bytes, mss_bytes) in said {
            let (cwnd_bytes, mss) = (cwnd_bytes % (1 << 30), u32::from(mss_bytes.max(48)));
            let whole = segments.whole(cwnd_bytes, acked_bytes, mss_bytes);
            prop_assert_eq!(whole % mss, 0);
            prop_assert!(whole >= mss);
            prop_assert!(whole == mss || whole.abs_diff(cwnd_bytes) < mss);
        }
        Ok(())
    });
}
