//! The guard: who keeps to its windows never notices it, who doesn't gains nothing.

use std::cell::Cell;

use crate::ends::{self, FROM_GUEST, IRS, ISS, Port, TO_GUEST, guarded, with};
use crate::flows::{flag, for_all};
use crate::guest::{Guest, MSS};
use crate::window::shared::{Manners, networks};
use crate::window::{Crossing, World, half_seen_lives, lives};
use proptest::{prop_assert, prop_assert_eq};
use uc_core::{Flow, Policy, Reason, Segment, consts};

#[test]
fn a_guest_that_keeps_to_its_windows_never_loses_a_segment_to_the_guard() {
    let (data, shrunk) = (Cell::new(0u32), Cell::new(0u32));
    for_all(6000, &lives(false), |(setup, moves)| {
        let mut world = World::new(&setup);
        for step in &moves {
            world.step(step);
        }
        for Crossing {
            segment, passed, ..
        } in &world.passed
        {
            prop_assert!(!passed.reason.drops(), "{:?} of {:?}", segment, passed);
            let flow = passed.after.as_ref();
            let end = segment.seq.wrapping_add(segment.payload_bytes);
            let behind = flow.map_or(0, |flow| end.wrapping_sub(flow.edge) as i32);
            data.set(data.get() + u32::from(segment.payload_bytes > 0));
            shrunk.set(shrunk.get() + u32::from(segment.payload_bytes > 1 && behind > 0));
        }
        Ok(())
    });
    println!(
        "{} segments, {} beyond a window taken back",
        data.get(),
        shrunk.get()
    );
    // windows were taken back below what was on its way to the port, or the test says little
    assert!(data.get() > 50_000 && shrunk.get() > 500);
}

#[test]
fn exactly_what_ends_beyond_every_window_and_the_slack_is_dropped_and_leaves_no_trace() {
    let (dropped, kept) = (Cell::new(0u32), Cell::new(0u32));
    for_all(6000, &lives(true), |(setup, moves)| {
        let mut world = World::new(&setup);
        for step in &moves {
            world.step(step);
        }
        for Crossing {
            segment,
            passed,
            furthest,
            now_ns,
        } in &world.passed
        {
            let fin = u32::from(segment.flags & flag::FIN != 0);
            let bytes = segment.payload_bytes + fin;
            let end = segment.seq.wrapping_add(bytes);
            let before = passed.before.as_ref().expect("the handshake was seen");
            prop_assert!(before.mss_bytes <= setup.mss, "{:?}", before);
            let slack = u32::from(setup.guard_segments) * u32::from(before.mss_bytes);
            let beyond = furthest.is_some_and(|edge| {
                bytes > 0 && end.wrapping_sub(edge.wrapping_add(slack)) as i32 > 0
            });
            // after a pause without ACKs none from further back, until an ACK confirms the place
            let behind = segment.seq.wrapping_sub(before.snd_una) as i32;
            let beyond = beyond || before.bits & consts::FLOW_BLIND != 0 && bytes > 0 && behind < 0;
            // two segments after a pause: the port may have missed what would allow them
            let goes_on = beyond
                && bytes <= 2 * u32::from(before.mss_bytes)
                && paused_us(before, *now_ns) > pause_us(before);
            prop_assert_eq!(passed.reason == Reason::RESYNCED, goes_on, "{:?}", passed);
            let beyond = beyond && !goes_on;
            prop_assert_eq!(passed.reason.drops(), beyond, "{:?} {:?}", segment, passed);
            if beyond {
                prop_assert_eq!(&passed.before, &passed.after, "{:?}", segment);
                prop_assert_eq!(passed.edit, uc_core::no_edit(segment));
            }
            dropped.set(dropped.get() + u32::from(beyond));
            kept.set(kept.get() + u32::from(!beyond));
        }
        Ok(())
    });
    println!("{} dropped, {} not", dropped.get(), kept.get());
    assert!(dropped.get() > 20_000 && kept.get() > 20_000);
}

#[test]
fn guest_ignoring_windows_takes_an_unguarded_link_and_shares_a_guarded_one() {
    const ALL: [Manners; 4] = [
        Manners::Overruns,
        Manners::FeignsLosses,
        Manners::LiesAboutSizes,
        Manners::LiesAboutAcks,
    ];
    let sums = Cell::new([0.0; ALL.len()]);
    let (worst, count) = (Cell::new(0.0f64), Cell::new(0u32));
    for_all(100, &networks(), |network| {
        let honest = [Manners::Keeps, Manners::Keeps];
        prop_assert_eq!(network.share(honest, 1), network.share(honest, 0));
        let mut now = sums.get();
        for (sum, manners) in now.iter_mut().zip(ALL) {
            let guarded = network.share([manners, Manners::Keeps], 1);
            let free = network.share([manners, Manners::Keeps], 0);
            // of two honest guests one has up to 0.63
            prop_assert!(guarded < 0.7, "{:?}, {}", manners, guarded);
            prop_assert!(free > 0.9, "{:?}, {}", manners, free);
            *sum += guarded;
            worst.set(worst.get().max(guarded));
        }
        sums.set(now);
        count.set(count.get() + 1);
        Ok(())
    });
    let means = sums.get().map(|sum| sum / f64::from(count.get()));
    println!("guarded: {means:.3?}, {:.3} at most", worst.get());
    // half is an honest guest's
    assert!(means.iter().all(|mean| *mean <= 1.05 * 0.5), "{means:?}");
}

/// Returns by how many segments the guest's data in flight exceed the law's window at most, in the
/// second half of 400 ACKs; the guest sends as many segments beyond its windows as pass.
fn beyond_the_law(policy: Policy, overrun_segments: u32) -> i64 {
    let mut guest = Guest::under(policy, false);
    guest.flow.reno.ssthresh = 10;
    let mut edit = guest.ack(0);
    let mut most = i64::MIN;
    for nth in 0..400 {
        let told = guest.una.wrapping_add(edit.window.into());
        let limit = told.wrapping_add(overrun_segments * MSS);
        while limit.wrapping_sub(guest.nxt) as i32 >= MSS as i32 {
            let data = guest.data(guest.nxt);
            if uc_core::COMPILED
                .translate(&mut guest.flow, &data, guest.now_ns)
                .0
                .drops()
            {
                break;
            }
            guest.nxt = guest.nxt.wrapping_add(MSS);
        }
        let beyond = i64::from(guest.flight()) - i64::from(guest.window() / MSS);
        most = if nth < 200 { most } else { most.max(beyond) };
        edit = guest.ack(1);
    }
    most
}

#[test]
fn guest_that_uses_the_slack_has_no_more_in_flight_than_the_laws_window() {
    for profile in [consts::PROFILE_LINUX, consts::PROFILE_RFC] {
        for guard_segments in [1, 2] {
            let policy = Policy {
                guard_segments,
                ..Policy::new(consts::LAW_ECN, profile)
            };
            assert_eq!(
                beyond_the_law(policy, 0),
                0,
                "an honest guest fills its windows"
            );
            assert_eq!(beyond_the_law(policy, 20), 0, "guard {guard_segments}");
        }
    }
}

/// The time since data of the guest last passed the port.
fn paused_us(flow: &Flow, now_ns: u64) -> u64 {
    if flow.sent_tick == 0 {
        return now_ns.saturating_sub(flow.seen_ns) / 1_000;
    }
    // ticks of 1,024 ns
    u64::from(((now_ns >> 10) as u32).wrapping_sub(flow.sent_tick)) * 1_024 / 1_000
}

/// The pause after which the port takes it that it has missed ACKs: RFC 6298's timeout with Linux's
/// minimum, and a round trip while it has seen no ACK since the last such pause.
fn pause_us(flow: &Flow) -> u64 {
    let srtt_us = u64::from(flow.srtt_us >> 3);
    match (flow.srtt_us, flow.bits & consts::FLOW_BLIND) {
        (0, _) => 1_000_000,
        (_, 0) => srtt_us + u64::from(flow.rttvar_us).max(200_000),
        _ => srtt_us,
    }
}

#[test]
fn honest_guest_whose_port_misses_its_data_loses_no_segment_and_goes_on() {
    let (missed, seen) = (Cell::new(0u32), Cell::new(0u32));
    for_all(3000, &half_seen_lives(false), |(setup, moves)| {
        let mut world = World::new(&setup);
        for step in &moves {
            world.step(step);
        }
        for crossing in &world.passed {
            let passed = &crossing.passed;
            prop_assert!(!passed.reason.drops(), "{:?}", passed);
            seen.set(seen.get() + 1);
        }
        missed.set(missed.get() + world.resyncs);
        prop_assert_eq!(world.go_on(20, true), 20);
        Ok(())
    });
    println!(
        "{} segments, {} ACKs ahead of them",
        seen.get(),
        missed.get()
    );
    assert!(missed.get() > 1_000 && seen.get() > 20_000);
}

#[test]
fn honest_guest_whose_port_misses_data_and_acks_goes_on() {
    for_all(3000, &half_seen_lives(true), |(setup, moves)| {
        for seen in [true, false] {
            let mut world = World::new(&setup);
            for step in &moves {
                world.step(step);
            }
            prop_assert_eq!(world.go_on(20, seen), 20, "answers seen: {}", seen);
        }
        Ok(())
    });
}

#[test]
fn decoy_far_ahead_after_a_pause_opens_no_room_in_front_of_it() {
    // the peer discards the decoy, and acknowledges again what it has
    for ahead in [
        5_000,
        1 << 17,
        1 << 19,
        1 << 20,
        1 << 29,
        (1u32 << 31) - 4_000,
    ] {
        let mut port = Port::new(guarded());
        let scaled = |segment: Segment| Segment {
            wscale: 4,
            ..with(segment, consts::OPT_WSCALE)
        };
        port.pass(&scaled(ends::syn(FROM_GUEST, ISS)));
        port.pass(&scaled(ends::answer(TO_GUEST, IRS, ISS)));
        let una = ISS + 1 + ends::MSS;
        port.pass(&ends::data(ISS + 1));
        let window = port.pass(&ends::ack(una)).1.window;
        assert!(window < 2_000, "the law's");
        let mut sent = 0;
        for round in 0..20 {
            port.wait_ms(400);
            port.pass(&ends::data(una + ahead + round * ends::MSS));
            port.pass(&ends::ack(una));
            sent += port.blast(una);
        }
        assert!(sent <= 20 * 12, "{ahead}: {sent} segments");
    }
}

#[test]
fn leap_of_two_gibibytes_leaves_the_flow_where_it_is() {
    let mut port = Port::connected(Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX));
    let una = ISS + 1 + ends::MSS;
    for leap in [(1u32 << 30) - 9_000, 2 << 30, 3 << 30] {
        assert_eq!(
            port.reason(&ends::data(una.wrapping_add(leap))),
            Reason::TRANSLATED
        );
        let (reason, edit) = port.pass(&ends::ack(una));
        assert_eq!(reason, Reason::TRANSLATED, "{leap}");
        assert!(edit.window <= 60_000);
        let flow = port.flow().unwrap();
        assert_eq!(flow.snd_una, una, "{leap}");
        assert!(flow.snd_nxt.wrapping_sub(una) <= 1 << 30, "{leap}");
    }
}

/// Returns the law's window in segments after a pause of five timeouts, in which the guest sends
/// acknowledged data or a FIN of before again, or nothing.
fn window_after_pause(guard_segments: u8, again: Option<u8>) -> u32 {
    let policy = Policy {
        guard_segments,
        ..Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX)
    };
    let mut guest = Guest::under(policy, false);
    for _ in 0..3 {
        let window = guest.window() / MSS;
        guest.send(window);
        guest.ack(window);
    }
    for _ in 0..10 {
        guest.wait_ms(100);
        if let Some(flags) = again {
            let old = guest.data(guest.una.wrapping_sub(2 * MSS));
            guest.pass(&Segment {
                flags: old.flags | flags,
                ..old
            });
        }
    }
    guest.send(1);
    guest.window() / MSS
}

#[test]
fn guarded_guest_does_not_hide_a_pause_by_sending_old_data() {
    let idle = window_after_pause(1, None);
    assert_eq!(idle, 10, "the restart window");
    for flags in [0, flag::FIN] {
        assert!(window_after_pause(0, Some(flags)) > 4 * idle);
        assert_eq!(window_after_pause(1, Some(flags)), idle);
    }
}

/// Returns the smoothed round-trip time in ms after 40 round trips of 50 ms, in each of which the
/// guest sends a FIN of before between its data and their ACK.
fn srtt_ms_beside_old_fins(guard_segments: u8) -> u32 {
    let policy = Policy {
        guard_segments,
        ..Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX)
    };
    let mut guest = Guest::under(policy, false);
    for _ in 0..40 {
        guest.send(1);
        let old = guest.data(guest.una.wrapping_sub(2 * MSS));
        guest.pass(&Segment {
            flags: old.flags | flag::FIN,
            payload_bytes: 0,
            wire_payload_bytes: 0,
            ..old
        });
        guest.wait_ms(50);
        guest.ack(1);
    }
    guest.flow.srtt_us / 8 / 1_000
}

#[test]
fn guarded_guest_does_not_hide_its_round_trip_time_by_sending_old_data() {
    // Karn's rule (RFC 6298 §3) where nobody is suspected
    assert_eq!(srtt_ms_beside_old_fins(0), 0);
    assert!((49..=51).contains(&srtt_ms_beside_old_fins(1)));
}

/// Returns the window in segments of a guest after a mark, and the guest an ACK after it has
/// retransmitted its first segment in flight, as if its timer had fired.
fn timed_out_after_mark(law: u32, guard_segments: u8) -> (u32, Guest) {
    let policy = Policy {
        guard_segments,
        initial_window_segments: 20,
        ..Policy::new(law, consts::PROFILE_LINUX)
    };
    let mut guest = Guest::under(policy, true);
    guest.send(20);
    guest.ack_ece(2);
    let before = guest.window() / MSS;
    guest.retransmit();
    assert_eq!(guest.ca(), consts::CA_LOSS);
    guest.ack_ece(1);
    (before, guest)
}

#[test]
fn guarded_guest_opens_no_window_by_a_feigned_timeout_after_a_mark() {
    for law in [consts::LAW_ECN, consts::LAW_DCTCP, consts::LAW_COUPLED] {
        let (before, guest) = timed_out_after_mark(law, 0);
        assert!(guest.window() / MSS > before, "law {law}: throttled");
        let (before, guest) = timed_out_after_mark(law, 1);
        let after = guest.window() / MSS;
        assert!(after < before, "law {law}: {after} after {before}");
        assert!(after >= guest.ssthresh(), "law {law}: {after} are too few");
    }
}

#[test]
fn guarded_guest_in_slow_start_gains_nothing_by_more_acks() {
    let window = |guard_segments, acks| {
        let policy = Policy {
            guard_segments,
            ..Policy::new(consts::LAW_ECN, consts::PROFILE_RFC)
        };
        let mut guest = Guest::under(policy, true);
        guest.send(10);
        for _ in 0..acks {
            guest.ack(10 / acks);
        }
        guest.window() / MSS
    };
    // RFC 5681 equation (2) counts ACKs: one of each second segment, and one of each
    assert_eq!((window(0, 5), window(0, 10)), (15, 20));
    assert_eq!((window(1, 5), window(1, 10)), (20, 20));
}

#[test]
fn guarded_flow_takes_the_mark_of_an_ack_across_a_reduction_for_one_from_before() {
    for (guard_segments, cuts) in [(0, 2), (1, 1)] {
        let policy = Policy {
            guard_segments,
            ..Policy::new(consts::LAW_ECN, consts::PROFILE_RFC)
        };
        let mut guest = Guest::under(policy, true);
        guest.send(10);
        guest.ack_ece(1);
        assert_eq!(guest.flow.cuts, 1);
        guest.ack(8);
        guest.send(3);
        guest.ack_ece(2); // the last segment from before the reduction, and one from after it
        assert_eq!(guest.flow.cuts, cuts, "guard {guard_segments}");
        guest.ack_ece(1);
        assert_eq!(guest.flow.cuts, 2, "guard {guard_segments}");
    }
    // more than one segment from after it: the mark counts, or a guest whose peer acknowledges many segments at
    // once would answer every second one
    let policy = Policy {
        guard_segments: 1,
        ..Policy::new(consts::LAW_ECN, consts::PROFILE_RFC)
    };
    let mut guest = Guest::under(policy, true);
    guest.send(10);
    guest.ack_ece(8);
    guest.send(3);
    guest.ack_ece(4);
    assert_eq!(guest.flow.cuts, 2);
}
