//! Paths and remote ends that harm flows with ECN: what a flow tests, when it goes on without ECN, and
//! what a platform remembers of the remote address.

use std::cell::Cell;

use crate::ends::{ACK, FROM_GUEST, IRS, ISS, Port, SYN, TO_GUEST, segment, syn};
use crate::flows::for_all;
use crate::guest::{Guest, MSS};
use proptest::prelude::any;
use proptest::prop_assert;
use uc_core::{Edit, Policy, consts};

const LAWS: [u32; 2] = [consts::LAW_ECN, consts::LAW_DCTCP];
const PROFILES: [u32; 2] = [consts::PROFILE_LINUX, consts::PROFILE_RFC];

fn guest(law: u32, profile: u32) -> Guest {
    Guest::under(Policy::new(law, profile), true)
}

fn is_ect(edit: Edit) -> bool {
    u32::from(edit.ecn) == consts::ECT0
}

fn gave_up(guest: &Guest) -> bool {
    u32::from(guest.flow.policy.modes) & consts::MODE_NO_ECT != 0
}

/// Sends `segments`, of which a path loses those that are ECT, until all are acknowledged. Each lost
/// segment is retransmitted until it is not ECT; returns how many retransmissions that took.
fn through_a_path_that_drops_ect(guest: &mut Guest, segments: u32) -> u32 {
    let arrived = (0..segments).filter(|_| !is_ect(guest.send(1))).count() as u32;
    if arrived == segments {
        guest.ack(segments);
        return 0;
    }
    let mut again = 0;
    guest.wait_ms(300);
    for _ in 0..segments {
        while is_ect(guest.retransmit()) {
            again += 1;
            guest.wait_ms(300);
            assert!(again < 20, "each retransmission is lost, too");
        }
        again += 1;
        guest.ack(1);
    }
    again
}

#[test]
fn a_flow_whose_ect_data_vanish_goes_on_without_ect_after_two_tries() {
    for law in LAWS {
        for profile in PROFILES {
            let mut guest = guest(law, profile);
            through_a_path_that_drops_ect(&mut guest, 10);
            assert!(!gave_up(&guest), "one window may be lost to a full queue");
            through_a_path_that_drops_ect(&mut guest, 3);
            assert!(gave_up(&guest), "law {law}, profile {profile}");
            assert!(!is_ect(guest.send(1)));
            assert_eq!(news(&guest), Some("lost"));
        }
    }
}

#[test]
fn a_path_that_begins_to_drop_ect_is_found_too() {
    let mut guest = guest(consts::LAW_ECN, consts::PROFILE_LINUX);
    for _ in 0..20 {
        guest.send(4);
        guest.ack(4);
    }
    for _ in 0..3 {
        through_a_path_that_drops_ect(&mut guest, 4);
    }
    assert!(gave_up(&guest));
}

#[test]
fn a_window_lost_to_a_full_queue_is_no_reason_if_the_next_ect_data_arrive() {
    for law in LAWS {
        let mut guest = guest(law, consts::PROFILE_LINUX);
        for _ in 0..10 {
            through_a_path_that_drops_ect(&mut guest, 10);
            assert!(is_ect(guest.send(1)));
            guest.ack(1);
        }
        assert!(!gave_up(&guest), "law {law}");
    }
}

#[test]
fn single_segments_must_be_lost_ten_times_in_a_row_by_the_timer() {
    let policy = Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX);
    let mut timer = Guest::under(policy, false);
    // with SACK that may be a tail loss probe, before a delayed ACK
    let mut probe = Guest::under(policy, true);
    for nth in 1..=10 {
        assert!(!gave_up(&timer), "after {nth}");
        through_a_path_that_drops_ect(&mut timer, 1);
        through_a_path_that_drops_ect(&mut probe, 1);
    }
    assert!(gave_up(&timer) && !gave_up(&probe));
}

#[test]
fn under_a_guard_nothing_is_tested_since_a_guest_could_feign_it() {
    for modes in [0, consts::MODE_STRICT as u8] {
        let policy = Policy {
            guard_segments: u8::from(modes == 0),
            modes,
            ..Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX)
        };
        let mut guest = Guest::under(policy, true);
        for _ in 0..20 {
            through_a_path_that_drops_ect(&mut guest, 2);
            guest.send(2);
            guest.ack_ece(2);
        }
        assert!(!gave_up(&guest) && is_ect(guest.send(1)));
    }
}

/// Fills the window and has every ACK marked, `rounds` times. Returns whether the last data were ECT.
fn marked(guest: &mut Guest, rounds: u32, queue_ms: u64) -> bool {
    let mut ect = true;
    for _ in 0..rounds {
        let window = (guest.window() / MSS).clamp(2, 20);
        let room = window.saturating_sub(guest.flight()).max(1);
        ect = is_ect(guest.send(room));
        guest.wait_ms(20 + queue_ms);
        guest.ack_ece(guest.flight());
    }
    ect
}

/// A guest whose round trip takes 20 ms.
fn far(law: u32, profile: u32) -> Guest {
    let mut guest = guest(law, profile);
    for _ in 0..60 {
        guest.send(2);
        guest.wait_ms(20);
        guest.ack(2);
    }
    guest.flow.trial_at = 20_000;
    guest
}

#[test]
fn marks_without_a_queue_are_disbelieved_once_data_without_ect_arrive() {
    for law in LAWS {
        for profile in PROFILES {
            let mut guest = far(law, profile);
            assert!(marked(&mut guest, 6, 0) && !gave_up(&guest));
            marked(&mut guest, 8, 0);
            assert!(gave_up(&guest), "law {law}, profile {profile}");
            assert_eq!(news(&guest), Some("marked"));
            let before = guest.window();
            marked(&mut guest, 4, 0);
            assert!(
                guest.window() > before || guest.window() > 20 * MSS,
                "ECE means nothing"
            );
        }
    }
}

#[test]
fn marks_of_a_queue_are_believed() {
    // the round-trip time shows it
    let mut guest = far(consts::LAW_ECN, consts::PROFILE_LINUX);
    assert!(marked(&mut guest, 60, 20) && !gave_up(&guest));
    // or an ACK without ECE comes now and then
    let mut guest = far(consts::LAW_ECN, consts::PROFILE_LINUX);
    for _ in 0..20 {
        assert!(marked(&mut guest, 6, 0) && !gave_up(&guest));
        guest.send(2);
        guest.ack(2);
    }
    // or the data without ECT are dropped, as a congested switch does
    let mut guest = far(consts::LAW_ECN, consts::PROFILE_LINUX);
    let mut dropped = 0;
    for _ in 0..60 {
        let ect = is_ect(guest.send(2));
        guest.wait_ms(20);
        if !ect {
            dropped += 1;
            guest.retransmit();
        }
        guest.ack_ece(guest.flight());
    }
    assert!(!gave_up(&guest) && dropped == 1, "{dropped}");
}

#[test]
fn only_ten_losses_in_a_row_make_a_flow_give_ecn_up() {
    let flows = Cell::new(0);
    for_all(2000, &any::<u64>(), |seed| {
        let mut random = seed | 1;
        let mut guest = guest(consts::LAW_ECN, consts::PROFILE_LINUX);
        let mut lost_in_a_row = 0;
        for _ in 0..300 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let segments = 1 + (random % 8) as u32;
            guest.send(segments);
            // of one segment in five the first transmission is lost, and its retransmission arrives
            for nth in 0..segments {
                lost_in_a_row += 1;
                if (random >> (8 + 5 * nth)) % 5 == 0 {
                    guest.retransmit();
                } else {
                    lost_in_a_row = 0;
                }
                guest.ack(1);
                // of 30,000 such flows one loses ten in a row by chance
                if lost_in_a_row >= 10 {
                    return Ok(());
                }
                prop_assert!(!gave_up(&guest));
            }
        }
        flows.set(flows.get() + 1);
        Ok(())
    });
    assert!(flows.get() > 100);
}

#[test]
fn flow_that_goes_on_without_ecn_keeps_the_verdict_of_its_handshake() {
    let policy = Policy {
        ecn_syns: 1,
        ..Policy::new(consts::LAW_COUPLED, consts::PROFILE_LINUX)
    };
    let mut port = Port::new(policy);
    for _ in 0..2 {
        port.pass(&syn(FROM_GUEST, ISS));
    }
    port.pass(&segment(TO_GUEST, SYN | ACK, IRS, ISS + 1));
    let news = uc_core::remote::news(port.flow().unwrap());
    assert_eq!(news.map(|news| news.label()), Some("refused"));
}

/// Returns what the flow has shown of its remote address, as an event names it.
fn news(guest: &Guest) -> Option<&'static str> {
    uc_core::remote::news(&guest.flow).map(|news| news.label())
}
