//! The laws of random flows.

use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use uc_core::{DctcpParameters, DelayParameters, Policy, consts};

/// The congestion control law of the flow's port, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    Ecn,
    Dctcp {
        gain_shift: u8,
        initial_alpha_q7: u8,
        beta_q7: u8,
        minimum_window_segments: u8,
        /// The peer is taken for an RFC 3168 receiver.
        classic: bool,
    },
    Delay {
        target_us: u32,
        target_range_us: u32,
    },
    Coupled,
}

impl Law {
    /// The policy in a profile.
    pub fn policy(self, linux: bool) -> Policy {
        let profile = if linux {
            consts::PROFILE_LINUX
        } else {
            consts::PROFILE_RFC
        };
        match self {
            Law::Ecn => Policy::new(consts::LAW_ECN, profile),
            Law::Dctcp {
                gain_shift,
                initial_alpha_q7,
                beta_q7,
                minimum_window_segments,
                classic,
            } => Policy {
                echo: if classic {
                    consts::ECHO_CLASSIC as u8
                } else {
                    consts::ECHO_EXACT as u8
                },
                ..Policy::new(consts::LAW_DCTCP, profile)
            }
            .with_dctcp(DctcpParameters {
                gain_shift,
                initial_alpha_q7,
                beta_q7,
                minimum_window_segments,
            }),
            Law::Delay {
                target_us,
                target_range_us,
            } => Policy::new(consts::LAW_DELAY, profile).with_delay(DelayParameters {
                target_us,
                range_us: target_range_us,
            }),
            Law::Coupled => Policy::new(consts::LAW_COUPLED, profile),
        }
    }

    pub fn is_dctcp(self) -> bool {
        matches!(self, Law::Dctcp { .. })
    }

    /// Returns whether the law uses marks.
    pub fn wants_ecn(self) -> bool {
        !matches!(self, Law::Delay { .. })
    }

    /// Returns whether the law requires marks.
    pub fn needs_ecn(self) -> bool {
        matches!(self, Law::Ecn | Law::Dctcp { .. })
    }

    /// Does all new data carry CWR?
    pub fn always_says_cwr(self) -> bool {
        matches!(self, Law::Dctcp { classic: true, .. })
    }
}

/// Any law, with any parameters that `uc attach` takes.
pub fn laws() -> impl Strategy<Value = Law> {
    let dctcp = (1u8..=10, 0u8..=128, 0u8..=128, 1u8..5, any::<bool>()).prop_map(
        |(gain_shift, initial_alpha_q7, beta_q7, minimum_window_segments, classic)| Law::Dctcp {
            gain_shift,
            initial_alpha_q7,
            beta_q7,
            minimum_window_segments,
            classic,
        },
    );
    let target_us = prop_oneof![1u32..5_000, any::<u32>()];
    let delay = (target_us, prop_oneof![Just(0u32), any::<u32>()]).prop_map(
        |(target_us, target_range_us)| Law::Delay {
            target_us,
            target_range_us,
        },
    );
    prop_oneof![Just(Law::Ecn), dctcp, delay, Just(Law::Coupled)]
}
