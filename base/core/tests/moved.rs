//! A flow that is moved to a host with another clock goes on as it would have, and is sound wherever it
//! is between two segments.

use proptest::collection::vec;
use proptest::{prop_assert, prop_assert_eq};
use uc_core::{Flow, FlowState, Policy, consts};

use crate::flows::{Home, case_count, for_all, plans, walk};

/// The unit by which moments move (`UC_REBASE_NS`).
const UNIT_NS: i64 = 128_000;

#[test]
fn a_flow_moved_to_another_clock_decides_as_it_would_have() {
    // up to seven hours ahead or behind, at up to three segments
    let moves = vec((0..60_usize, -200_000_000..200_000_000_i64), 1..4);
    let cases = (plans(60, true), moves);
    for_all(case_count(1500), &cases, |(plan, moves)| {
        let (policy, share) = (plan.setup.policy(), plan.setup.share);
        let (mut here, mut there) = (Home::sharing(policy, share), Home::sharing(policy, share));
        // the clock there shows a day more to begin with; a group's own moments do not move
        let moves = if share > 0 || u32::from(policy.law) == consts::LAW_COUPLED {
            Vec::new()
        } else {
            moves
        };
        let (mut ahead, mut passed) = (700_000_000_i64, 0);
        let mut failed = Ok(());
        walk(&plan, &mut |segment, now_ns| {
            let there_ns = |ahead: i64| (now_ns as i64 + ahead * UNIT_NS) as u64;
            for (_, units) in moves.iter().filter(|(at, _)| *at == passed) {
                if let Some(flow) = there.flow_mut() {
                    flow.rebase(*units);
                }
                ahead += units;
            }
            passed += 1;
            let kept = here.pass(segment, now_ns);
            let moved = there.pass(segment, there_ns(ahead));
            failed = failed.clone().and_then(|()| {
                prop_assert_eq!((kept.reason, kept.edit), (moved.reason, moved.edit));
                for flow in [&kept.after, &moved.after].into_iter().flatten() {
                    prop_assert!(flow.is_sound(), "{:?}", flow);
                }
                let mut back = moved.after;
                if let Some(flow) = &mut back {
                    flow.rebase(-ahead);
                }
                let kept = kept.after.map(running_timers);
                prop_assert_eq!(back.map(running_timers), kept, "moved back");
                Ok(())
            });
            kept
        });
        failed
    });
}

/// Returns the flow without the times of timers that time nothing.
fn running_timers(mut flow: Flow) -> Flow {
    let (una, agreed) = (flow.snd_una, u32::from(flow.stage) == consts::TRANSLATING);
    for timer in &mut flow.annex.delay.timers {
        if !agreed || timer.end.wrapping_sub(una) as i32 <= 0 {
            timer.at_us = 0;
        }
    }
    flow
}

#[test]
fn a_flow_out_of_the_ranges_that_the_proofs_assume_is_not_sound() {
    let sound = FlowState {
        stage: consts::TRANSLATING as u8,
        mss_bytes: 1_460,
        policy: Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX),
        ..FlowState::default()
    };
    let is_sound = |flow: FlowState| Flow::from(flow).is_sound();
    assert!(is_sound(sound));
    let mut broken = [sound; 6];
    broken[0].mss_bytes = 0;
    broken[1].srtt_us = u32::MAX;
    broken[2].handshake = 15;
    broken[3].echo_owed_bytes = i32::MIN;
    broken[4].policy.law = 200;
    broken[5].stage = 3;
    let estimating = FlowState {
        policy: Policy::new(consts::LAW_DCTCP, consts::PROFILE_LINUX),
        ..sound
    };
    assert!(is_sound(estimating));
    let mut of_dctcp = [estimating; 3];
    of_dctcp[0].dctcp.alpha_q30 = (1 << 30) + 1;
    of_dctcp[1].dctcp.marked_bytes = 1;
    of_dctcp[2].dctcp.acked_bytes = u32::MAX;
    for flow in broken.into_iter().chain(of_dctcp) {
        assert!(!is_sound(flow), "{flow:?}");
    }
}
