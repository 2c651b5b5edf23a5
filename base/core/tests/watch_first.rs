//! First windows: what the receiving host makes of the probes that it counted.

use crate::watch;

use crate::watch::{BEGIN, FRAME, Home, MSS, ack, paper};
use uc_core::consts as segment_flags;
use uc_core::watch::{Path, StartPolicy, consts};

/// The first window in segments, of ten probes in these numbers; the rest were lost.
fn first(unmarked: u8, marked: u8, random: u32) -> u32 {
    let mut home = Home::new(paper());
    home.random = random;
    let probes: Vec<(u8, bool)> = (0..unmarked + marked).map(|i| (i, i >= unmarked)).collect();
    home.probes(&probes);
    let answer = home.handshake(65_535, 7);
    assert_eq!(u32::from(answer.window) % MSS, 0);
    u32::from(answer.window) / MSS
}

#[test]
fn the_first_window_is_the_unmarked_and_half_of_the_marked_and_lost() {
    for random in [0, 2, 0xffff_fffe] {
        for unmarked in 0..=10u8 {
            for marked in 0..=10 - unmarked {
                let (good, bad) = (u32::from(unmarked), 10 - u32::from(unmarked));
                let expected = (good + bad / 2).max(2);
                let case = format!("{unmarked} unmarked, {marked} marked, {random}");
                assert_eq!(first(unmarked, marked, random), expected, "{case}");
            }
        }
    }
}

#[test]
fn odd_mark_count_is_rounded_by_the_random_word() {
    for unmarked in [9u8, 7, 5, 3, 1] {
        let [early, late] = [1, 0].map(|random| first(unmarked, 10 - unmarked, random));
        assert_eq!(early, late + 1, "{unmarked}");
    }
}

#[test]
fn marked_probes_grant_policys_part_at_once_and_again_a_round_later() {
    for (part, random, first, later) in [(2, 0, 5, 5), (4, 0, 2, 3), (4, 2, 3, 3), (5, 0, 2, 2)] {
        let mut home = Home::new(StartPolicy {
            marked_part: part,
            ..StartPolicy::usual()
        });
        home.random = random;
        home.probes(&(0..10).map(|index| (index, true)).collect::<Vec<_>>());
        let answer = home.handshake(65_535, 0);
        assert_eq!(u32::from(answer.window), first * MSS, "1/{part}");
        home.data(0, false);
        // The ACK of one: what it earned, and what was owed.
        let window = u32::from(home.ack(1, 65_535));
        assert_eq!(window, (first + later) * MSS, "1/{part}");
    }
}

#[test]
fn a_probe_that_took_longer_than_the_quickest_counts_as_marked_where_policy_says_so() {
    let late = StartPolicy {
        late_ns: 500,
        ..paper()
    };
    for (policy, unmarked) in [(late, 8), (paper(), 10)] {
        let mut home = Home::new(policy);
        for index in 0..10u32 {
            // Clocks that share nothing; two of the probes stand in a queue on their way.
            let sent_ns = 0xffff_ff00u32.wrapping_add(index * 1_000);
            let queue_ns = if index == 4 || index == 9 {
                500
            } else {
                499 * u64::from(index > 5)
            };
            let now_ns = home.now_ns + u64::from(index) * 1_000 + queue_ns;
            let ecn = segment_flags::ECT0 as u8;
            let ecn = home.start.timed(&policy, ecn, sent_ns, now_ns);
            assert!(home.start.probe(index as u8, 10, ecn));
        }
        home.handshake(65_535, 7);
        assert_eq!(home.path.unmarked, unmarked);
    }
}

#[test]
fn a_probe_that_comes_twice_counts_once_and_senseless_ones_not_at_all() {
    let mut home = Home::new(paper());
    home.probes(&[(0, false), (0, false), (0, true), (1, false)]);
    for (index, of) in [(10, 10), (255, 10), (0, 0), (3, 33), (2, 11)] {
        assert!(!home.start.probe(index, of, 2), "{index} of {of}");
    }
    // Two unmarked, and half of the eight that did not come.
    assert_eq!(u32::from(home.handshake(65_535, 7).window), 6 * MSS);
}

#[test]
fn where_no_probe_came_the_window_is_the_papers_half_and_nothing_was_measured() {
    for policy in [paper(), StartPolicy::usual()] {
        let mut home = Home::new(policy);
        assert_eq!(u32::from(home.handshake(65_535, 7).window), 5 * MSS);
        assert_eq!((home.path.marked, home.path.unmarked), (10, 0));
        assert_eq!(home.path.measured_ns, 0, "the next flow asks again");
    }
}

#[test]
fn a_probe_that_is_missing_among_others_was_lost_which_is_marked() {
    let mut home = Home::new(StartPolicy::usual());
    home.probes(&[(0, false), (5, true)]);
    // One unmarked, and of nine a quarter, rounded down.
    assert_eq!(u32::from(home.handshake(65_535, 7).window), 3 * MSS);
    assert_eq!((home.path.marked, home.path.unmarked), (9, 1));
    assert_eq!(home.path.measured_ns, home.now_ns);
}

#[test]
fn no_first_window_is_more_than_the_receivers_nor_less_than_two_segments() {
    for (window, expected) in [(0, 0), (1, 1), (1_000, 1_000), (8_000, 5 * MSS as u16)] {
        let mut home = Home::new(paper());
        assert_eq!(home.handshake(window, 7).window, expected);
    }
    let narrow = StartPolicy {
        probes: 1,
        ..paper()
    };
    let mut home = Home::new(narrow);
    assert_eq!(u32::from(home.handshake(65_535, 7).window), 2 * MSS);
}

#[test]
fn a_fresh_record_of_the_path_stands_for_probes_and_an_old_one_does_not() {
    let policy = paper();
    for (marked, age_us, expected) in [
        (0, 10, 10),
        (0, u64::from(policy.idle_us), 10),
        (0, 2 * u64::from(policy.idle_us), 5),
        (4, 10, 8),
        (4, u64::from(policy.fresh_us), 8),
        (4, 2 * u64::from(policy.fresh_us), 5),
    ] {
        let mut home = Home::new(policy);
        home.path = Path {
            measured_ns: home.now_ns - age_us * 1_000,
            marked,
            unmarked: 10 - marked,
            ..Path::default()
        };
        let window = u32::from(home.handshake(65_535, 7).window);
        assert_eq!(window, expected * MSS, "{marked} marked {age_us} us ago");
    }
}

#[test]
fn where_the_guest_opened_its_first_ack_gives_the_window_and_the_request_the_same() {
    let mut home = Home::new(paper());
    let mut syn = ack(0, 64_000);
    (syn.flags, syn.mss_bytes) = (segment_flags::SYN as u8, MSS as u16);
    (syn.wscale, syn.options) = (7, 0x03);
    let asked = home.leaves(&syn);
    assert_eq!(asked.window, 64_000, "nobody may use it yet");
    assert_eq!(asked.grant_bytes, 10 * FRAME, "its turn");
    assert_eq!(home.leaves(&syn).grant_bytes, 0, "a copy has had it");
    home.probes(&[(0, true), (1, true), (2, false)]);
    let mut answer = watch::data(0, segment_flags::NOT_ECT);
    answer.flags = (segment_flags::SYN | segment_flags::ACK) as u8;
    (answer.payload_bytes, answer.wire_payload_bytes) = (0, 0);
    (answer.mss_bytes, answer.wscale, answer.options) = (MSS as u16, 7, 0x03);
    home.start.arrives(&answer);
    // One unmarked, nine marked or lost; the window is scaled, and rounded up.
    let done = home.leaves(&ack(BEGIN, 5_000));
    assert_eq!(u32::from(done.window), (5 * MSS).div_ceil(128));
    assert_eq!(done.grant_bytes, 0);
    let mut request = ack(BEGIN, 5_000);
    (request.payload_bytes, request.wire_payload_bytes) = (100, 100);
    let request = home.leaves(&request);
    assert_eq!((request.window, request.grant_bytes), (done.window, 0));
}

#[test]
fn a_flow_without_probes_has_its_turn_at_its_syn_for_the_least_window() {
    let mut home = Home::new(StartPolicy {
        probes: 0,
        ..paper()
    });
    let mut syn = ack(0, 64_000);
    (syn.flags, syn.mss_bytes) = (segment_flags::SYN as u8, MSS as u16);
    syn.options = segment_flags::OPT_MSS as u8;
    assert_eq!(home.leaves(&syn).grant_bytes, 2 * FRAME);
}

#[test]
fn a_copy_of_the_syn_ack_gives_the_same_window_and_takes_no_turn() {
    let mut home = Home::new(paper());
    home.probes(&[(0, false), (1, true), (2, true)]);
    let answer = home.handshake(65_535, 7);
    home.random = 1;
    let again = home.handshake(65_535, 7);
    assert_eq!((again.window, again.grant_bytes), (answer.window, 0));
    assert_eq!(u32::from(home.start.stage), consts::ROUNDS);
}

#[test]
fn on_a_full_link_the_whole_window_is_given_at_once() {
    let policy = StartPolicy {
        pace_bytes_per_s: 1_250_000_000,
        ..paper()
    };
    let mut home = Home::new(policy);
    let idle = home.handshake(65_535, 7);
    assert_eq!(u32::from(idle.window), 5 * MSS);
    let mut home = Home::new(policy);
    for _ in 0..200 {
        home.bucket.heard(&policy, 1_514, true, home.now_ns);
        home.now_ns += 1_212;
    }
    let full = home.handshake(65_535, 7);
    assert_eq!(u32::from(full.window), 10 * MSS);
    assert_eq!(full.grant_bytes, 10 * FRAME);
    // Nothing was held back: with its first data the start is over.
    home.data(0, true);
    home.ack(1, 65_535);
    assert_eq!(u32::from(home.start.stage), consts::LEFT);
    // An hour later it is as if nothing had been heard.
    let mut later = Home::new(policy);
    (later.bucket, later.now_ns) = (home.bucket, home.now_ns + 3_600_000_000_000);
    assert_eq!(u32::from(later.handshake(65_535, 7).window), 5 * MSS);
}

#[test]
fn observing_policy_writes_no_window() {
    let policy = StartPolicy {
        observe: 1,
        ..paper()
    };
    let mut home = Home::new(policy);
    home.probes(&[(0, true)]);
    let answer = home.handshake(65_535, 7);
    assert_eq!(answer.window, 65_535);
    home.data(0, true);
    assert_eq!(home.ack(1, 65_000), 65_000);
}
