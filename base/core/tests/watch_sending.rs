//! The sending host's probes, and the pacing of first windows on the receiving host's link.

use std::collections::BTreeSet;

use crate::flows::seeded::for_all;
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::prop_assert;
use uc_core::watch::{Bucket, Path, StartPolicy, offset_ns};

const NOW_NS: u64 = 5_000_000_000;

#[test]
fn probes_leave_one_after_the_other_at_uneven_gaps_within_the_span() {
    let strategy = (1_000u32..50_000_000, 1u32..=32, any::<u32>());
    for_all(4_000, &strategy, |(span_ns, probes, random)| {
        let moments: Vec<u32> = (0..probes)
            .map(|index| offset_ns(span_ns, probes, index, random))
            .collect();
        prop_assert!(moments.iter().all(|&at| at < span_ns));
        let gaps: Vec<u32> = moments.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // No two at once, once there is room between them.
        let piece_ns = span_ns / probes;
        prop_assert!(gaps.iter().all(|&gap| gap >= piece_ns / 8));
        if probes >= 8 && piece_ns > 1_000 {
            let distinct: BTreeSet<u32> = gaps.iter().copied().collect();
            prop_assert!(distinct.len() + 2 >= gaps.len(), "{:?}", gaps);
        }
        Ok(())
    });
}

/// A record with marks stands for a tenth of the time of one without.
fn marks_fade_sooner() -> StartPolicy {
    StartPolicy {
        fresh_us: 100_000,
        ..StartPolicy::usual()
    }
}

#[test]
fn a_path_is_probed_once_until_its_record_is_old() {
    let policy = marks_fade_sooner();
    let mut path = Path::default();
    assert_eq!(policy.probes(&mut path, NOW_NS), 10);
    // Others that begin at the same time don't probe it again.
    assert_eq!(policy.probes(&mut path, NOW_NS + 1_000), 0);
    // Whose answer never came is probed again, but not while it may wait for its turn.
    let later_ns = NOW_NS + u64::from(policy.wait_us) * 1_000;
    assert_eq!(policy.probes(&mut path, later_ns - 1), 0);
    assert_eq!(policy.probes(&mut path, later_ns), 10);
    // Without a mark the record stands longer.
    path.answered(&policy, 10 * 1_448, 1_460, 100_000);
    assert_eq!((path.marked, path.unmarked), (0, 10));
    let fresh_ns = later_ns + u64::from(policy.idle_us) * 1_000;
    assert_eq!(policy.probes(&mut path, fresh_ns - 1), 0);
    assert_eq!(policy.probes(&mut path, fresh_ns), 10);
}

#[test]
fn the_window_of_the_answer_tells_the_sending_host_what_was_counted() {
    let policy = StartPolicy::usual();
    let of_half = [(10, 0), (44, 0), (9, 2), (7, 6), (5, 10), (2, 10), (0, 10)];
    let of_quarter = [(10, 0), (44, 0), (7, 4), (4, 8), (2, 10), (0, 10)];
    let all = of_half
        .iter()
        .map(|&(segments, marked)| (2, segments, marked));
    let all = all.chain(
        of_quarter
            .iter()
            .map(|&(segments, marked)| (4, segments, marked)),
    );
    for (marked_part, segments, marked) in all {
        let policy = StartPolicy {
            marked_part,
            ..policy
        };
        let mut path = Path::default();
        policy.probes(&mut path, NOW_NS);
        // 0 bytes stand for an answer that is no SYN-ACK.
        path.answered(&policy, (segments * 1_448).max(1), 1_460, 70_000);
        assert_eq!(
            path.marked, marked,
            "{segments} segments of 1/{marked_part}"
        );
        assert_eq!(path.rtt_us, 70);
    }
    let mut path = Path::default();
    policy.probes(&mut path, NOW_NS);
    path.answered(&policy, 0, 0, 70_000);
    assert_eq!((path.marked, path.rtt_us), (10, 70));
}

#[test]
fn an_echo_of_a_mark_ends_a_path_s_time_as_an_idle_one() {
    let policy = marks_fade_sooner();
    let mut path = Path::default();
    policy.probes(&mut path, NOW_NS);
    path.answered(&policy, 14_480, 1_460, 100_000);
    path.echoed();
    let fresh_ns = NOW_NS + u64::from(policy.fresh_us) * 1_000;
    assert_eq!(policy.probes(&mut path, fresh_ns), 10);
}

#[test]
fn the_span_is_the_policys_until_the_round_trip_is_known_and_a_part_of_that_then() {
    let policy = StartPolicy::usual();
    let path = |rtt_us| Path {
        rtt_us,
        ..Path::default()
    };
    for (rtt_us, span_us) in [(0, 16), (100, 3), (320, 10), (100_000, 16)] {
        assert_eq!(policy.span_ns(&path(rtt_us)), span_us * 1_000, "{rtt_us}");
    }
    let endless = StartPolicy {
        span_us: u32::MAX,
        ..policy
    };
    assert_eq!(endless.span_ns(&path(0)), 50_000_000);
}

#[test]
fn policy_without_probes_never_waits() {
    let policy = StartPolicy {
        probes: 0,
        ..StartPolicy::usual()
    };
    assert_eq!(policy.probes(&mut Path::default(), NOW_NS), 0);
}

/// A token bucket as tokens: what is given by any time is at most the burst, one grant, and what
/// the rate has let in since.
#[test]
fn first_windows_are_given_no_faster_than_their_turns() {
    let grants = vec((0u64..100_000, 1u32..40_000), 1..100);
    let strategy = (1_000_000u64..2_000_000_000, 0u32..200_000, grants);
    for_all(2_000, &strategy, |(rate, burst_bytes, grants)| {
        let policy = StartPolicy {
            pace_bytes_per_s: rate,
            burst_bytes,
            wait_us: 500_000,
            ..StartPolicy::usual()
        };
        let mut bucket = Bucket::default();
        let (mut now_ns, mut given) = (NOW_NS, Vec::new());
        for (gap_ns, bytes) in grants {
            now_ns += gap_ns;
            let wait_ns = bucket.wait_ns(&policy, bytes, now_ns);
            prop_assert!(wait_ns <= 500_000_000);
            if wait_ns == 500_000_000 {
                // Given early: the bound is for those that had their turn.
                return Ok(());
            }
            given.push((now_ns + wait_ns, u64::from(bytes)));
        }
        for first in 0..given.len() {
            let mut sum = 0u128;
            for &(at_ns, bytes) in &given[first..] {
                let since_ns = u128::from(at_ns - given[first].0);
                let let_in = since_ns * u128::from(rate) / 1_000_000_000;
                let most = u128::from(burst_bytes) + let_in;
                // Rounding: a nanosecond of the rate for each.
                let slack = u128::from(given.len() as u64) * u128::from(rate / 1_000_000_000 + 2);
                prop_assert!(sum <= most + slack, "{} above {}", sum, most);
                sum += u128::from(bytes);
            }
        }
        Ok(())
    });
}

#[test]
fn a_first_window_that_waited_as_long_as_it_may_leaves_no_debt() {
    let policy = StartPolicy {
        pace_bytes_per_s: 1_000,
        wait_us: 1_000,
        ..StartPolicy::usual()
    };
    let mut bucket = Bucket::default();
    for _ in 0..100 {
        let wait_ns = bucket.wait_ns(&policy, 1_000_000, NOW_NS);
        assert!(wait_ns <= 1_000_000);
    }
    let burst_ns = u64::from(policy.burst_bytes) * 1_000_000;
    let cleared_ns = NOW_NS + burst_ns + 1_000_000 + 1_000_000_000_000;
    assert_eq!(bucket.wait_ns(&policy, 1, cleared_ns), 0);
}

#[test]
fn without_a_rate_nothing_waits() {
    let policy = StartPolicy::usual();
    let mut bucket = Bucket::default();
    for _ in 0..1_000 {
        assert_eq!(bucket.wait_ns(&policy, 65_535, NOW_NS), 0);
    }
}
