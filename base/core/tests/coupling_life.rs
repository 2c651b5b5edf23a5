//! Flows that have nothing to send, fall silent, time out, come back, or have longer paths than
//! others.

use crate::home::{Home, MSS, ROUND_NS, SRTT_US, report};
use uc_core::coupling::{GroupPolicy, Report, consts};

const WINDOW_BYTES: u32 = 120 * MSS;

/// Two guests with a flow each, settled.
fn pair(policy: GroupPolicy) -> Home {
    let mut home = Home::open(policy, WINDOW_BYTES);
    home.join(1, 1, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
    for _ in 0..3 {
        home.round();
    }
    home
}

/// Round trips in which flow 1 uses so much and flow 0 all that it gets.
fn rounds_beside(home: &mut Home, rounds: u32, used_bytes: u32) {
    for _ in 0..rounds {
        for _ in 0..5 {
            home.now_ns += ROUND_NS / 5;
            home.idle_at(1, used_bytes);
            home.hold(0);
        }
    }
}

#[test]
fn an_idle_guest_s_share_is_the_other_s_within_two_round_trips() {
    let mut home = pair(GroupPolicy::default());
    rounds_beside(&mut home, 2, 0);
    let share = home.answer(0).cwnd_bytes;
    assert!(share > WINDOW_BYTES / 100 * 95, "{share} of {WINDOW_BYTES}");
    // and back as soon as it has something to send
    for _ in 0..3 {
        home.round();
    }
    assert!(home.answer(1).cwnd_bytes > WINDOW_BYTES / 100 * 49);
}

#[test]
fn a_flow_that_uses_a_tenth_keeps_a_fifth() {
    let mut home = pair(GroupPolicy::default());
    rounds_beside(&mut home, 20, WINDOW_BYTES / 10);
    let kept = home.answer(1).cwnd_bytes;
    assert!(
        kept.abs_diff(WINDOW_BYTES / 5) < WINDOW_BYTES / 100,
        "{kept}"
    );
    let others = home.answer(0).cwnd_bytes;
    assert!(
        others.abs_diff(WINDOW_BYTES / 5 * 4) < WINDOW_BYTES / 100,
        "{others}"
    );
    // one that uses more than half of its share keeps all of it
    rounds_beside(&mut home, 20, WINDOW_BYTES / 3);
    assert!(home.answer(1).cwnd_bytes > WINDOW_BYTES / 100 * 49);
}

#[test]
fn released_weight_goes_to_siblings_first() {
    let mut home = pair(GroupPolicy::default());
    home.join(1, 2, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
    for _ in 0..4 {
        home.round();
    }
    for _ in 0..10 {
        home.now_ns += ROUND_NS / 5;
        home.idle_at(1, 0);
        home.hold(0);
        home.hold(2);
    }
    let (other, sibling) = (home.answer(0).cwnd_bytes, home.answer(2).cwnd_bytes);
    assert!(other <= WINDOW_BYTES / 2, "{other}");
    assert!(sibling > WINDOW_BYTES / 100 * 48, "{sibling}");
}

#[test]
fn idle_flows_don_t_grow_the_window_and_don_t_shrink_it() {
    let mut home = pair(GroupPolicy::default());
    for bytes in [0, MSS, 10 * MSS] {
        let said = Report {
            limited: 1,
            used_bytes: MSS,
            flight_bytes: MSS,
            ..report(home.answer(1).cwnd_bytes + bytes)
        };
        home.update(1, &said);
        assert_eq!(home.group.window_bytes(), WINDOW_BYTES);
        let said = Report {
            cwnd_bytes: home.answer(1).cwnd_bytes.saturating_sub(bytes),
            ..said
        };
        home.update(1, &said);
        assert_eq!(home.group.window_bytes(), WINDOW_BYTES);
    }
}

#[test]
fn whoever_falls_silent_is_replaced_within_two_epochs_and_nobody_waits_for_it() {
    // the first flow brought the window and lost last: the draft's coordinator
    for silent in [0, 1] {
        let mut home = pair(GroupPolicy::default());
        home.lose(silent);
        home.round();
        let awake = 1 - silent;
        let cut = home.group.window_bytes();
        home.now_ns += 2 * ROUND_NS;
        home.grow(awake, MSS);
        assert!(home.group.window_bytes() > cut, "the group stands still");
        let began_ns = home.now_ns;
        while home.answer(awake).cwnd_bytes < home.group.window_bytes() {
            home.now_ns += ROUND_NS;
            home.hold(awake);
            assert!(home.now_ns - began_ns <= 2 * home.group.epoch_ns() + ROUND_NS);
        }
        // it comes back, and finds its part
        for _ in 0..4 {
            home.round();
        }
        assert!(home.answer(silent).cwnd_bytes > cut / 100 * 48);
    }
}

#[test]
fn a_guest_that_dies_without_a_word_leaves_no_trace_in_the_sums() {
    let mut home = pair(GroupPolicy::default());
    for id in 10..200 {
        home.join(2, id, 7, 10 * MSS, consts::INFINITE_SSTHRESH);
    }
    home.round();
    home.flows.retain(|&id, _| id < 10);
    for _ in 0..50 {
        home.round();
    }
    let all = home.group.guests.counted;
    assert_eq!((all.flows, all.flight_bytes), (2, u64::from(WINDOW_BYTES)));
    assert_eq!(home.given_to(0), home.given_to(1));
}

#[test]
fn an_epoch_is_as_long_as_two_of_the_longest_round_trips() {
    let mut home = pair(GroupPolicy::default());
    assert_eq!(home.group.epoch_ns(), 200_000_000);
    let far = Report {
        srtt_us: 8 * 600_000,
        ..report(10 * MSS)
    };
    home.register(0, 5, 1, &far);
    assert_eq!(home.group.epoch_ns(), 1_200_000_000);
    // round trips are limited to about a second
    home.update(
        5,
        &Report {
            srtt_us: u32::MAX,
            ..far
        },
    );
    assert!(home.group.epoch_ns() < 2_200_000_000);
}

#[test]
fn a_timeout_of_one_flow_halves_the_group_and_one_of_all_begins_again() {
    let mut home = pair(GroupPolicy::default());
    let answer = home.time_out(0);
    assert_eq!(answer.cwnd_bytes, MSS, "its own slow start goes on");
    assert_eq!(home.group.window_bytes(), WINDOW_BYTES / 2);
    home.time_out(1);
    assert_eq!(home.group.window_bytes(), MSS);
    assert_eq!(home.group.ssthresh_bytes, WINDOW_BYTES / 2);
    // while all are resending, their slow start is the group's
    home.now_ns += ROUND_NS;
    for id in [0, 1] {
        let said = Report {
            state: consts::LOSS as u8,
            acked_bytes: MSS,
            ..report(home.answer(id).cwnd_bytes + MSS)
        };
        home.update(id, &said);
    }
    assert_eq!(home.group.window_bytes(), 3 * MSS);
}

#[test]
fn a_mark_on_the_ack_that_ends_a_timeout_s_repair_reduces_the_group_once_more() {
    for (again, kept) in [(1, WINDOW_BYTES / 2), (0, 0)] {
        let mut home = pair(GroupPolicy::default());
        home.time_out(0);
        let half = home.group.window_bytes();
        assert_eq!(half, WINDOW_BYTES / 2);
        for _ in 0..2 {
            home.now_ns += ROUND_NS;
            home.hold(1);
        }
        let said = Report {
            state: consts::RECOVERY as u8,
            ssthresh_bytes: kept / 2,
            again,
            ..report(WINDOW_BYTES / 2)
        };
        home.update(0, &said);
        assert_eq!(home.group.window_bytes(), half / 2);
        // the reduction goes on
        home.update(0, &Report { again: 0, ..said });
        assert_eq!(home.group.window_bytes(), half / 2);
    }
}

#[test]
fn a_flow_whose_timer_fires_again_and_again_makes_those_who_send_give_way() {
    let mut home = pair(GroupPolicy::default());
    home.time_out(0);
    assert_eq!(home.group.window_bytes(), WINDOW_BYTES / 2);
    for halvings in 2..6 {
        // the other has its windows acknowledged meanwhile, and loses nothing
        for _ in 0..2 {
            home.now_ns += ROUND_NS;
            home.hold(1);
        }
        let answer = home.time_out_again(0);
        assert_eq!(u32::from(answer.state), consts::LOSS);
        assert_eq!(answer.cwnd_bytes, MSS);
        assert_eq!(home.group.window_bytes(), WINDOW_BYTES >> halvings);
        // of what was sent before that cut, another timer tells nothing new
        home.now_ns += ROUND_NS / 2;
        home.time_out_again(0);
        assert_eq!(home.group.window_bytes(), WINDOW_BYTES >> halvings);
    }
}

#[test]
fn a_lone_flow_whose_timer_fires_again_holds_its_ssthresh_and_is_counted() {
    let mut home = Home::open(GroupPolicy::default(), WINDOW_BYTES);
    home.round();
    home.time_out(0);
    let cuts = home.group.cuts;
    for more in 1..4 {
        home.now_ns += 3_000_000_000;
        let answer = home.time_out_again(0);
        assert_eq!(
            (answer.cwnd_bytes, answer.ssthresh_bytes),
            (MSS, WINDOW_BYTES / 2)
        );
        assert_eq!(home.group.cuts, cuts + more);
    }
}

#[test]
fn a_lone_flow_s_timeout_after_a_silence_is_a_plain_tcp_s() {
    let mut home = Home::open(GroupPolicy::default(), WINDOW_BYTES);
    home.round();
    home.now_ns += 3_000_000_000;
    let answer = home.time_out(0);
    assert_eq!(
        (answer.cwnd_bytes, answer.ssthresh_bytes),
        (MSS, WINDOW_BYTES / 2)
    );
    assert_eq!(u32::from(answer.state), consts::LOSS);
}

#[test]
fn a_group_that_was_idle_restarts_at_ten_segments() {
    let mut home = pair(GroupPolicy::default());
    home.now_ns += 3_000_000_000;
    let answer = home.hold(0);
    assert_eq!(answer.cwnd_bytes, 10 * MSS);
    assert_eq!(u32::from(answer.state), consts::SLOW_START);
    assert_eq!(answer.ssthresh_bytes, WINDOW_BYTES);
}

#[test]
fn a_new_flow_gets_its_share_as_the_others_make_room() {
    let mut home = Home::open(GroupPolicy::default(), WINDOW_BYTES);
    home.round();
    let answer = home.join(1, 1, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
    assert_eq!(answer.cwnd_bytes, 2 * MSS, "a first burst");
    // the other's flight falls to its new share, packet by packet
    for segments in (60..120).rev() {
        home.now_ns += ROUND_NS / 60;
        let said = Report {
            flight_bytes: segments * MSS,
            ..report(home.answer(0).cwnd_bytes)
        };
        home.update(0, &said);
        let guest = home.guests.get_mut(&1).unwrap();
        let flow = home.flows.get_mut(&1).unwrap();
        let answer = home.group.ask(guest, &mut flow.member, home.now_ns);
        let room = (120 - segments).clamp(2, 60) * MSS;
        assert_eq!(answer.cwnd_bytes, room, "{segments} in flight");
    }
    // without the clock: all at once
    let policy = GroupPolicy {
        burst_segments: u16::MAX,
        ..GroupPolicy::default()
    };
    let mut home = Home::open(policy, WINDOW_BYTES);
    home.round();
    let answer = home.join(1, 1, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
    assert_eq!(answer.cwnd_bytes, WINDOW_BYTES / 2);
}

#[test]
fn shares_of_the_rate_are_windows_over_round_trip_times() {
    let policy = GroupPolicy {
        shares: consts::BY_RATE as u8,
        ..GroupPolicy::default()
    };
    let mut home = pair(policy);
    home.join(1, 2, 1, 10 * MSS, consts::INFINITE_SSTHRESH);
    // one near and one far flow in guest 1, a far one in guest 0
    let srtt_us = [4 * SRTT_US, SRTT_US, 3 * SRTT_US];
    for _ in 0..8 {
        home.now_ns += ROUND_NS;
        for id in 0..3 {
            let said = Report {
                srtt_us: srtt_us[id as usize],
                ssthresh_bytes: home.answer(id).ssthresh_bytes,
                ..report(home.answer(id).cwnd_bytes)
            };
            home.update(id, &said);
        }
    }
    let rate = |id: u32| f64::from(home.answer(id).cwnd_bytes) / f64::from(srtt_us[id as usize]);
    let (lone, near, far) = (rate(0), rate(1), rate(2));
    assert!((near / far - 1.0).abs() < 0.02, "{near} and {far}");
    assert!(
        (lone / (near + far) - 1.0).abs() < 0.02,
        "{lone}, {near} and {far}"
    );
}

#[test]
fn times_that_run_backwards_are_read_as_the_last_one() {
    let mut home = pair(GroupPolicy::default());
    let later_ns = home.now_ns;
    home.now_ns = 0;
    home.hold(0);
    home.lose(1);
    home.now_ns = later_ns + ROUND_NS;
    home.round();
    assert_eq!(home.group.cuts, 1);
    assert_eq!(home.group.guests.counted.flows, 2);
}
