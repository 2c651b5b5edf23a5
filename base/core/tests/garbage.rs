//! Nothing that a tenant or the network can send makes the core trap: in the test profile the C
//! side is built with traps for undefined behaviour.

use crate::flows::plan::segments;
use crate::flows::{Home, for_all};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::prop_assert;
use uc_core::{DctcpParameters, DelayParameters, Policy, Reason, consts};

#[test]
fn random_segments_under_random_policies_never_trap() {
    let policies = (0u8..6, 0u8..3, any::<[u8; 11]>(), any::<[u32; 2]>());
    let strategy = (policies, vec((segments(), any::<u64>()), 0..120));
    for_all(
        4000,
        &strategy,
        |((law, profile, rest, words), segments)| {
            let [
                ecn_syns,
                window,
                gain,
                alpha,
                beta,
                minimum,
                echo,
                guest_ecn,
                guard,
                modes,
                share,
            ] = rest;
            let policy = Policy {
                law,
                profile,
                ecn_syns,
                initial_window_segments: window,
                echo,
                guest_ecn,
                guard_segments: guard,
                modes,
                ..Policy::default()
            };
            let dctcp = DctcpParameters {
                gain_shift: gain,
                initial_alpha_q7: alpha,
                beta_q7: beta,
                minimum_window_segments: minimum,
            };
            let delay = DelayParameters {
                target_us: words[0],
                range_us: words[1],
            };
            let policy = match u32::from(law) {
                consts::LAW_DELAY => policy.with_delay(delay),
                _ => policy.with_dctcp(dctcp),
            };
            let mut home = Home::sharing(policy, share);
            for (segment, now_ns) in segments {
                let passed = home.pass(&segment, now_ns);
                prop_assert!(Reason::all().any(|reason| reason == passed.reason));
                let Some(flow) = passed.after else { continue };
                let is_dctcp = u32::from(flow.policy.law) == consts::LAW_DCTCP;
                prop_assert!(!is_dctcp || flow.dctcp.alpha_q30 <= 1 << 30, "{:?}", flow);
                // an ACK's worth ahead, a few windows behind: far from the ends of 32 bits
                prop_assert!(
                    (-(1 << 30)..3 << 29).contains(&flow.echo_owed_bytes),
                    "{}",
                    flow.echo_owed_bytes
                );
            }
            Ok(())
        },
    );
}
