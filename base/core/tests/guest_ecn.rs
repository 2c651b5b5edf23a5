//! Guests that negotiate ECN under the policy `translate`: they are treated as guests without it.

use std::cell::Cell;

use crate::flows::plan::Oddity;
use crate::flows::{Event, FROM_GUEST, Home, Plan, TO_GUEST, flag, for_all, plans, walk};
use proptest::{prop_assert, prop_assert_eq};
use uc_core::{Reason, consts};

fn play(plan: &Plan) -> Vec<Event> {
    let mut home = Home::new(plan.setup.policy());
    walk(plan, &mut |segment, now_ns| home.pass(segment, now_ns))
}

#[test]
fn a_guest_with_ecn_that_is_translated_is_a_guest_without_it_segment_by_segment() {
    let asked = Cell::new(0u32);
    for_all(4000, &plans(60, true), |mut plan| {
        plan.setup.treatment.strips_ecn = true;
        plan.setup.oddity = Oddity::GuestEcn;
        let with = play(&plan);
        plan.setup.oddity = Oddity::None;
        let without = play(&plan);
        prop_assert_eq!(with.len(), without.len());
        for (with, without) in with.iter().zip(&without) {
            // the offer is all that differs before the port, and nothing behind it
            prop_assert_eq!(with.passed.edit, without.passed.edit, "{:?}", with);
            prop_assert_eq!(with.passed.reason, without.passed.reason, "{:?}", with);
            prop_assert_eq!(&with.passed.after, &without.passed.after, "{:?}", with);
            asked.set(asked.get() + u32::from(with.segment.flags != without.segment.flags));
        }
        Ok(())
    });
    assert!(asked.get() > 1000, "only {} offers", asked.get());
}

#[test]
fn law_6_a_guest_that_is_translated_whatever_it_speaks_sees_no_offer() {
    let (repeated, seen) = (Cell::new(0u32), Cell::new(0u32));
    for_all(4000, &plans(60, false), |mut plan| {
        plan.setup.treatment.strips_ecn = true;
        for event in &play(&plan) {
            let is_syn = uc_core::is_syn(&event.segment) && event.segment.direction == TO_GUEST;
            let accurate = u32::from(event.segment.options) & consts::OPT_AE != 0;
            let passes = event.passed.reason != Reason::TRANSLATED;
            if !is_syn || accurate || passes && event.passed.after.is_none() {
                continue;
            }
            let edit = event.passed.edit;
            prop_assert_eq!(edit.flags & (flag::ECE | flag::CWR), 0, "{:?}", event);
            prop_assert!(u32::from(edit.ecn) == consts::NOT_ECT, "{:?}", event);
            seen.set(seen.get() + 1);
            repeated.set(repeated.get() + u32::from(event.translated().is_some()));
        }
        Ok(())
    });
    // also when the SYN comes again into the connection that it has begun
    assert!(
        seen.get() > 1000 && repeated.get() > 200,
        "{seen:?} {repeated:?}"
    );
}

#[test]
fn a_guests_accurate_ecn_is_left_alone_by_either_policy() {
    for_all(1000, &plans(10, false), |mut plan| {
        plan.setup.oddity = Oddity::GuestAccurateEcn;
        let events = play(&plan);
        let guests = |event: &&Event| event.segment.direction == FROM_GUEST && event.has(flag::SYN);
        for event in events.iter().filter(guests) {
            let untouched = uc_core::no_edit(&event.segment);
            prop_assert_eq!(event.passed.edit, untouched, "{:?}", event);
        }
        Ok(())
    });
}

#[test]
fn a_peers_offer_of_accurate_ecn_is_answered_by_classic_ecn() {
    for_all(1000, &plans(10, false), |mut plan| {
        plan.setup.oddity = Oddity::PeerAccurateEcn;
        plan.setup.guest_opens = false;
        let hides = plan.setup.treatment.strips_ecn;
        let agrees = plan.setup.law.wants_ecn() && !plan.setup.is_coarse();
        for event in &play(&plan) {
            let (segment, edit) = (&event.segment, &event.passed.edit);
            if uc_core::is_syn(segment)
                && segment.direction == TO_GUEST
                && event.passed.reason == Reason::TRANSLATED
            {
                let removed = if hides { consts::OPT_AE as u8 } else { 0 };
                prop_assert_eq!(edit.removed, removed, "{:?}", event);
                let seen = edit.flags & (flag::ECE | flag::CWR) != 0;
                prop_assert_eq!(seen, !hides, "{:?}", event);
                let counted = event.passed.reason.counted(segment, edit);
                let expected = if hides {
                    Reason::DOWNGRADED
                } else {
                    Reason::ACCURATE_ECN
                };
                prop_assert_eq!(counted, expected, "{:?}", event);
            } else if uc_core::is_answer(segment) && segment.direction == FROM_GUEST {
                let answered = edit.flags & (flag::ECE | flag::CWR) == flag::ECE;
                prop_assert_eq!(answered, agrees, "{:?}", event);
            }
        }
        Ok(())
    });
}
