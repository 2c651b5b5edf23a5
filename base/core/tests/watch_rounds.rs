//! After the first window: each segment that arrives earns the next, and every start ends. Held
//! against a model that keeps lists instead of sums.

use crate::flows::flag;
use crate::flows::seeded::for_all;
use crate::watch::{BEGIN, Home, MSS, ack, paper};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::{prop_assert, prop_assert_eq};
use uc_core::Segment;
use uc_core::watch::{Bucket, Path, Start, StartPolicy, consts};

#[test]
fn a_start_without_a_mark_is_over_with_the_first_ack_of_data() {
    let mut home = Home::new(paper());
    home.probes(&Vec::from_iter((0..10).map(|index| (index, false))));
    assert_eq!(u32::from(home.handshake(65_535, 0).window), 10 * MSS);
    assert_eq!(u32::from(home.ack(0, 60_000)), 10 * MSS, "no data yet");
    home.data(0, true);
    assert_eq!(home.ack(1, 60_000), 60_000);
    assert_eq!(u32::from(home.start.stage), consts::LEFT);
}

#[test]
fn the_second_half_comes_with_the_first_ack_and_a_round_without_marks_is_the_last() {
    let mut home = Home::new(paper());
    home.probes(&Vec::from_iter((0..10).map(|index| (index, index < 4))));
    // Six unmarked and two; two more behind them.
    assert_eq!(u32::from(home.handshake(65_535, 0).window), 8 * MSS);
    home.data(0, false);
    home.data(1, false);
    // two segments acknowledged, two arrived unmarked, two were owed
    assert_eq!(u32::from(home.ack(2, 65_000)), 10 * MSS);
    for number in 2..8 {
        home.data(number, false);
        let window = home.ack(number + 1, 65_000);
        let is_over = number == 7;
        let expected = if is_over { 65_000 } else { 10 * MSS };
        assert_eq!(u32::from(window), expected, "segment {number}");
    }
}

#[test]
fn a_duplicate_ack_keeps_the_window_of_the_one_before_it() {
    let mut home = Home::new(paper());
    home.handshake(65_535, 3);
    home.data(0, true);
    let window = home.ack(1, 8_000);
    for number in 2..5 {
        home.data(number, false);
        assert_eq!(home.ack(1, 8_000), window);
    }
    home.data(1, false);
    assert!(home.ack(5, 8_000) > 0);
}

#[test]
fn a_start_that_only_sees_marks_ends_after_its_rounds() {
    for rounds in [1u8, 2, 8, 255] {
        let mut home = Home::new(StartPolicy { rounds, ..paper() });
        let mut given = u32::from(home.handshake(65_535, 0).window) / MSS;
        let mut begun = 0u32;
        for _ in 0..20 * u32::from(rounds) {
            for number in begun..given {
                home.data(number, true);
            }
            begun = given;
            let window = u32::from(home.ack(given, 65_000));
            if u32::from(home.start.stage) == consts::LEFT {
                break;
            }
            given += window / MSS;
        }
        assert_eq!(u32::from(home.start.stage), consts::LEFT, "{rounds} rounds");
        assert_eq!(home.start.rounds, rounds);
    }
}

/// The rule again: segments as a list, earned halves one by one.
struct Model {
    edge: i64,
    given: i64,
    una: i64,
    round_end: i64,
    now: Vec<()>,
    later: Vec<()>,
    marks: u32,
    rounds: u32,
    clean: bool,
    left: bool,
}

impl Model {
    fn new(first_segments: i64, owed_halves: usize, clean: bool) -> Model {
        Model {
            edge: first_segments * i64::from(MSS),
            given: first_segments * i64::from(MSS),
            una: 0,
            round_end: 0,
            now: Vec::new(),
            later: vec![(); owed_halves],
            marks: 0,
            rounds: 0,
            clean,
            left: false,
        }
    }

    fn data(&mut self, marked: bool) {
        self.now.push(());
        if marked {
            self.marks += 1;
            self.later.push(());
        } else {
            self.now.push(());
        }
    }

    /// The window on the wire for an ACK of so many bytes, of a receiver that has this one.
    fn ack(&mut self, ack: i64, window: u16, wscale: u8) -> u16 {
        if !self.left && ack > self.una {
            self.una = ack;
            if ack >= self.round_end {
                let ended = self.rounds > 0 && (self.marks == 0 || self.rounds >= 8);
                self.left = ended || (self.rounds == 0 && self.clean);
                self.rounds += 1;
                self.round_end = self.edge;
                self.now.append(&mut self.later);
                self.marks = 0;
            }
            while !self.left && self.now.len() >= 2 {
                self.now.truncate(self.now.len() - 2);
                self.edge += i64::from(MSS);
            }
            self.edge = self.edge.max(ack + 2 * i64::from(MSS));
        }
        if self.left {
            return window;
        }
        self.given = self.given.max(self.edge);
        let grain = 1i64 << wscale;
        let field = ((self.given - ack + grain - 1) / grain).min(window.into());
        self.given = self.given.max(ack + field * grain);
        field as u16
    }
}

#[test]
fn windows_are_those_of_the_model() {
    let data = vec((any::<bool>(), 0u8..4), 1..200);
    let strategy = (0u8..=10, any::<u32>(), 0u8..=9, 500u16.., data);
    for_all(
        2_000,
        &strategy,
        |(marked, random, wscale, window, data)| {
            let mut home = Home::new(paper());
            home.random = random;
            home.probes(&Vec::from_iter(
                (0..10).map(|index| (index, index < marked)),
            ));
            home.handshake(65_535, wscale);
            let half = (u32::from(marked) + (random & 1)) / 2;
            let first = i64::from(10 - u32::from(marked) + half).max(2);
            let owed = 2 * (u32::from(marked) - half) as usize;
            let mut model = Model::new(first, owed, marked == 0);
            let (mut come, mut acked) = (0u32, 0u32);
            for (is_marked, acks) in data {
                // The peer sends no more than it was given.
                let room = (model.given - i64::from(come * MSS)) / i64::from(MSS);
                if room > 0 || model.left {
                    home.data(come, is_marked);
                    if !model.left {
                        model.data(is_marked);
                    }
                    come += 1;
                }
                acked = (acked + u32::from(acks)).min(come);
                let expected = model.ack(i64::from(acked * MSS), window, wscale);
                let got = home.ack(acked, window);
                prop_assert_eq!(got, expected, "{} of {} acknowledged", acked, come);
            }
            Ok(())
        },
    );
}

/// A segment of either direction with numbers near the flow's, or anywhere.
fn garbage(words: [u32; 4], small: [u8; 6]) -> Segment {
    let near = |word: u32| BEGIN.wrapping_add(word % 200_000);
    let at = |word: u32| if small[0] < 200 { near(word) } else { word };
    Segment {
        seq: at(words[0]),
        ack: at(words[1]),
        payload_bytes: words[2] % 70_000,
        wire_payload_bytes: words[3] as u16,
        window: (words[3] >> 16) as u16,
        mss_bytes: (words[2] >> 16) as u16,
        wscale: small[1],
        options: small[2],
        flags: small[3],
        ecn: small[4] & 3,
        direction: small[5] & 1,
        blind: 0,
    }
}

#[test]
fn whatever_comes_no_window_is_0_or_above_the_receivers_or_behind_what_was_given() {
    let segment = (any::<[u32; 4]>(), any::<[u8; 6]>(), any::<u32>());
    let strategy = (any::<[u8; 3]>(), any::<[u32; 3]>(), vec(segment, 0..80));
    for_all(4_000, &strategy, |([probes, least, rounds], times, all)| {
        let policy = StartPolicy {
            probes,
            least_segments: least,
            rounds,
            observe: 0,
            span_us: times[0],
            fresh_us: times[1],
            idle_us: times[2],
            wait_us: times[0],
            burst_bytes: times[1],
            late_ns: times[1],
            span_part: times[2] as u8,
            marked_part: times[1] as u8,
            granted: times[0] as u8 & 1,
            pad: 0,
            pace_bytes_per_s: u64::from(times[2]),
        };
        let (mut start, mut path, mut bucket) =
            (Start::default(), Path::default(), Bucket::default());
        let mut now_ns = 1u64;
        for (words, small, random) in all {
            let segment = garbage(words, small);
            now_ns = now_ns.wrapping_add(u64::from(random) * 1_000);
            if segment.direction == 1 {
                let ecn = start.timed(&policy, segment.ecn, words[0], now_ns);
                start.probe(small[1] & 31, small[2] & 31, ecn);
                bucket.heard(
                    &policy,
                    segment.payload_bytes,
                    start.is_steady(&segment),
                    now_ns,
                );
                start.arrives(&segment);
                continue;
            }
            let before = start;
            let answer = start.leaves(&policy, (&mut path, &bucket), &segment, now_ns, random);
            prop_assert!(answer.window <= segment.window);
            prop_assert!(answer.window > 0 || segment.window == 0);
            bucket.settle(&policy, answer.settle_bytes);
            let wait_ns = bucket.wait_ns(&policy, answer.grant_bytes, now_ns);
            prop_assert!(wait_ns <= u64::from(consts::WAIT_MAX_US) * 1_000);
            let is_ack = segment.flags & 0x16 == 0x10;
            if is_ack && u32::from(before.stage) == consts::ROUNDS {
                let held = before.given.wrapping_sub(segment.ack);
                let got = u32::from(answer.window) << (start.wscale & 15);
                let capped = answer.window == segment.window;
                prop_assert!(got >= held || capped || held > 1 << 30);
            }
        }
        Ok(())
    });
}

#[test]
fn repeated_syn_ack_with_an_impossible_number_keeps_the_receivers_window() {
    let mut home = Home::new(paper());
    home.handshake(65_535, 0);
    let mut answer = ack(home.start.given, 60_000);
    answer.flags |= flag::SYN;
    assert_eq!(home.leaves(&answer).window, 60_000);
}
