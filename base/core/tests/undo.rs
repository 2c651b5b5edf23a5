//! Timeouts that were spurious: when the shadow takes its reduction back, and how much. Windows in
//! segments.

use std::cell::Cell;

use crate::flows::for_all;
use crate::guest::{Guest, MSS};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::{prop_assert, prop_oneof};
use uc_core::{Policy, consts};

const INFINITE: u32 = 0x7fff_ffff;

fn linux(sack: bool) -> Guest {
    Guest::connected(consts::PROFILE_LINUX as u8, 10, sack)
}

fn rfc() -> Guest {
    Guest::connected(consts::PROFILE_RFC as u8, 10, false)
}

/// Sends ten segments, of which the first times out.
fn timed_out(mut guest: Guest) -> Guest {
    guest.send(10);
    guest.wait_ms(300);
    guest.retransmit();
    assert_eq!((guest.ca(), guest.losses()), (consts::CA_LOSS, 1));
    guest
}

fn state(guest: &Guest) -> (u32, u32, u32) {
    (guest.ca(), guest.flow.reno.cwnd, guest.ssthresh())
}

#[test]
fn with_sack_the_first_ack_of_data_not_retransmitted_restores_the_window() {
    let mut guest = timed_out(linux(true));
    guest.ack(2);
    // ten, and slow start by the two
    assert_eq!(state(&guest), (consts::CA_OPEN, 12, INFINITE));
}

#[test]
fn an_ack_of_the_retransmitted_segment_alone_shows_nothing_and_the_next_ack_does() {
    for sack in [false, true] {
        let mut guest = timed_out(linux(sack));
        guest.ack(1);
        assert_eq!(guest.ca(), consts::CA_LOSS);
        guest.ack(1);
        assert_eq!(state(&guest), (consts::CA_OPEN, 11, INFINITE));
    }
}

#[test]
fn without_sack_an_ack_of_the_retransmitted_segment_and_more_shows_nothing() {
    // the receiver may have had all but the first segment
    let mut guest = timed_out(linux(false));
    guest.ack(10);
    assert_eq!((guest.ca(), guest.ssthresh()), (consts::CA_OPEN, 5));
}

#[test]
fn a_guest_that_retransmits_more_has_its_window_back_only_with_what_it_did_not_retransmit() {
    let mut guest = timed_out(linux(true));
    guest.ack(1);
    let next = guest.data(guest.una.wrapping_add(MSS));
    guest.retransmit();
    guest.pass(&next);
    guest.ack(2);
    assert_eq!(guest.ca(), consts::CA_LOSS, "both were retransmitted");
    guest.ack(1);
    assert_eq!((guest.ca(), guest.ssthresh()), (consts::CA_OPEN, INFINITE));
}

#[test]
fn a_duplicate_ack_or_ece_leaves_the_reduction() {
    let mut guest = timed_out(linux(true));
    guest.duplicate(1);
    guest.ack(10);
    assert_eq!(guest.ssthresh(), 5);
    let mut guest = timed_out(linux(true));
    guest.ack_ece(2);
    guest.ack(8);
    assert_eq!(guest.ssthresh(), 5);
    let mut guest = linux(true);
    guest.send(10);
    guest.flow.bits &= !consts::FLOW_SACK;
    guest.duplicate(1); // before the timer fired
    guest.retransmit();
    guest.ack(1);
    guest.ack(1);
    assert_eq!((guest.ca(), guest.ssthresh()), (consts::CA_LOSS, 5));
}

#[test]
fn a_timeout_during_a_reduction_is_not_taken_back() {
    let mut guest = linux(true);
    guest.send(10);
    guest.ack_ece(1);
    assert_eq!((guest.ca(), guest.ssthresh()), (consts::CA_CWR, 5));
    guest.retransmit();
    guest.ack(3);
    assert_eq!(guest.ca(), consts::CA_LOSS);
}

#[test]
fn further_timeouts_of_the_same_data_leave_it_open_in_profile_linux_alone() {
    let mut guest = timed_out(linux(true));
    guest.retransmit();
    guest.retransmit();
    guest.ack(2);
    assert_eq!(state(&guest), (consts::CA_OPEN, 12, INFINITE));
    // RFC 5682 §2.1 step 1
    let mut guest = timed_out(rfc());
    guest.retransmit();
    guest.ack(1);
    guest.ack(1);
    assert_eq!((guest.ca(), guest.ssthresh()), (consts::CA_LOSS, 5 * MSS));
}

#[test]
fn profile_rfc_lets_two_segments_probe_and_restores_what_is_then_in_flight() {
    let mut guest = timed_out(rfc());
    guest.ack(1);
    assert_eq!(guest.window(), 11 * MSS, "nine in flight, and two");
    guest.send(2);
    guest.ack(1);
    // RFC 4015 §3.2: ten in flight, and one that this ACK acknowledges
    assert_eq!(state(&guest), (consts::CA_OPEN, 11 * MSS, INFINITE));
}

#[test]
fn profile_rfc_keeps_half_where_ece_came_with_the_first_ack() {
    let mut guest = timed_out(rfc());
    guest.ack_ece(1);
    guest.send(2);
    guest.ack(1);
    assert_eq!(state(&guest), (consts::CA_OPEN, 5 * MSS, 5 * MSS));
}

#[test]
fn profile_rfc_leaves_the_reduction_of_a_guest_that_repairs() {
    let mut guest = timed_out(rfc());
    guest.ack(1);
    guest.retransmit();
    assert_eq!(guest.losses(), 1, "the next hole, no timeout");
    guest.ack(1);
    assert_eq!((guest.ca(), guest.ssthresh()), (consts::CA_LOSS, 5 * MSS));
}

#[test]
fn a_guest_that_probes_and_then_retransmits_has_timed_out_again() {
    let mut guest = timed_out(rfc());
    guest.ack(1);
    guest.send(2);
    guest.wait_ms(300);
    guest.retransmit();
    assert_eq!(guest.losses(), 2);
}

#[test]
fn law_delay_takes_its_decrease_back_and_keeps_its_samples() {
    let policy = Policy::new(consts::LAW_DELAY, consts::PROFILE_LINUX);
    let guest = timed_out(Guest::under(policy, true));
    assert_eq!(guest.flow.reno.cwnd, 5 * MSS);
    let mut guest = guest;
    guest.flow.annex.delay.last_us = 700;
    guest.ack(2);
    assert_eq!((guest.ca(), guest.ssthresh()), (consts::CA_OPEN, INFINITE));
    assert!((10 * MSS..=12 * MSS).contains(&guest.flow.reno.cwnd));
    assert_eq!(guest.flow.annex.delay.last_us, 700);
    let mut guest = timed_out(Guest::under(policy, true));
    guest.flow.annex.delay.last_us = 700;
    guest.duplicate(1);
    assert_eq!(
        guest.flow.annex.delay.last_us, 0,
        "a loss's timeout discards them"
    );
}

#[test]
fn a_flow_with_a_groups_window_takes_nothing_back() {
    let mut guest = linux(true);
    guest.flow.share = 1;
    guest.flow.annex.coupled.given_bytes = 10 * MSS;
    guest.send(10);
    guest.retransmit();
    guest.ack(2);
    assert_eq!(guest.ca(), consts::CA_LOSS);
}

#[derive(Clone, Debug)]
enum Move {
    Send(u8),
    /// Retransmits this one of those in flight.
    Again(u8),
    Ack(u8, bool),
    Duplicate,
    Wait(u16),
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        6 => (1u8..20).prop_map(Move::Send),
        4 => prop_oneof![4 => 0u8..1, 1 => 0u8..20].prop_map(Move::Again),
        8 => (1u8..6, proptest::bool::weighted(0.1)).prop_map(|(n, ece)| Move::Ack(n, ece)),
        1 => (0u8..1).prop_map(|_| Move::Duplicate),
        1 => (1u16..400).prop_map(Move::Wait),
    ]
}

/// What a test knows of a timeout: the windows before it, and what has come since.
struct Timeout {
    cwnd: u32,
    ssthresh: u32,
    flight: u32,
    resent_end: u32,
    refuted: bool,
}

fn act(guest: &mut Guest, step: &Move) -> u32 {
    let flight = guest.flight();
    match *step {
        Move::Send(segments) => {
            let room = guest.flow.edge.wrapping_sub(guest.nxt) as i32;
            guest.send(u32::from(segments).min(room.max(0) as u32 / MSS));
        }
        Move::Again(nth) if flight > 0 => {
            let nth = u32::from(nth).min(flight - 1);
            let segment = guest.data(guest.una.wrapping_add(nth * MSS));
            guest.pass(&segment);
        }
        Move::Ack(segments, ece) => {
            let segments = u32::from(segments).min(flight);
            if ece {
                guest.ack_ece(segments);
            } else {
                guest.ack(segments);
            }
            return segments;
        }
        Move::Duplicate => guest.duplicate(1),
        Move::Wait(ms) => guest.wait_ms(ms.into()),
        Move::Again(_) => {}
    }
    0
}

/// Whatever a guest does: a window returns at most once for each timeout, never more than was taken,
/// only with an ACK of data that was not retransmitted since, and not after ECE or a duplicate.
#[test]
fn no_more_returns_than_a_timeout_took_and_only_with_evidence() {
    let undone = Cell::new(0u32);
    let flows = (
        any::<bool>(),
        any::<bool>(),
        0u8..3,
        0u8..3,
        vec(moves(), 0..120),
    );
    for_all(3000, &flows, |(linux, sack, law, guard_segments, steps)| {
        let policy = Policy {
            guard_segments,
            ..Policy::new(
                [consts::LAW_ECN, consts::LAW_DCTCP, consts::LAW_DELAY][usize::from(law)],
                if linux {
                    consts::PROFILE_LINUX
                } else {
                    consts::PROFILE_RFC
                },
            )
        };
        let unit = if linux && law < 2 { 1 } else { MSS };
        let mut guest = Guest::under(policy, sack);
        let mut timeout: Option<Timeout> = None;
        for step in &steps {
            let before = guest.flow;
            let (flight, una) = (guest.flight(), guest.una);
            let acked = act(&mut guest, step);
            let flow = &guest.flow;
            if let (Move::Again(nth), true) = (step, flight > 0) {
                let end = una.wrapping_add((u32::from(*nth).min(flight - 1) + 1) * MSS);
                if before.ca != flow.ca && guest.ca() == consts::CA_LOSS {
                    timeout = Some(Timeout {
                        cwnd: before.reno.cwnd,
                        ssthresh: before.reno.ssthresh,
                        flight: flight * unit,
                        resent_end: end,
                        refuted: false,
                    });
                } else if let Some(timeout) = &mut timeout
                    && end.wrapping_sub(timeout.resent_end) as i32 > 0
                {
                    timeout.resent_end = end;
                }
            }
            let marked = matches!(step, Move::Ack(_, true));
            let repeats =
                matches!(step, Move::Duplicate | Move::Ack(_, _)) && acked == 0 && flight > 0;
            if let Some(timeout) = &mut timeout {
                timeout.refuted |= (marked && law < 2) || repeats;
            }
            let growth = (acked + 1) * unit;
            let ends = u32::from(before.ca) == consts::CA_LOSS && guest.ca() == consts::CA_OPEN;
            let most = before.reno.cwnd.max(before.reno.ssthresh) + growth;
            let returned = flow.reno.ssthresh > before.reno.ssthresh || flow.reno.cwnd > most;
            if !ends || !returned || flow.cuts > before.cuts {
                continue;
            }
            let timeout = timeout.take();
            prop_assert!(timeout.is_some(), "twice, or without a timeout: {step:?}");
            let Some(timeout) = timeout else { continue };
            undone.set(undone.get() + 1);
            prop_assert!(!timeout.refuted);
            let beyond = guest.una.wrapping_sub(timeout.resent_end) as i32;
            prop_assert!(beyond > 0, "{beyond}");
            let most = timeout.ssthresh.max(if guard_segments > 0 {
                0
            } else {
                timeout.flight
            });
            prop_assert!(flow.reno.ssthresh <= most.max(before.reno.ssthresh));
            // RFC 4015 §3.2 (5) begins at what is in flight, which a first timeout may leave above cwnd
            let (in_flight, probes) = if guard_segments > 0 {
                (0, 0)
            } else {
                (flight * unit, 2 * unit)
            };
            let most = timeout.cwnd.max(before.reno.cwnd).max(in_flight) + growth + probes;
            prop_assert!(flow.reno.cwnd <= most, "{} of {most}", flow.reno.cwnd);
        }
        Ok(())
    });
    println!("{} timeouts undone", undone.get());
    assert!(undone.get() > 1_000);
}
