//! Pacing of flow starts: what a flow is charged on the receiving host's link, and how long it
//! waits.

use crate::watch::{BEGIN, FRAME, Home, MSS, ack, data, paper, syn};
use uc_core::watch::{Bucket, Path, StartPolicy};
use uc_core::{Segment, consts};

const GBIT: u64 = 125_000_000;
const NOW_NS: u64 = 10_000_000_000;

fn paced() -> StartPolicy {
    StartPolicy {
        pace_bytes_per_s: GBIT,
        ..paper()
    }
}

/// Returns how long `bytes` take at the bucket's rate.
fn takes_ns(bytes: u32) -> u64 {
    u64::from(bytes) * 1_000_000_000 / GBIT
}

/// A link on which whole packets come at its rate for two periods; `steady`: of flows past their
/// start.
fn full_link(policy: &StartPolicy, steady: bool) -> Bucket {
    let mut bucket = Bucket::default();
    let packet_ns = takes_ns(1_514);
    for number in 0..70 {
        bucket.heard(policy, 1_514, steady, NOW_NS - (70 - number) * packet_ns);
    }
    bucket
}

/// The waits of so many flows at one moment.
fn crowd(bucket: &mut Bucket, policy: &StartPolicy, flows: u32) -> Vec<u64> {
    let waits = (0..flows).map(|_| bucket.wait_ns(policy, 10_000, NOW_NS));
    waits.collect()
}

#[test]
fn a_crowd_leaves_three_sevenths_of_a_link_to_flows_past_their_start_and_none_to_its_like() {
    let policy = paced();
    let burst_ns = takes_ns(policy.burst_bytes);
    let alone = crowd(&mut Bucket::default(), &policy, 100);
    let among_starts = crowd(&mut full_link(&policy, false), &policy, 100);
    let among_long = crowd(&mut full_link(&policy, true), &policy, 100);
    assert_eq!(alone, among_starts);
    assert_eq!(alone[99], 99 * takes_ns(10_000) - burst_ns);
    // The first five are within the burst, and take only what they need.
    assert_eq!(among_long[..6], alone[..6]);
    let of_crowd = 7 * (99 - 5) * takes_ns(10_000) / 4 + 5 * takes_ns(10_000) - burst_ns;
    assert!(among_long[99].abs_diff(of_crowd) <= takes_ns(10_000));
}

/// As they do for a while on a link that is nearly full: 1.3 times what it takes.
#[test]
fn flows_that_come_to_wait_for_one_another_by_chance_are_no_crowd() {
    let policy = paced();
    let mut bucket = full_link(&policy, true);
    let (takes_ns, burst_ns) = (takes_ns(10_000), takes_ns(policy.burst_bytes));
    for flow in 0..200u64 {
        let since_ns = flow * takes_ns * 10 / 13;
        bucket.heard(&policy, policy.burst_bytes, true, NOW_NS + since_ns);
        let wait_ns = bucket.wait_ns(&policy, 10_000, NOW_NS + since_ns);
        let ahead_ns = flow * takes_ns - since_ns;
        assert_eq!(wait_ns, ahead_ns.saturating_sub(burst_ns), "{flow}");
    }
}

/// 8,000 flows of 10,000 bytes take 0.64 s of the link; their part of 0.8 s is less.
#[test]
fn a_crowd_too_long_for_its_part_of_a_link_takes_the_rest_of_it_too_and_never_more() {
    let policy = paced();
    let mut bucket = full_link(&policy, true);
    let first = crowd(&mut bucket, &policy, 2_000);
    let mut waits = first.clone();
    waits.extend(crowd(&mut bucket, &policy, 6_000));
    assert!(first.is_sorted(), "in its part one comes after the other");
    let most_ns = 1_000 * u64::from(policy.wait_us);
    assert!(
        waits.iter().all(|&wait_ns| wait_ns < most_ns),
        "none waits to the end"
    );
    waits.sort_unstable();
    // a burst in either part, and a turn between two
    let ahead_ns = 2 * takes_ns(policy.burst_bytes) + 2 * takes_ns(10_000);
    for (number, wait_ns) in waits.iter().enumerate() {
        let taken_ns = number as u64 * takes_ns(10_000);
        assert!(wait_ns + ahead_ns >= taken_ns, "{number}: {wait_ns}");
    }
}

#[test]
fn starts_beyond_the_whole_links_capacity_wait_the_longest_wait() {
    let policy = paced();
    for steady in [false, true] {
        let mut bucket = full_link(&policy, steady);
        let waits = crowd(&mut bucket, &policy, 12_000);
        let most_ns = 1_000 * u64::from(policy.wait_us);
        let late = waits.iter().filter(|&&wait_ns| wait_ns == most_ns).count();
        // 0.96 s of the link, and 0.8 s of it are given
        assert!((1_900..2_100).contains(&late), "{late}");
    }
}

#[test]
fn flows_that_come_one_by_one_never_wait_for_more_than_they_take() {
    let policy = paced();
    let mut bucket = full_link(&policy, true);
    // Nine tenths of the link, for a second.
    for number in 0..11_250u64 {
        let now_ns = NOW_NS + number * takes_ns(10_000) * 10 / 9;
        bucket.heard(&policy, 1_514, true, now_ns);
        assert_eq!(bucket.wait_ns(&policy, 10_000, now_ns), 0, "{number}");
    }
}

#[test]
fn after_a_crowd_the_next_flow_takes_only_what_it_needs() {
    let policy = paced();
    let mut bucket = full_link(&policy, true);
    let last_ns = crowd(&mut bucket, &policy, 100)[99];
    assert!(last_ns > takes_ns(1_500_000));
    let later_ns = NOW_NS + takes_ns(1_000_000);
    assert_eq!(bucket.wait_ns(&policy, 10_000, later_ns), 0);
    assert_eq!(bucket.wait_ns(&policy, 10_000, later_ns), 0);
}

/// A home whose path's flows use so many quarters of a segment.
fn home(used_quarters: u8) -> Home {
    let mut home = Home::new(paced());
    home.path = Path {
        used_quarters,
        measured_ns: home.now_ns,
        unmarked: 10,
        ..Path::default()
    };
    home
}

/// The guest has acknowledged so many segments, and closes.
fn closing(segments: u32) -> Segment {
    let mut last = ack(BEGIN.wrapping_add(segments * MSS), 65_535);
    last.flags |= consts::FIN as u8;
    last
}

#[test]
fn a_flow_pays_for_what_it_uses_whatever_was_expected_of_it() {
    for (used_quarters, charged) in [(0, 10 * FRAME), (16, 4 * FRAME), (40, 10 * FRAME)] {
        for used in [0, 1, 3, 10] {
            let mut home = home(used_quarters);
            assert_eq!(home.handshake(65_535, 7).grant_bytes, charged);
            for number in 0..used {
                home.data(number, false);
            }
            let settled = home.leaves(&closing(used)).settle_bytes;
            let paid = i64::from(charged) + i64::from(settled);
            assert_eq!(paid, i64::from(used * FRAME), "{used_quarters} {used}");
            assert_eq!(home.leaves(&closing(used)).settle_bytes, 0, "once");
        }
    }
}

#[test]
fn a_flow_whose_peer_lowers_the_segment_size_pays_for_what_it_uses() {
    for mss_bytes in [1_460, 8_960, 65_535] {
        let mut home = home(0);
        let mut first = syn(consts::SYN, 7);
        (first.direction, first.mss_bytes) = (consts::FROM_GUEST as u8, mss_bytes);
        let charged = home.leaves(&first).grant_bytes;
        assert!(charged >= 10 * FRAME, "{mss_bytes}: {charged}");
        home.start.arrives(&syn(consts::SYN | consts::ACK, 7));
        home.ack(0, 65_535);
        for number in 0..10 {
            home.data(number, false);
        }
        let settled = home.leaves(&closing(10)).settle_bytes;
        let paid = i64::from(charged) + i64::from(settled);
        assert_eq!(paid, i64::from(10 * FRAME), "{mss_bytes}");
    }
}

#[test]
fn use_of_first_windows_is_learned_as_a_mean() {
    let mut path = Path::default();
    for flow in 0..400u32 {
        let mut home = home(0);
        (home.path.used_quarters, home.policy.observe) = (path.used_quarters, 1);
        home.handshake(65_535, 7);
        home.leaves(&closing(if flow.is_multiple_of(2) { 2 } else { 8 }));
        path = home.path;
        if flow > 20 {
            let mean = path.used_quarters / 4;
            assert!((3..=7).contains(&mean), "{flow}: {mean}");
        }
    }
}

#[test]
fn settled_bytes_move_the_waits_of_later_flows() {
    let policy = paced();
    let mut bucket = Bucket::default();
    let last_ns = *crowd(&mut bucket, &policy, 20).last().unwrap();
    bucket.settle(&policy, -50_000);
    let less_ns = bucket.wait_ns(&policy, 10_000, NOW_NS);
    assert_eq!(less_ns, last_ns + takes_ns(10_000) - takes_ns(50_000));
    bucket.settle(&policy, 20_000);
    let more_ns = bucket.wait_ns(&policy, 10_000, NOW_NS);
    assert_eq!(more_ns, less_ns + takes_ns(30_000));
    // More than was ever owed leaves nothing owed.
    bucket.settle(&policy, i32::MIN + 1);
    assert_eq!(bucket.wait_ns(&policy, 10_000, NOW_NS), 0);
}

#[test]
fn data_behind_the_first_window_is_steady_and_the_rest_is_of_the_start() {
    let mut home = home(0);
    assert!(
        !home.start.is_steady(&data(0, consts::ECT0)),
        "no window yet"
    );
    home.handshake(65_535, 7);
    for number in 0..40 {
        let steady = home.start.is_steady(&data(number, consts::ECT0));
        assert_eq!(steady, number >= 10, "{number}");
    }
    let mut bare = data(20, consts::ECT0);
    bare.payload_bytes = 0;
    assert!(!home.start.is_steady(&bare));
}
