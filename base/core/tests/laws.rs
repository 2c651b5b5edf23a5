//! The laws of the house, each over random whole flows.

use crate::flows::plan::Oddity;
use crate::flows::{Event, FROM_GUEST, Home, Plan, TO_GUEST, flag, for_all, plans, walk};
use proptest::test_runner::TestCaseError;
use proptest::{prop_assert, prop_assert_eq};
use uc_core::{Flow, Reason, consts};

const CASES: u32 = 6000;
const STEPS: usize = 60;

type Checked = Result<(), TestCaseError>;

fn play(plan: &Plan) -> Vec<Event> {
    let mut home = Home::sharing(plan.setup.policy(), plan.setup.share);
    walk(plan, &mut |segment, now_ns| home.pass(segment, now_ns))
}

/// Plays random flows and checks each one's events.
fn over_random_flows(garbage: bool, check: impl Fn(&Plan, &[Event]) -> Checked) {
    for_all(CASES, &plans(STEPS, garbage), |plan| {
        let events = play(&plan);
        check(&plan, &events)
    });
}

fn is_syn_ack(event: &Event) -> bool {
    event.has(flag::SYN | flag::ACK) && !event.has(flag::RST)
}

/// An ACK to the guest, in the middle of a translated flow, that the guest takes a window from.
fn ack_to_guest(event: &Event) -> Option<(&Flow, &Flow)> {
    let after = event.translated()?;
    let before = event.passed.before.as_ref()?;
    let segment = &event.segment;
    let middle = segment.direction == TO_GUEST
        && event.has(flag::ACK)
        && !event.has(flag::SYN)
        && !event.has(flag::RST);
    let old = (segment.ack.wrapping_sub(before.snd_una) as i32) < 0;
    let unsent = (before.snd_nxt.wrapping_sub(segment.ack) as i32) < 0;
    (middle && !old && !unsent).then_some((before, after))
}

fn flight(flow: &Flow) -> u32 {
    flow.snd_nxt.wrapping_sub(flow.snd_una)
}

/// Converts a window field of this flow to bytes.
fn bytes(flow: &Flow, field: u16) -> u64 {
    u64::from(field) << flow.wscale()
}

/// The smallest field that covers this many bytes.
fn covering(flow: &Flow, bytes: u32) -> u64 {
    u64::from(bytes).div_ceil(1 << flow.wscale())
}

#[test]
fn law_1_only_window_ecn_codepoint_ece_and_cwr_may_change() {
    over_random_flows(true, |plan, events| {
        let treatment = plan.setup.treatment;
        for event in events {
            let (segment, edit) = (&event.segment, &event.passed.edit);
            let peers_syn = uc_core::is_syn(segment) && segment.direction == TO_GUEST;
            let untranslatable = if treatment.strict {
                consts::OPT_AE | consts::OPT_MPTCP
            } else if treatment.strips_ecn && peers_syn {
                consts::OPT_AE
            } else {
                0
            };
            let withheld = treatment.withheld >> consts::WITHHELD_SHIFT;
            let is_syn = segment.flags & flag::SYN != 0 && !treatment.observe;
            let removable = if is_syn {
                (untranslatable as u8 | withheld) & segment.options
            } else {
                0
            };
            prop_assert_eq!(edit.removed & !removable, 0, "{:?}", event);
            let touched = segment.flags ^ edit.flags;
            prop_assert_eq!(touched & !(flag::ECE | flag::CWR), 0, "{:?}", event);
            prop_assert!(edit.ecn < 4, "{:?}", event);
            if segment.direction == FROM_GUEST {
                prop_assert_eq!(
                    edit.window,
                    segment.window,
                    "the guest's own window: {:?}",
                    event
                );
            }
        }
        Ok(())
    });
}

#[test]
fn law_2_a_window_never_exceeds_the_receivers_and_is_zero_only_with_it() {
    over_random_flows(true, |_, events| {
        for event in events {
            let (given, receivers) = (event.passed.edit.window, event.segment.window);
            prop_assert!(given <= receivers, "{:?}", event);
            prop_assert_eq!(given == 0, receivers == 0, "{:?}", event);
        }
        Ok(())
    });
}

#[test]
fn law_2_nothing_sent_falls_outside_the_window_unless_the_receiver_says_so() {
    over_random_flows(true, |plan, events| {
        for event in events {
            let Some((_, after)) = ack_to_guest(event) else {
                continue;
            };
            let given = bytes(after, event.passed.edit.window);
            let receivers = bytes(after, event.segment.window);
            // what garbage claims to have sent may be more than 2³¹ away: no guest's flight is
            let sent = u64::from(flight(after)).min(1 << 30);
            prop_assert!(given >= sent.min(receivers), "{:?}", event);
            if event.orderly {
                prop_assert_eq!(after.wscale(), plan.setup.scale(), "{:?}", event);
                let acked = event.segment.ack.wrapping_sub(event.una);
                let outstanding = event.nxt.wrapping_sub(event.una) - acked;
                // a window probe's byte is in flight only if the peer takes it
                let probed = u32::from(after.bits & consts::FLOW_PROBED != 0);
                prop_assert_eq!(flight(after) + probed, outstanding, "{:?}", event);
            }
        }
        Ok(())
    });
}

#[test]
fn law_2_the_window_of_a_syn_ack_is_unscaled_and_at_least_two_segments() {
    over_random_flows(true, |_, events| {
        for event in events {
            let Some(after) = event.translated() else {
                continue;
            };
            if event.segment.direction != TO_GUEST || !is_syn_ack(event) {
                continue;
            }
            let two_segments = (2 * u32::from(after.mss_bytes)).min(65535);
            let least = two_segments.min(u32::from(event.segment.window));
            prop_assert!(u32::from(event.passed.edit.window) >= least, "{:?}", event);
        }
        Ok(())
    });
}

#[test]
fn law_2_a_duplicate_ack_keeps_its_window_for_a_linux_guest_without_sack() {
    let duplicates = std::cell::Cell::new(0);
    over_random_flows(false, |plan, events| {
        // of the ACK before: number, and both windows in bytes
        let mut last: Option<(u32, u64, u64)> = None;
        for event in events {
            let segment = &event.segment;
            let known = event.translated();
            if let (Some(after), TO_GUEST, true) = (known, segment.direction, is_syn_ack(event))
                && after.snd_nxt == segment.ack
            {
                // as far as the scale of the ACKs behind it can say the same
                let receivers = bytes(after, segment.window.div_ceil(1 << after.wscale()));
                let given = bytes(after, event.passed.edit.window >> after.wscale());
                last = Some((segment.ack, receivers, given));
            }
            let Some((before, after)) = ack_to_guest(event) else {
                continue;
            };
            let receivers = bytes(after, segment.window);
            let given = bytes(after, event.passed.edit.window);
            let sack = after.bits & consts::FLOW_SACK != 0;
            let bare = segment.payload_bytes == 0 && !event.has(flag::FIN) && flight(before) > 0;
            let covered = |held: u64| held >= u64::from(flight(after));
            match last {
                Some((ack, same, held))
                    if plan.setup.linux
                        && !sack
                        && bare
                        && (ack, same) == (segment.ack, receivers)
                        && covered(held) =>
                {
                    prop_assert_eq!(given, held, "{:?}", event);
                    duplicates.set(duplicates.get() + 1);
                }
                _ => {}
            }
            last = Some((segment.ack, receivers, given));
        }
        Ok(())
    });
    assert!(
        duplicates.get() > CASES / 2,
        "the flows have too few duplicate ACKs to tell"
    );
}

#[test]
fn law_3_the_edge_lies_on_a_segment_boundary_or_less_than_a_grain_from_one() {
    let limited = std::cell::Cell::new(0);
    over_random_flows(true, |plan, events| {
        for event in events {
            let Some((before, after)) = ack_to_guest(event) else {
                continue;
            };
            if before == after {
                continue; // the guest discards it, and takes no window from it
            }
            let repeats = event.segment.ack == before.snd_una && event.segment.payload_bytes == 0;
            let sack = after.bits & consts::FLOW_SACK != 0;
            if flight(after) > 1 << 30 || (plan.setup.linux && !sack && repeats) {
                continue; // "no shrink" takes precedence: a duplicate ACK keeps its window
            }
            check_edge(event, after)?;
            limited.set(limited.get() + u32::from(event.passed.edit.window < event.segment.window));
        }
        Ok(())
    });
    assert!(limited.get() > CASES, "the law limited too seldom to tell");
}

/// Checks that the room beyond the flight is k segments, to less than a unit of the window; k is
/// what the law's window allows, or one less if the unit is coarse. Invariant "no shrink" takes
/// precedence: the window covers the flight, or one segment if nothing is in flight.
fn check_edge(event: &Event, after: &Flow) -> Checked {
    let (mss, sent) = (u64::from(after.mss_bytes), u64::from(flight(after)));
    let grain = 1u64 << after.wscale();
    let field = event.passed.edit.window;
    let floor = covering(after, if sent > 0 { sent as u32 } else { mss as u32 });
    let law = u64::from(uc_core::COMPILED.window_bytes(after));
    let segments = |law: u64| law.saturating_sub(sent) / mss;
    let most = segments(law);
    // The edge may lie above the boundary only if the guest sends no sub-MSS segment for it: Nagle's
    // rule allows no second one in flight, a pair leaves whole, and a guest that avoids silly windows
    // or whose own window is the law's sends none at all.
    let runt_in_flight = (after.runt_seq.wrapping_sub(after.snd_una) as i32) > 0;
    let pairs = after.bits & consts::FLOW_PAIRS != 0;
    let own = after.reno.ssthresh == consts::INFINITE_SSTHRESH;
    let whole = (u32::from(after.policy.profile) == consts::PROFILE_RFC || own)
        && after.bits & consts::FLOW_RUNTS == 0;
    let up = |k: u64| whole || runt_in_flight || (pairs && k.is_multiple_of(2));
    if field == event.segment.window {
        let wanted = (sent + most * mss).div_ceil(grain).max(floor);
        prop_assert!(wanted >= u64::from(field), "too wide: {:?}", event);
        return Ok(());
    }
    let room = bytes(after, field) - sent;
    let bulk = after.bits & consts::FLOW_BULK != 0;
    let least = segments(law).saturating_sub(u64::from(grain > 1 || bulk));
    let near = (least..=most).any(|k| room.abs_diff(k * mss) < grain && (room <= k * mss || up(k)));
    let forced = u64::from(field) == floor && room > most * mss;
    prop_assert!(
        near || forced,
        "room {}, {} segments: {:?}",
        room,
        most,
        event
    );
    Ok(())
}

/// Returns the verdict on a flow that fits except perhaps by its window scale.
fn fitting(plan: &Plan) -> Reason {
    if plan.setup.is_coarse() {
        Reason::COARSE_WINDOW
    } else {
        Reason::TRANSLATED
    }
}

/// Returns the verdict on the handshake, from the plan alone.
fn expected_verdict(plan: &Plan) -> Reason {
    match plan.setup.oddity {
        Oddity::None | Oddity::Simultaneous => fitting(plan),
        Oddity::GuestEcn if plan.setup.treatment.strips_ecn => fitting(plan),
        Oddity::GuestEcn | Oddity::GuestAccurateEcn => Reason::GUEST_SPEAKS_ECN,
        // the peer's SYN offers classic ECN, too
        Oddity::PeerAccurateEcn if !plan.setup.guest_opens => fitting(plan),
        Oddity::PeerRefuses | Oddity::PeerReflects | Oddity::PeerAccurateEcn
            if !plan.setup.law.needs_ecn() =>
        {
            fitting(plan)
        }
        Oddity::PeerRefuses | Oddity::PeerReflects | Oddity::PeerAccurateEcn => {
            Reason::PEER_REFUSED_ECN
        }
        Oddity::GuestSigned | Oddity::PeerSigned => Reason::SIGNED,
        Oddity::GuestMptcp | Oddity::PeerMptcp => Reason::MPTCP,
        Oddity::MissingSyn => Reason::NO_HANDSHAKE,
    }
}

#[test]
fn law_4_what_is_not_translated_passes_as_it_came() {
    over_random_flows(true, |_, events| {
        for event in events {
            if event.is_translated() {
                continue;
            }
            let mut edit = event.passed.edit;
            if event.passed.reason == Reason::COARSE_WINDOW {
                // its peer's marks are answered, and no more
                (edit.ecn, edit.flags) = (event.segment.ecn, event.segment.flags);
            }
            if event.segment.direction == TO_GUEST && is_syn_ack(event) {
                // "no false signal": the host asked, so the guest must not see the refusal
                prop_assert_eq!(edit.flags & !event.segment.flags, 0, "{:?}", event);
                edit.flags = event.segment.flags;
            }
            prop_assert_eq!(edit, uc_core::no_edit(&event.segment), "{:?}", event);
        }
        Ok(())
    });
}

#[test]
fn law_4_odd_handshakes_are_forgotten_for_the_right_reason() {
    over_random_flows(false, |plan, events| {
        let expected = expected_verdict(plan);
        let handshake: Vec<&Event> = events.iter().take_while(|e| e.has(flag::SYN)).collect();
        if expected == Reason::TRANSLATED {
            // the second SYN of a simultaneous open passes
            let passes = |event: &&&Event| {
                plan.setup.oddity == Oddity::Simultaneous
                    && event.passed.reason == Reason::NO_HANDSHAKE
            };
            for event in handshake.iter().filter(|event| !passes(event)) {
                prop_assert_eq!(event.passed.reason, expected, "{:?}", event);
            }
            return Ok(());
        }
        let refusals: Vec<_> = handshake.iter().map(|e| e.passed.reason).collect();
        prop_assert!(refusals.contains(&expected), "{:?}", refusals);
        let first_data = events.iter().find(|e| !e.has(flag::SYN));
        let kept = first_data.is_some_and(|e| e.passed.before.is_some());
        // the peer that answered the guest was promised an echo
        let coarse = expected == Reason::COARSE_WINDOW;
        let crossed = plan.setup.oddity == Oddity::Simultaneous;
        let promised = coarse && (plan.setup.guest_opens || crossed && kept);
        prop_assert!(first_data.is_none() || kept == promised, "{:?}", refusals);
        let later = match promised {
            true => expected,
            false => Reason::NO_HANDSHAKE,
        };
        for event in events.iter().filter(|e| !e.has(flag::SYN)) {
            let is_right = event.passed.reason == later || event.is_unanswered();
            prop_assert!(is_right, "{event:?}");
        }
        Ok(())
    });
}

#[test]
fn law_6_the_guest_never_sees_an_ecn_signal_of_a_translated_flow() {
    over_random_flows(true, |_, events| {
        for event in events {
            if event.translated().is_none() || event.segment.direction != TO_GUEST {
                continue;
            }
            let edit = &event.passed.edit;
            prop_assert_eq!(edit.flags & (flag::ECE | flag::CWR), 0, "{:?}", event);
            prop_assert_eq!(u32::from(edit.ecn), consts::NOT_ECT, "{:?}", event);
        }
        Ok(())
    });
}

/// Data that was never sent before, and not a window probe: the only kind that RFC 3168 marks.
fn is_new_data(event: &Event, before: &Flow) -> bool {
    event.segment.payload_bytes > 0
        && !event.has(flag::SYN)
        && !event.has(flag::RST)
        && event.segment.seq == event.nxt
        && before.peer_window != 0
}

/// Does the flow test whether marks are real, or has it given ECN up? (tests/distrust.rs)
fn trusts(flow: &Flow) -> bool {
    flow.trial & 3 < consts::TRIAL_MARKED as u8
}

/// Are retransmissions and ACKs without ECT, since ECT may be what is lost?
fn doubts(flow: &Flow) -> bool {
    u32::from(flow.ecn_lost) & (consts::LOST_ONCE | consts::LOST_DOUBT) != 0
}

#[test]
fn law_6_the_network_sees_ect_on_new_data_only_and_under_dctcp_on_all_but_syn_and_rst() {
    over_random_flows(false, |plan, events| {
        for event in events {
            let (Some(_), Some(before)) = (event.translated(), &event.passed.before) else {
                continue;
            };
            if event.segment.direction != FROM_GUEST {
                continue;
            }
            let Some(after) = &event.passed.after else {
                continue;
            };
            let is_dctcp = plan.setup.law.is_dctcp() && !event.has(flag::RST);
            let expected = if plan.setup.has_ecn()
                && trusts(after)
                && (is_dctcp && !doubts(after) || is_new_data(event, before))
            {
                consts::ECT0
            } else {
                consts::NOT_ECT
            };
            prop_assert_eq!(u32::from(event.passed.edit.ecn), expected, "{:?}", event);
        }
        for event in events.iter().filter(|e| uc_core::is_syn(&e.segment)) {
            prop_assert_eq!(event.passed.edit.ecn, event.segment.ecn, "{:?}", event);
        }
        Ok(())
    });
}

#[test]
fn law_6_a_mark_is_echoed_to_a_classic_sender_from_its_arrival_until_its_cwr() {
    over_random_flows(false, |plan, events| {
        if plan.setup.law.is_dctcp() && plan.setup.peer_dctcp {
            return Ok(()); // tests/echo.rs
        }
        let mut latched = false;
        for event in events
            .iter()
            .filter(|e| e.translated().is_some() && !e.has(flag::SYN))
        {
            if event.segment.direction == TO_GUEST {
                if event.segment.payload_bytes > 0 && !event.has(flag::RST) {
                    latched &= !event.has(flag::CWR);
                    latched |= u32::from(event.segment.ecn) == consts::CE;
                }
                continue;
            }
            let echoes = event.passed.edit.flags & flag::ECE != 0;
            let carries = plan.setup.has_ecn() && event.has(flag::ACK) && !event.has(flag::RST);
            prop_assert_eq!(echoes, latched && carries, "{:?}", event);
        }
        Ok(())
    });
}

#[test]
fn law_6_the_first_new_data_after_a_reduction_carries_cwr_once() {
    over_random_flows(false, |plan, events| {
        let always = plan.setup.law.always_says_cwr();
        let mut pending = false;
        for event in events
            .iter()
            .filter(|e| e.translated().is_some() && !e.has(flag::SYN))
        {
            let (Some(before), Some(after)) = (&event.passed.before, &event.passed.after) else {
                continue;
            };
            if event.segment.direction == TO_GUEST {
                prop_assert!(after.cuts - before.cuts <= 1, "{:?}", event);
                pending |= reduced(before, after);
                pending &= !undone(before, after);
                continue;
            }
            let carries = event.passed.edit.flags & flag::CWR != 0;
            pending |= reduced(before, after);
            let says = plan.setup.has_ecn() && (pending || always);
            let expected = says && is_new_data(event, before);
            prop_assert_eq!(carries, expected, "{:?}", event);
            pending &= !carries;
        }
        Ok(())
    });
}

/// Was the reduction of a timeout taken back? Profile `linux` then takes CWR back, too.
fn undone(before: &Flow, after: &Flow) -> bool {
    let linux = u32::from(after.policy.profile) == consts::PROFILE_LINUX;
    let ends = u32::from(before.ca) == consts::CA_LOSS && before.ca != after.ca;
    linux && ends && u32::from(before.feedback & !after.feedback) & consts::FEEDBACK_REDUCED != 0
}

/// May a mark take less than a loss?
fn is_shallow(flow: &Flow) -> bool {
    u32::from(flow.policy.law) == consts::LAW_DCTCP
}

/// Did the window come down: an ECN cut, or a loss that isn't part of a reduction under way?
fn reduced(before: &Flow, after: &Flow) -> bool {
    if after.cuts != before.cuts {
        return true;
    }
    let linux = u32::from(after.policy.profile) == consts::PROFILE_LINUX;
    let ca = |flow: &Flow| u32::from(flow.ca);
    let under_way = linux
        && ((ca(before) == consts::CA_CWR && ca(after) == consts::CA_RECOVERY)
            || (ca(before) != consts::CA_OPEN
                && !(ca(before) == consts::CA_CWR && is_shallow(after))
                && (before.snd_una.wrapping_sub(before.reno.recover) as i32) < 0));
    after.losses != before.losses && !under_way
}
