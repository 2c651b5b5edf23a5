//! Law `coupled` around the shadow: what is reported, what an answer makes of the window, and that
//! without a group it is law `ecn`.

use crate::flows;

use crate::flows::law::Law;
use crate::flows::plan::Oddity;
use crate::flows::{Event, Home, Plan, for_all, plans, walk};
use crate::guest::{Guest, IRS, MSS};
use proptest::{prop_assert, prop_assert_eq};
use uc_core::coupling::{Answer, Report, consts as ccc};
use uc_core::{Edit, Policy, Segment, consts};

fn coupled(profile: u32) -> Guest {
    Guest::under(Policy::new(consts::LAW_COUPLED, profile), true)
}

fn answer(segments_q1: u32, state: u32) -> Answer {
    Answer {
        cwnd_bytes: segments_q1 * MSS / 2,
        ssthresh_bytes: ccc::INFINITE_SSTHRESH,
        state: state as u8,
    }
}

/// The report of the ACK that the guest was just given, and its window in bytes.
fn tell(guest: &mut Guest, answer: Option<&Answer>) -> (Report, u32) {
    let ack = Segment {
        ack: guest.una,
        ..to_guest()
    };
    let awaits = uc_core::COMPILED
        .awaits(&mut guest.flow)
        .expect("an ACK of data awaits its share");
    let report = uc_core::COMPILED.report(&mut guest.flow, guest.now_ns);
    let mut edit = uc_core::no_edit(&ack);
    uc_core::COMPILED.tell_share(&mut guest.flow, &ack, awaits, answer, &mut edit);
    (report, edit.window.into())
}

fn to_guest() -> Segment {
    Segment {
        seq: IRS + 1,
        window: 65535,
        flags: consts::ACK as u8,
        direction: consts::TO_GUEST as u8,
        ..Segment::default()
    }
}

const PROFILES: [u32; 2] = [consts::PROFILE_LINUX, consts::PROFILE_RFC];

#[test]
fn a_flight_above_a_smaller_share_is_not_reported_as_growth() {
    for profile in PROFILES {
        let mut guest = coupled(profile);
        guest.send(10);
        guest.ack(2);
        // eight in flight, a share of four: what was sent stays inside, and no more is let out
        let (report, window) = tell(&mut guest, Some(&answer(8, ccc::AVOIDANCE)));
        // RFC 5681's equation (2) counts one segment of an ACK, Linux all that it covers
        let grown = if profile == consts::PROFILE_LINUX {
            2
        } else {
            1
        };
        assert_eq!(report.cwnd_bytes, (10 + grown) * MSS);
        assert_eq!(report.acked_bytes, 2 * MSS);
        assert_eq!(window, 8 * MSS);
        for in_flight in (4..8).rev() {
            guest.ack(1);
            let (report, window) = tell(&mut guest, Some(&answer(8, ccc::AVOIDANCE)));
            assert_eq!(report.flight_bytes, in_flight * MSS);
            // the last answer, and at most the segment that this ACK is worth
            assert!(report.cwnd_bytes <= 5 * MSS, "{report:?}");
            assert_eq!(window, in_flight * MSS);
        }
    }
}

#[test]
fn share_of_nine_and_a_half_segments_alternates_between_nine_and_ten() {
    for profile in PROFILES {
        let mut guest = coupled(profile);
        guest.send(10);
        let mut windows = Vec::new();
        for _ in 0..200 {
            guest.ack(1);
            let share = Answer {
                ssthresh_bytes: 5 * MSS,
                ..answer(19, ccc::AVOIDANCE)
            };
            let (report, window) = tell(&mut guest, Some(&share));
            assert!(
                report.cwnd_bytes <= 19 * MSS / 2 + MSS + MSS / 2,
                "{report:?}"
            );
            windows.push(window / MSS);
            guest.send((window / MSS).saturating_sub(guest.flight()));
        }
        let late = &windows[20..];
        assert!(
            late.iter().all(|window| (9..=10).contains(window)),
            "{late:?}"
        );
        let mean = f64::from(late.iter().sum::<u32>()) / late.len() as f64;
        assert!((mean - 9.5).abs() < 0.1, "{mean}");
    }
}

#[test]
fn a_timeout_that_one_ack_repairs_is_reported_all_the_same_and_once() {
    for profile in PROFILES {
        // with SACK it would be taken for a tail loss probe
        let mut guest = Guest::under(Policy::new(consts::LAW_COUPLED, profile), false);
        guest.send(1);
        guest.wait_ms(1_000);
        guest.retransmit();
        guest.ack(1);
        let (report, _) = tell(&mut guest, None);
        assert_eq!(u32::from(report.state), ccc::BACKOFF);
        // sent an RTO before it was retransmitted
        assert!(report.lost_age_us >= 200_000, "{report:?}");
        guest.send(2);
        guest.ack(1);
        let (report, _) = tell(&mut guest, None);
        assert!(u32::from(report.state) < ccc::RECOVERY, "{report:?}");
    }
}

#[test]
fn a_mark_that_is_answered_at_once_is_reported_with_what_the_law_keeps() {
    for profile in PROFILES {
        let mut guest = coupled(profile);
        guest.send(10);
        guest.ack_ece(1);
        let (report, _) = tell(&mut guest, None);
        assert_eq!(u32::from(report.state), ccc::RECOVERY);
        assert_eq!(report.ssthresh_bytes, 5 * MSS);
    }
}

#[test]
fn in_recovery_the_answer_is_its_ssthresh_alone() {
    for profile in PROFILES {
        let mut guest = coupled(profile);
        guest.send(10);
        guest.ack(1);
        tell(&mut guest, None);
        guest.duplicate(3);
        guest.retransmit();
        guest.duplicate(1);
        let before = guest.window();
        let told = Answer {
            cwnd_bytes: 40 * MSS,
            ssthresh_bytes: 3 * MSS,
            state: ccc::RECOVERY as u8,
        };
        let (report, _) = tell(&mut guest, Some(&told));
        assert_eq!(u32::from(report.state), ccc::RECOVERY);
        assert_eq!(guest.window(), before);
        let unit = if profile == consts::PROFILE_LINUX {
            MSS
        } else {
            1
        };
        assert_eq!(guest.ssthresh() * unit, 3 * MSS);
    }
}

#[test]
fn receiver_awaits_no_share_and_closed_flow_awaits_one() {
    let mut guest = coupled(consts::PROFILE_LINUX);
    let data = Segment {
        ack: guest.una,
        payload_bytes: MSS,
        wire_payload_bytes: MSS as u16,
        ..to_guest()
    };
    let edit = guest.pass(&data);
    assert_eq!(uc_core::COMPILED.awaits(&mut guest.flow), None);
    assert!(edit.window < data.window, "its window is the shadow's");
    let fin = Segment {
        flags: (consts::ACK | consts::FIN) as u8,
        direction: consts::FROM_GUEST as u8,
        seq: guest.nxt,
        ack: IRS + 1 + MSS,
        ..data
    };
    guest.pass(&Segment {
        payload_bytes: 0,
        wire_payload_bytes: 0,
        ..fin
    });
    guest.pass(&Segment {
        seq: IRS + 1 + MSS,
        flags: fin.flags,
        ack: guest.nxt.wrapping_add(1),
        ..to_guest()
    });
    assert!(uc_core::is_closed(&guest.flow));
    assert!(uc_core::COMPILED.awaits(&mut guest.flow).is_some());
}

/// Two CPUs: the later ACK's answer is there first.
#[test]
fn guarded_guest_stays_in_its_group_whatever_rst_it_sends() {
    for (guard_segments, leaves) in [(0, true), (1, false)] {
        let policy = Policy {
            guard_segments,
            ..Policy::new(consts::LAW_COUPLED, consts::PROFILE_LINUX)
        };
        let mut guest = Guest::under(policy, true);
        guest.send(5);
        guest.pass(&Segment {
            flags: (consts::RST | consts::ACK) as u8,
            ..guest.data(guest.nxt)
        });
        guest.ack(1);
        assert!(uc_core::is_closed(&guest.flow));
        assert_eq!(uc_core::leaves_group(&guest.flow), leaves);
    }
}

#[test]
fn an_older_acks_window_repeats_the_edge_that_a_newer_one_gave() {
    for profile in PROFILES {
        let mut guest = coupled(profile);
        guest.send(10);
        guest.ack(1);
        let older = Segment {
            ack: guest.una,
            ..to_guest()
        };
        let awaits = uc_core::COMPILED.awaits(&mut guest.flow).unwrap();
        guest.ack(3);
        let (_, window) = tell(&mut guest, Some(&answer(16, ccc::AVOIDANCE)));
        let edge = guest.una.wrapping_add(window);
        let mut edit = uc_core::no_edit(&older);
        let late = answer(8, ccc::AVOIDANCE);
        uc_core::COMPILED.tell_share(&mut guest.flow, &older, awaits, Some(&late), &mut edit);
        assert_eq!(older.ack.wrapping_add(edit.window.into()), edge);
        assert_eq!(guest.flow.edge, edge);
    }
}

fn edits(plan: &Plan, law: Law) -> Vec<Edit> {
    let mut plan = plan.clone();
    plan.setup.law = law;
    let mut home = Home::new(plan.setup.policy());
    let events = walk(&plan, &mut |segment, now_ns| {
        home.pass_in(segment, now_ns, &mut |_| None)
    });
    events
        .iter()
        .map(|event: &Event| event.passed.edit)
        .collect()
}

#[test]
fn without_a_group_it_is_law_ecn_segment_by_segment_if_the_peer_speaks_ecn() {
    for_all(3000, &plans(60, false), |plan| {
        if plan.setup.has_ecn() || matches!(plan.setup.law, Law::Delay { .. }) {
            let refuses = matches!(
                plan.setup.oddity,
                Oddity::PeerRefuses | Oddity::PeerReflects | Oddity::PeerAccurateEcn
            );
            let (coupled, ecn) = (edits(&plan, Law::Coupled), edits(&plan, Law::Ecn));
            prop_assert!(refuses || coupled == ecn, "{:?}\n{:?}", coupled, ecn);
        }
        Ok(())
    });
}

#[test]
fn a_peer_without_ecn_is_no_reason_to_pass_and_nothing_is_ect() {
    for_all(1000, &plans(60, false), |mut plan| {
        plan.setup.law = Law::Coupled;
        plan.setup.oddity = Oddity::PeerRefuses;
        plan.setup.treatment.observe = false;
        let mut home = Home::new(plan.setup.policy());
        let events = walk(&plan, &mut |segment, now_ns| home.pass(segment, now_ns));
        for event in events.iter().filter(|event| event.translated().is_some()) {
            let edit = &event.passed.edit;
            prop_assert_eq!(u32::from(edit.ecn), consts::NOT_ECT, "{:?}", event);
            prop_assert_eq!(edit.flags & flows::flag::ECE, 0, "{:?}", event);
        }
        if !plan.setup.is_coarse() {
            prop_assert!(events.iter().any(|event| event.translated().is_some()));
        }
        Ok(())
    });
}
