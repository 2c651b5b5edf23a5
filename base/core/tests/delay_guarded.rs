//! Law `delay` under a guard: a guest does not get rid of samples by sending its data twice.

use crate::guest::{Guest, MSS};
use uc_core::{DelayParameters, Policy, consts};

const TARGET_US: u32 = 1_000;

fn policy() -> Policy {
    Policy::new(consts::LAW_DELAY, consts::PROFILE_LINUX).with_delay(DelayParameters {
        target_us: TARGET_US,
        range_us: 0,
    })
}

/// Returns the window in segments after ten round trips of five times the target in which the guest
/// sends most of its data twice: first without the peer getting them, or as a retransmission.
fn window_after_double_sending(guard_segments: u8) -> u32 {
    let policy = Policy {
        guard_segments,
        ..policy()
    };
    let mut guest = Guest::under(policy, false);
    guest.flow.reno.cwnd = 20 * MSS;
    guest.flow.reno.ssthresh = 20 * MSS;
    guest.ack(0);
    for _ in 0..10 {
        let window = guest.window() / MSS;
        guest.send(window);
        for nth in 1..window {
            let again = guest.data(guest.una.wrapping_add(nth * MSS));
            guest.pass(&again);
        }
        guest.now_ns += 5 * u64::from(TARGET_US) * 1_000;
        while guest.flight() > 0 {
            guest.ack(guest.flight().min(2));
        }
    }
    guest.window() / MSS
}

#[test]
fn guarded_guest_that_sends_its_data_twice_is_timed_from_the_first_time() {
    // Karn's rule (RFC 6298 §3): such data give no sample
    assert!(window_after_double_sending(0) >= 20);
    assert_eq!(window_after_double_sending(1), 2);
}

/// Returns the number of decreases in 60 ACKs, a target apart, of a guest that fills its window; each
/// of its segments begins `overlap_bytes` before the end of the one before.
fn decreases(guard_segments: u8, overlap_bytes: u32) -> u32 {
    let policy = Policy {
        guard_segments,
        ..policy()
    };
    let mut guest = Guest::under(policy, false);
    guest.flow.reno.cwnd = 20 * MSS;
    guest.flow.reno.ssthresh = 20 * MSS;
    guest.ack(0);
    guest.send(1);
    for _ in 0..60 {
        guest.now_ns += u64::from(TARGET_US) * 1_000;
        while guest.nxt.wrapping_sub(guest.una) + MSS <= guest.window() {
            guest.nxt = guest.nxt.wrapping_sub(overlap_bytes);
            guest.send(1);
        }
        guest.ack(1);
    }
    guest.cuts()
}

#[test]
fn guarded_guest_whose_new_data_begins_with_old_is_timed() {
    assert!(decreases(0, 0) >= 3);
    assert_eq!(decreases(0, 1), 0);
    assert_eq!(decreases(1, 1), decreases(1, 0));
}

#[test]
fn segment_that_begins_with_old_data_is_timed_under_a_guard_only() {
    for guard_segments in [0, 1] {
        let policy = Policy {
            guard_segments,
            ..policy()
        };
        let mut guest = Guest::under(policy, false);
        let before_us = guest.flow.srtt_us;
        guest.send(2);
        guest.nxt = guest.nxt.wrapping_sub(1);
        guest.send(1);
        guest.wait_ms(50);
        guest.ack_bytes(3 * MSS - 1);
        let timed = guest.flow.srtt_us != before_us;
        assert_eq!(timed, guard_segments > 0, "{guard_segments}");
    }
}
