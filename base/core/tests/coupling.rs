//! What coupling is for: one window for many flows, divided by weights whatever their number, moved
//! by each of them once.

use crate::home::{Home, MSS, ROUND_NS, report};
use uc_core::coupling::{GroupPolicy, Member, Report, consts};

/// A window that divides well.
const WINDOW_BYTES: u32 = 120 * MSS;

fn close(found: u64, wanted: u64) -> bool {
    found.abs_diff(wanted) <= wanted / 100 + 4
}

#[test]
fn a_guest_with_four_flows_has_no_more_than_a_guest_with_one() {
    let mut home = Home::open(GroupPolicy::default(), WINDOW_BYTES);
    for id in 1..=4 {
        home.join(1, id, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
        for _ in 0..3 {
            home.round();
        }
        let (one, many) = (home.given_to(0), home.given_to(1));
        assert!(close(one, many), "{id} flows: {one} and {many}");
        assert!(close(one + many, u64::from(WINDOW_BYTES)));
    }
}

#[test]
fn guests_of_weights_one_two_three_have_a_sixth_a_third_and_a_half() {
    let mut home = Home::open(GroupPolicy::default(), WINDOW_BYTES);
    home.set_weight(1, 2);
    home.set_weight(2, 3);
    for id in 1..=3 {
        home.join(1, id, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
    }
    home.join(2, 4, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
    for _ in 0..3 {
        home.round();
    }
    for (guest, sixths) in [(0, 1), (1, 2), (2, 3)] {
        let wanted = u64::from(WINDOW_BYTES) * sixths / 6;
        assert!(close(home.given_to(guest), wanted), "guest {guest}");
    }
    // a weight that the operator changes reaches the guest's flows as the others make room
    home.set_weight(1, 4);
    for _ in 0..3 {
        home.round();
    }
    assert!(close(home.given_to(1), u64::from(WINDOW_BYTES) / 2));
}

#[test]
fn a_flow_of_priority_three_has_three_times_a_sibling_s_window() {
    let mut home = Home::open(GroupPolicy::default(), WINDOW_BYTES);
    home.join(0, 1, 3, 10 * MSS, consts::INFINITE_SSTHRESH);
    for _ in 0..3 {
        home.round();
    }
    assert!(close(
        home.answer(0).cwnd_bytes.into(),
        u64::from(WINDOW_BYTES) / 4
    ));
    assert!(close(
        home.answer(1).cwnd_bytes.into(),
        u64::from(WINDOW_BYTES) / 4 * 3
    ));
}

#[test]
fn joins_and_leaves_leave_the_sum_alone() {
    let mut home = Home::open(GroupPolicy::default(), WINDOW_BYTES);
    for id in 1..50 {
        home.join(id % 7, id, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
        assert_eq!(home.group.window_bytes(), WINDOW_BYTES, "join of {id}");
    }
    home.round();
    for id in 1..50 {
        home.leave(id);
        assert_eq!(home.group.window_bytes(), WINDOW_BYTES, "leave of {id}");
    }
    home.round();
    assert_eq!(
        home.answer(0).cwnd_bytes,
        WINDOW_BYTES,
        "what they leave is the last one's"
    );
}

#[test]
fn a_first_flow_in_a_reduction_brings_the_window_that_it_ends_with() {
    let reduced = Report {
        ssthresh_bytes: 10 * MSS,
        state: consts::RECOVERY as u8,
        ..report(20 * MSS)
    };
    let mut home = Home::new(GroupPolicy::default());
    home.register(0, 0, 1, &reduced);
    home.now_ns += ROUND_NS;
    let over = Report {
        ssthresh_bytes: 10 * MSS,
        ..report(10 * MSS)
    };
    home.update(0, &over);
    assert_eq!(home.answer(0).cwnd_bytes, 10 * MSS);
}

#[test]
fn reduction_soon_after_the_one_that_a_first_flow_brings_reduces_the_group() {
    let reduced = |segments| Report {
        ssthresh_bytes: segments * MSS,
        state: consts::RECOVERY as u8,
        ..report(20 * MSS)
    };
    let mut home = Home::new(GroupPolicy::default());
    home.register(0, 0, 1, &reduced(10));
    home.now_ns += ROUND_NS / 4;
    home.update(0, &report(10 * MSS));
    home.now_ns += ROUND_NS / 4;
    home.update(0, &reduced(5));
    assert_eq!(home.group.window_bytes(), 5 * MSS);
}

#[test]
fn the_first_flow_brings_the_window_and_later_ones_skip_slow_start() {
    let mut home = Home::new(GroupPolicy::default());
    let first = home.join(0, 1, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
    assert_eq!(
        (first.cwnd_bytes, first.ssthresh_bytes),
        (10 * MSS, consts::INFINITE_SSTHRESH)
    );
    assert_eq!(u32::from(first.state), consts::SLOW_START);
    // it doubles three times and loses
    for _ in 0..7 {
        home.now_ns += ROUND_NS;
        home.grow(1, 10 * MSS);
    }
    assert_eq!(home.group.window_bytes(), 80 * MSS);
    home.now_ns += ROUND_NS;
    home.lose(1);
    assert_eq!(home.group.window_bytes(), 40 * MSS);
    let second = home.join(0, 2, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
    assert_eq!(u32::from(second.state), consts::AVOIDANCE);
    assert!(close(second.ssthresh_bytes.into(), u64::from(20 * MSS)));
}

#[test]
fn a_group_in_slow_start_doubles_as_one_flow_would() {
    let mut home = Home::new(GroupPolicy::default());
    for id in 0..4 {
        home.join(id, id, 1, 40 * MSS, consts::INFINITE_SSTHRESH);
    }
    home.round();
    for _ in 0..3 {
        home.now_ns += ROUND_NS;
        let before = home.group.window_bytes();
        let own: Vec<u32> = (0..4).map(|id| home.share(id) as u32).collect();
        for (id, bytes) in own.into_iter().enumerate() {
            let mut said = report(home.answer(id as u32).cwnd_bytes + bytes);
            said.acked_bytes = bytes;
            said.state = consts::SLOW_START as u8;
            home.update(id as u32, &said);
        }
        assert!(close(
            home.group.window_bytes().into(),
            2 * u64::from(before)
        ));
    }
}

#[test]
fn a_flow_that_leaves_slow_start_without_a_loss_ends_the_group_s() {
    let mut home = Home::new(GroupPolicy::default());
    home.join(0, 0, 1, 20 * MSS, consts::INFINITE_SSTHRESH);
    let answer = home.update(
        0,
        &Report {
            ssthresh_bytes: 20 * MSS,
            ..report(20 * MSS)
        },
    );
    assert_eq!(u32::from(answer.state), consts::AVOIDANCE);
    assert_eq!(answer.ssthresh_bytes, 20 * MSS);
}

#[test]
fn many_flows_grow_as_one_and_with_full_aggressiveness_as_many() {
    for (aggressiveness_q16, wanted) in [(0, 1), (1 << 15, 5), (1 << 16, 9)] {
        let policy = GroupPolicy {
            aggressiveness_q16,
            ..GroupPolicy::default()
        };
        let mut home = Home::open(policy, 9 * 20 * MSS);
        for id in 1..9 {
            home.join(id % 2, id, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
        }
        for _ in 0..4 {
            home.round();
        }
        let before = home.group.window_bytes();
        for round in 0..10 {
            home.now_ns += ROUND_NS;
            // by weight of guests: five flows share one half, four the other
            for id in 0..9 {
                home.grow(id, MSS);
            }
            let segments = (home.group.window_bytes() - before) as f64 / f64::from(MSS);
            let expected = f64::from(wanted * (round + 1));
            assert!(
                (segments - expected).abs() < 0.02 * expected,
                "{aggressiveness_q16}: {segments} after round {round}"
            );
        }
    }
}

#[test]
fn a_group_of_n_tcps_cuts_an_nth_of_what_one_would() {
    for (aggressiveness_q16, left) in [(0, 0.5), (1 << 16, 1.0 - 0.5 / 4.0)] {
        let policy = GroupPolicy {
            aggressiveness_q16,
            ..GroupPolicy::default()
        };
        let mut home = Home::open(policy, WINDOW_BYTES);
        for id in 1..4 {
            home.join(id, id, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
        }
        home.round();
        home.lose(2);
        let found = f64::from(home.group.window_bytes()) / f64::from(WINDOW_BYTES);
        assert!((found - left).abs() < 0.001, "{found}, not {left}");
    }
}

#[test]
fn loss_of_all_flows_is_answered_by_as_many_tcps_as_the_group_has() {
    let answers = |aggressiveness_q16: u32| {
        let policy = GroupPolicy {
            aggressiveness_q16,
            ..GroupPolicy::default()
        };
        let mut home = Home::open(policy, WINDOW_BYTES);
        for id in 1..4 {
            home.join(id, id, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
        }
        home.round();
        for id in 0..4 {
            home.lose(id);
        }
        f64::from(home.group.window_bytes()) / f64::from(WINDOW_BYTES)
    };
    // four TCPs, an eighth each; one and a half, of which the half answers by half; one
    let expected = [
        (1 << 16, (7.0f64 / 8.0).powi(4)),
        (65536 / 6, 2.0 / 3.0 * (1.0 - 0.5 / 3.0)),
        (0, 0.5),
    ];
    for (aggressiveness_q16, left) in expected {
        let found = answers(aggressiveness_q16);
        assert!((found - left).abs() < 0.001, "{found}, not {left}");
    }
}

#[test]
fn idle_connections_don_t_make_a_busy_one_aggressive() {
    for size in [consts::SIZE_FLOWS, consts::SIZE_GUESTS] {
        let policy = GroupPolicy {
            aggressiveness_q16: 1 << 16,
            size: size as u8,
            ..GroupPolicy::default()
        };
        let mut home = Home::open(policy, WINDOW_BYTES);
        for id in 1..9 {
            home.join(id, id, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
        }
        for _ in 0..20 {
            home.now_ns += ROUND_NS;
            for id in 1..9 {
                home.idle_at(id, 0);
            }
            home.hold(0);
        }
        let before = home.group.window_bytes();
        home.grow(0, MSS);
        assert!(home.group.window_bytes() - before <= MSS);
    }
}

#[test]
fn a_loss_event_is_answered_once_whoever_of_the_group_loses() {
    let mut home = Home::open(GroupPolicy::default(), WINDOW_BYTES);
    for id in 1..6 {
        home.join(id, id, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
    }
    for _ in 0..3 {
        home.round();
    }
    // the queue overflows: within a round trip, all of them lose
    for id in 0..6 {
        home.now_ns += ROUND_NS / 8;
        let answer = home.lose(id);
        assert_eq!(u32::from(answer.state), consts::RECOVERY);
        assert!(close(
            answer.ssthresh_bytes.into(),
            u64::from(WINDOW_BYTES) / 12
        ));
    }
    assert_eq!(
        (home.group.cuts, home.group.window_bytes()),
        (1, WINDOW_BYTES / 2)
    );
    // recovered, and two round trips later one loses again: that was sent after the cut
    home.round();
    home.now_ns += 2 * ROUND_NS;
    home.lose(3);
    assert_eq!(
        (home.group.cuts, home.group.window_bytes()),
        (2, WINDOW_BYTES / 4)
    );
}

#[test]
fn acks_of_data_sent_before_the_cut_do_not_grow_the_window() {
    let mut home = Home::open(GroupPolicy::default(), WINDOW_BYTES);
    home.join(1, 1, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
    home.round();
    home.lose(0);
    home.now_ns += ROUND_NS;
    home.grow(1, MSS);
    assert_eq!(home.group.window_bytes(), WINDOW_BYTES / 2);
    home.now_ns += ROUND_NS;
    home.grow(1, MSS);
    assert!(home.group.window_bytes() > WINDOW_BYTES / 2);
}

#[test]
fn a_flow_that_knows_when_it_sent_what_it_lost_is_believed() {
    let mut home = Home::open(GroupPolicy::default(), WINDOW_BYTES);
    home.round();
    home.lose(0);
    home.now_ns += 5 * ROUND_NS;
    home.hold(0);
    let mut said = report(home.answer(0).cwnd_bytes);
    said.state = consts::RECOVERY as u8;
    said.ssthresh_bytes = said.cwnd_bytes / 2;
    said.lost_age_us = 60_000; // before the cut, 50 ms ago
    home.update(0, &said);
    assert_eq!(home.group.cuts, 1);
}

#[test]
fn each_law_s_own_cut_is_the_group_s_but_a_floor_is_no_opinion() {
    for (ssthresh, left) in [(7, 0.7), (5, 0.5), (9, 0.9), (1, 0.5), (12, 1.0)] {
        let mut home = Home::open(GroupPolicy::default(), 1000 * MSS);
        let said = Report {
            ssthresh_bytes: ssthresh * 100 * MSS,
            state: consts::RECOVERY as u8,
            ..report(1000 * MSS)
        };
        home.update(0, &said);
        let found = f64::from(home.group.window_bytes()) / f64::from(1000 * MSS);
        assert!((found - left).abs() < 0.001, "{found}, not {left}");
    }
}

/// Sixty flows of two segments each.
fn sixty() -> Home {
    let mut home = Home::open(GroupPolicy::default(), WINDOW_BYTES);
    for id in 1..60 {
        home.join(0, id, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
    }
    home.round();
    home
}

#[test]
fn a_flow_of_two_segments_cuts_no_further_by_a_mark_but_by_a_timeout() {
    let mut home = sixty();
    let marked = Report {
        ssthresh_bytes: 2 * MSS,
        state: consts::RECOVERY as u8,
        ..report(2 * MSS)
    };
    home.update(5, &marked);
    assert_eq!(home.group.window_bytes(), WINDOW_BYTES);
    assert!(
        home.group.cut_ns == home.now_ns,
        "it was an event all the same"
    );
    home.now_ns += 2 * ROUND_NS;
    home.time_out(7);
    assert_eq!(home.group.window_bytes(), WINDOW_BYTES / 2);
}

#[test]
fn a_flow_of_three_segments_cuts_to_two_and_a_larger_one_among_small_ones_to_a_half() {
    let mut home = Home::open(GroupPolicy::default(), WINDOW_BYTES);
    for id in 1..40 {
        home.join(0, id, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
    }
    home.round();
    home.lose(5);
    let two_thirds = WINDOW_BYTES / 3 * 2;
    let window = home.group.window_bytes();
    assert!((two_thirds..two_thirds + MSS).contains(&window), "{window}");
    let mut home = sixty();
    home.join(1, 60, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
    home.round();
    home.lose(60);
    assert_eq!(home.group.window_bytes(), WINDOW_BYTES / 2);
}

#[test]
fn a_flow_that_was_never_registered_or_has_left_is_uncoupled_tcp() {
    let mut home = Home::open(GroupPolicy::default(), WINDOW_BYTES);
    let before = home.group;
    let said = report(7777);
    let answer = home.update(99, &said);
    assert_eq!(
        (answer.cwnd_bytes, answer.ssthresh_bytes),
        (said.cwnd_bytes, said.ssthresh_bytes)
    );
    assert!(home.group == before);
    home.leave(99);
    assert!(home.group == before);

    let mut flow = home.flows[&0];
    let guest = home.guests.get_mut(&0).unwrap();
    home.group.leave(guest, &mut flow.member, home.now_ns);
    assert!(flow.member == Member::default());
    let answer = home
        .group
        .update(guest, &mut flow.member, &said, home.now_ns);
    assert_eq!(answer.cwnd_bytes, 7777);
}
