//! HWatch's theorems 4.1 and 4.2 and corollary 4.2.2 on the queue of `uc-net`, with the windows of
//! the core; and the outcome beyond their premises.
//!
//! The premises: a queue of B = RTT · C packets that marks above K = B/7, flows whose probes are
//! packets of the size of data, ΣX_UM ≤ K, ΣX_M ≤ B − K, and at most 2K in the queue when a batch
//! comes. Every batch comes at one time, which is the worst case.

use uc_net::Ecn;
use uc_net::random::Stream;

use crate::common::bottleneck::{Bottleneck, ROUNDS, SEED, begin, probe, queue_before};

/// Size of a probe, Ethernet's minimum frame.
const PROBE_BYTES: u32 = 60;

/// Returns what one flow's host gives for these marks: the first window, and the second batch.
fn batches(marks: &[Option<Ecn>], random: &mut Stream) -> (u64, u64) {
    let (start, first) = begin(marks, random);
    (first, u64::from(start.owed_halves / 2))
}

/// Splits `sum` into parts of at most ten.
fn parts(sum: u64, random: &mut Stream) -> Vec<u64> {
    let mut left = sum;
    let mut parts = Vec::new();
    while left > 0 {
        let part = (1 + random.below(10)).min(left);
        parts.push(part);
        left -= part;
    }
    parts
}

#[test]
fn theorem_4_1_unmarked_batches_alone_never_overflow() {
    let mut random = Stream::new(SEED, "theorem 4.1");
    for round in 0..ROUNDS {
        let k = 3 + random.below(60);
        let before = queue_before(k, &mut random);
        let mut bottleneck = Bottleneck::new(k);
        bottleneck.fill_to(before);
        let sum = random.below(k + 1);
        parts(sum, &mut random)
            .into_iter()
            .for_each(|packets| bottleneck.offer_data(packets));
        let case = format!("seed {SEED}, round {round}: K {k}, before {before}, sum {sum}");
        assert_eq!(bottleneck.drops, 0, "{case}");
        assert!(bottleneck.peak_packets() <= 3 * k, "{case}");
    }
}

#[test]
fn theorem_4_2_marked_batches_overflow_at_once_and_never_in_two_halves() {
    let mut random = Stream::new(SEED, "theorem 4.2");
    let mut overflowed = 0;
    for round in 0..ROUNDS {
        let k = 3 + random.below(60);
        let before = queue_before(k, &mut random);
        let sum = 6 * k - random.below(k);
        let flows = parts(sum, &mut random);
        let mut at_once = Bottleneck::new(k);
        at_once.fill_to(before);
        at_once.offer_data(sum);
        overflowed += u32::from(at_once.drops > 0);
        let is_over = before + sum > 7 * k;
        let case = format!("seed {SEED}, round {round}: K {k}, before {before}, sum {sum}");
        assert_eq!(at_once.drops > 0, is_over, "{case}");

        let mut in_halves = Bottleneck::new(k);
        let mut halves = flows
            .iter()
            .map(|x| (x.div_ceil(2), x / 2))
            .collect::<Vec<_>>();
        // Which of two unequal halves comes first is random (X_M = 1 above all).
        for half in &mut halves {
            if random.below(2) == 1 {
                *half = (half.1, half.0);
            }
        }
        in_halves.fill_to(before);
        halves.iter().for_each(|half| in_halves.offer_data(half.0));
        in_halves.wait(7 * k);
        in_halves.fill_to(before);
        halves.iter().for_each(|half| in_halves.offer_data(half.1));
        assert_eq!(in_halves.drops, 0, "{case}");
    }
    assert!(overflowed > ROUNDS / 10, "only {overflowed} overflowed");
}

/// Starts flows with ten probes each, the size of data, all at one time; then their three batches.
fn start_all(k: u64, before: u64, flows: u64, random: &mut Stream) -> (Bottleneck, u64) {
    let given: Vec<(u64, u64)> = probe(k, flows)
        .iter()
        .map(|marks| batches(marks, random))
        .collect();
    let mut bottleneck = Bottleneck::new(k);
    bottleneck.fill_to(before);
    given
        .iter()
        .for_each(|given| bottleneck.offer_data(given.0));
    let peak = bottleneck.peak_packets();
    bottleneck.wait(7 * k);
    bottleneck.fill_to(before);
    given
        .iter()
        .for_each(|given| bottleneck.offer_data(given.1));
    (bottleneck, peak)
}

#[test]
fn corollary_4_2_2_first_two_batches_fit_together_and_fill_six_sevenths() {
    let mut random = Stream::new(SEED, "corollary 4.2.2");
    let mut highest = 0;
    for round in 0..ROUNDS {
        let k = 10 + random.below(60);
        let before = queue_before(k, &mut random);
        // As many probes as the queue holds: the premise of both sums.
        let flows = 1 + random.below(7 * k / 10);
        let (bottleneck, peak) = start_all(k, before, flows, &mut random);
        let case = format!("seed {SEED}, round {round}: K {k}, before {before}, {flows} flows");
        assert_eq!(bottleneck.drops, 0, "{case}");
        // K + 1 packets find at most K waiting; and one flow's marks may be odd in number.
        assert!(peak <= 6 * k + 2, "{case}: {peak}");
        highest = highest.max(100 * peak / k);
    }
    assert!(highest >= 550, "the bound is never near: {highest}");
}

#[test]
fn with_more_probes_than_the_queue_holds_lost_probes_bound_nothing() {
    // Beyond ΣX_M ≤ B − K: lost probes count as marked, and all flows together get half of what
    // they asked for, however many they are.
    let mut random = Stream::new(SEED, "beyond");
    let k = 36;
    let lost = [10, 25, 50, 100].map(|flows| {
        let (bottleneck, _) = start_all(k, k, flows, &mut random);
        bottleneck.drops
    });
    assert_eq!(
        lost[..2],
        [0, 0],
        "within the premises: 10 and 25 of {}",
        7 * k
    );
    assert!(lost[2] > 0 && lost[3] > 300, "{lost:?}");
}

#[test]
fn minimum_frames_are_not_marked_in_a_queue_of_bytes() {
    // 50 flows that start at once on an idle path: their 500 probes are 20 packets' worth of bytes,
    // none is marked, and ten segments each are twice what the queue holds.
    let mut random = Stream::new(SEED, "least frames");
    let k = 36;
    let mut probing = Bottleneck::new(k);
    let mut sum = 0;
    for _ in 0..50 {
        let marks: Vec<Option<Ecn>> = (0..10).map(|_| probing.offer(1, PROBE_BYTES)).collect();
        sum += batches(&marks, &mut random).0;
    }
    assert_eq!((probing.drops, sum), (0, 500));
    let mut bottleneck = Bottleneck::new(k);
    bottleneck.offer_data(sum);
    assert_eq!(bottleneck.drops, 500 - 7 * k);
}
