//! Flows that are only observed: nothing is written, and the shadow is the guest's own window.

use crate::guest;

use std::cell::Cell;

use crate::flows::plan::{Treatment, treatments};
use crate::flows::{Home, Plan, for_all, plans, walk};
use crate::guest::Guest;
use crate::sender::{Dctcp, Sender, moves, play};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::{prop_assert, prop_assert_eq};
use uc_core::{Policy, consts};

fn observed_plans() -> impl Strategy<Value = Plan> {
    (plans(60, true), treatments()).prop_map(|(mut plan, treatment)| {
        plan.setup.treatment = Treatment {
            observe: true,
            ..treatment
        };
        plan
    })
}

#[test]
fn an_observed_flow_leaves_as_it_came_to_the_last_bit_and_is_never_dropped() {
    let known = Cell::new(0u32);
    for_all(6000, &observed_plans(), |plan| {
        let mut home = Home::new(plan.setup.policy());
        for event in walk(&plan, &mut |segment, now_ns| home.pass(segment, now_ns)) {
            let untouched = uc_core::no_edit(&event.segment);
            prop_assert_eq!(event.passed.edit, untouched, "{:?}", event);
            prop_assert!(!event.passed.reason.drops(), "{:?}", event);
            known.set(known.get() + u32::from(event.translated().is_some()));
        }
        Ok(())
    });
    assert!(known.get() > 60_000, "only {} segments", known.get());
}

fn observing(law: u32, profile: u32) -> Policy {
    Policy {
        modes: consts::MODE_OBSERVE as u8,
        ..Policy::new(law, profile)
    }
}

/// A native DCTCP guest is the reference sender: what it would have, the shadow has.
#[test]
fn the_shadow_of_an_observed_dctcp_guest_has_its_window_and_its_alpha() {
    for_all(4000, &vec(moves(), 0..120), |moves| {
        let mut sender = Sender::new(10);
        sender.dctcp = Some(Dctcp::new(128, 128, 4, 2));
        let policy = observing(consts::LAW_DCTCP, consts::PROFILE_RFC);
        let mut guest = Guest::under(policy, false);
        for (index, step) in moves.iter().enumerate() {
            play(step, &mut sender, &mut guest);
            let window = i64::from(guest.window());
            prop_assert_eq!(window, sender.cwnd, "move {} of {:?}", index, &moves);
            let alpha = sender.dctcp.as_ref().map(|dctcp| dctcp.alpha_q30);
            prop_assert_eq!(Some(u128::from(guest.flow.dctcp.alpha_q30)), alpha);
        }
        Ok(())
    });
}

#[test]
fn where_no_ecn_was_agreed_on_the_law_of_an_observed_flow_hears_of_losses_only() {
    let strategy = (any::<bool>(), any::<bool>(), vec(moves(), 0..120));
    let losses = Cell::new(0u32);
    for_all(2000, &strategy, |(dctcp, linux, moves)| {
        let law = [consts::LAW_ECN, consts::LAW_DCTCP][usize::from(dctcp)];
        let profile = [consts::PROFILE_RFC, consts::PROFILE_LINUX][usize::from(linux)];
        let mut sender = Sender::new(10);
        let mut guest = Guest::asking(observing(law, profile), false, false);
        for step in &moves {
            play(step, &mut sender, &mut guest);
        }
        prop_assert_eq!((guest.cuts(), guest.flow.dctcp.marked_bytes), (0, 0));
        losses.set(losses.get() + guest.losses());
        Ok(())
    });
    assert!(losses.get() > 2000, "only {} losses", losses.get());
}

#[test]
fn a_linux_shadow_that_is_observed_has_a_window_while_the_guest_repairs_a_loss() {
    let mut guest = Guest::under(observing(consts::LAW_ECN, consts::PROFILE_LINUX), false);
    guest.send(10);
    guest.duplicate(3);
    guest.retransmit();
    assert_eq!(guest.ca(), consts::CA_RECOVERY);
    assert!(guest.window() <= 10 * guest::MSS, "{}", guest.window());
}
