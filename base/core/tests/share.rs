//! `share` (vCC §4): a sum of windows that the flows' own laws make, divided by weight.

use std::collections::BTreeMap;

use crate::flows::seeded::for_all;
use crate::home::{Home, MSS, ROUND_NS, report};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::{prop_assert, prop_assert_eq, prop_oneof};
use uc_core::coupling::{GroupPolicy, Report, consts};

/// Segments in the sum at the start.
const SUM: u32 = 90;

fn policy() -> GroupPolicy {
    GroupPolicy {
        size: consts::SIZE_LAWS as u8,
        ..GroupPolicy::default()
    }
}

/// A port whose flows have these weights and are numbered by them, in congestion avoidance.
fn port(weights: &[u8]) -> Home {
    let mut home = Home::new(policy());
    for (id, &weight) in (0..).zip(weights) {
        home.join(0, id, weight, SUM * MSS, SUM * MSS);
    }
    settle(&mut home);
    home
}

/// Until everybody has the room that the others' flights leave.
fn settle(home: &mut Home) {
    for _ in 0..4 {
        home.round();
    }
}

fn windows(home: &Home) -> Vec<u32> {
    let flows = home.flows.values();
    flows.map(|flow| flow.answer.cwnd_bytes).collect()
}

#[test]
fn three_unpreferred_have_a_third_each_and_beside_two_preferred_a_ninth() {
    let mut home = port(&[1, 1, 1]);
    assert_eq!(windows(&home), [SUM / 3 * MSS; 3]);
    home.join(0, 3, 3, 10 * MSS, consts::INFINITE_SSTHRESH);
    home.join(0, 4, 3, 10 * MSS, consts::INFINITE_SSTHRESH);
    settle(&mut home);
    let (ninth, third) = (SUM / 9 * MSS, SUM / 3 * MSS);
    assert_eq!(windows(&home), [ninth, ninth, ninth, third, third]);
    assert_eq!(
        home.group.window_bytes(),
        SUM * MSS,
        "a join brings nothing"
    );
    home.leave(3);
    home.leave(4);
    settle(&mut home);
    assert_eq!(windows(&home), [third; 3]);
    assert_eq!(
        home.group.window_bytes(),
        SUM * MSS,
        "and takes nothing along"
    );
}

#[test]
fn an_idle_flow_gives_its_part_to_the_others_and_has_it_back_when_it_isn_t() {
    let mut home = port(&[1, 1, 1, 3, 3]);
    for _ in 0..8 {
        home.now_ns += ROUND_NS;
        for id in 0..4 {
            home.hold(id);
        }
        home.idle_at(4, 0);
    }
    // it keeps a 64th of its weight: 3/64 beside six
    let left = home.share(4) as f64 / f64::from(SUM * MSS);
    assert!(
        (left - 3.0 / 64.0 / (6.0 + 3.0 / 64.0)).abs() < 0.001,
        "{left}"
    );
    let preferred = home.share(3) as f64 / f64::from(SUM * MSS);
    assert!((preferred - 0.5).abs() < 0.01, "{preferred}");
    settle(&mut home);
    assert_eq!(home.share(4), u64::from(SUM / 3 * MSS));
    assert_eq!(home.group.window_bytes(), SUM * MSS);
    // one that is silent isn't counted when two epochs are over
    for _ in 0..45 {
        home.now_ns += ROUND_NS;
        for id in 0..4 {
            home.hold(id);
        }
    }
    assert_eq!(home.share(3), u64::from(SUM / 2 * MSS));
}

#[test]
fn the_sum_grows_by_what_each_law_grows_and_weights_make_no_difference() {
    for weights in [[1, 1, 1, 1], [1, 1, 3, 3], [255, 1, 1, 1]] {
        let mut home = port(&weights);
        for _ in 0..5 {
            home.now_ns += ROUND_NS;
            for id in 0..4 {
                home.grow(id, MSS);
            }
        }
        assert_eq!(home.group.window_bytes(), (SUM + 20) * MSS, "{weights:?}");
    }
}

#[test]
fn whoever_loses_the_sum_is_cut_by_half_of_the_mean_window_and_the_others_go_on() {
    for weights in [[1, 1, 1, 1], [1, 1, 3, 3], [255, 1, 1, 1]] {
        for loser in 0..4 {
            let mut home = port(&weights);
            home.now_ns += 10 * ROUND_NS;
            home.lose(loser);
            let window = f64::from(home.group.window_bytes()) / f64::from(SUM * MSS);
            assert!((window - 7.0 / 8.0).abs() < 0.001, "{weights:?}: {window}");
            // a cut of one doesn't hold the others, as one TCP's would
            let before = home.group.window_bytes();
            let other = (loser + 1) % 4;
            home.grow(other, MSS);
            assert_eq!(home.group.window_bytes(), before + MSS, "{weights:?}");
        }
    }
}

#[test]
fn loss_of_all_flows_halves_the_sum_down_to_its_minimum() {
    let mut home = port(&[1, 1, 1, 3, 3]);
    home.now_ns += 10 * ROUND_NS;
    for id in 0..5 {
        home.lose(id);
    }
    let left = f64::from(home.group.window_bytes()) / f64::from(SUM * MSS);
    assert!((left - 0.5).abs() < 0.001, "{left}");
    // a mean window of two segments is the least
    let mut home = port(&[1; 45]);
    home.now_ns += 10 * ROUND_NS;
    for id in 0..45 {
        let cwnd_bytes = home.answer(id).cwnd_bytes;
        assert_eq!(cwnd_bytes, 2 * MSS);
        let kept = Report {
            ssthresh_bytes: cwnd_bytes / 2,
            state: consts::RECOVERY as u8,
            ..report(cwnd_bytes)
        };
        home.update(id, &kept);
    }
    assert_eq!(home.group.window_bytes(), SUM * MSS);
}

#[test]
fn marks_that_go_on_through_a_reduction_cut_in_each_round_trip() {
    let mut home = port(&[1, 1]);
    let mut kept = 1.0;
    for round in 0..4 {
        home.now_ns += 2 * ROUND_NS;
        let before = kept;
        for id in 0..2 {
            // dctcp at α = 1/5: a tenth of the window
            let cwnd_bytes = home.answer(id).cwnd_bytes;
            let report = Report {
                ssthresh_bytes: cwnd_bytes / 10 * 9,
                state: consts::RECOVERY as u8,
                again: u8::from(round > 0),
                ..report(cwnd_bytes)
            };
            home.update(id, &report);
            // of what the sum was before this round's first
            kept -= before * 0.1 / 2.0;
            let found = f64::from(home.group.window_bytes()) / f64::from(SUM * MSS);
            assert!(
                (found - kept).abs() < 0.001,
                "round {round}: {found}, {kept}"
            );
        }
    }
}

#[test]
fn a_total_is_never_exceeded_and_what_the_laws_lose_is_not_made_up_for() {
    let policy = GroupPolicy {
        window_max_bytes: 60 * MSS,
        ..policy()
    };
    let mut home = Home::new(policy);
    for id in 0..3 {
        home.join(0, id, 1, 100 * MSS, consts::INFINITE_SSTHRESH);
    }
    settle(&mut home);
    assert_eq!(windows(&home), [20 * MSS; 3]);
    for id in 0..3 {
        home.grow(id, MSS);
    }
    assert_eq!(home.group.window_bytes(), 60 * MSS);
    home.now_ns += 10 * ROUND_NS;
    home.lose(1);
    assert_eq!(home.group.window_bytes(), 50 * MSS);
}

#[derive(Clone, Debug)]
enum Step {
    Join { weight: u8 },
    Leave,
    Hold,
    Idle { used: u8 },
    Silent,
    Wait { ms: u16 },
}

fn steps() -> impl Strategy<Value = (u32, Step)> {
    let step = prop_oneof![
        3 => any::<u8>().prop_map(|weight| Step::Join { weight }),
        2 => Just(Step::Leave),
        10 => Just(Step::Hold),
        3 => any::<u8>().prop_map(|used| Step::Idle { used }),
        2 => Just(Step::Silent),
        4 => prop_oneof![8 => 0u16..30, 1 => 0u16..600].prop_map(|ms| Step::Wait { ms }),
    ];
    (0u32..10, step)
}

/// Everybody who is there says something; then the books must be right to the byte.
fn check_division(home: &mut Home, weights: &BTreeMap<u32, u8>) -> Result<(), String> {
    home.now_ns += ROUND_NS;
    let ids: Vec<u32> = weights.keys().copied().collect();
    for &id in &ids {
        home.hold(id);
    }
    let window = u64::from(home.group.window_bytes());
    let sum: u64 = weights.values().map(|&weight| u64::from(weight)).sum();
    for (&id, &weight) in weights {
        let (share, exact) = (home.share(id), window * u64::from(weight) / sum);
        if share > exact || share + 2 < exact {
            return Err(format!(
                "flow {id} of weight {weight}: {share}, not {exact}"
            ));
        }
    }
    let all: u64 = weights.keys().map(|&id| home.share(id)).sum();
    match all <= window && all + weights.len() as u64 + 1 >= window {
        true => Ok(()),
        false => Err(format!("shares make {all} of {window}")),
    }
}

#[test]
fn whatever_joins_leaves_or_idles_the_sum_stays_and_its_division_is_exact() {
    for_all(800, &vec(steps(), 1..150), |steps| {
        let mut home = Home::new(policy());
        let mut weights = BTreeMap::new();
        home.join(0, 100, 7, SUM * MSS, SUM * MSS);
        weights.insert(100, 7);
        for (id, step) in &steps {
            let known = weights.contains_key(id);
            match *step {
                Step::Join { weight } => {
                    home.leave(*id);
                    home.join(0, *id, weight, 10 * MSS, consts::INFINITE_SSTHRESH);
                    weights.insert(*id, weight.max(1));
                }
                Step::Leave => {
                    home.leave(*id);
                    weights.remove(id);
                }
                Step::Hold if known => {
                    home.hold(*id);
                }
                Step::Idle { used } if known => {
                    home.idle_at(*id, u32::from(used) * MSS);
                }
                Step::Wait { ms } => home.now_ns += u64::from(ms) * 1_000_000,
                Step::Hold | Step::Idle { .. } | Step::Silent => {}
            }
            // the one of the beginning is never silent for two epochs
            home.hold(100);
            let checked = check_division(&mut home.clone(), &weights);
            prop_assert_eq!(checked, Ok(()), "after {:?} of {}", step, id);
            let window = home.group.window_bytes();
            // if all are silent for two epochs, RFC 5681's restart reduces the sum
            prop_assert!(window <= SUM * MSS, "{window}");
        }
        Ok(())
    });
}
