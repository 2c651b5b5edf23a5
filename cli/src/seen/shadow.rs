//! The values of a flow's shadow, the host's copy of the law's state, in the units of a TCP sender.

use serde::{Deserialize, Serialize};
use uc_core::law::Trait;
use uc_core::{Flow, Law, Policy, consts};

/// Slow-start threshold of a flow that has never reduced its window, in the kernel and in the core.
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// Congestion window, slow-start threshold and round-trip time of a TCP sender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Values {
    /// Congestion window; `None` if the flow is not limited or the value can't be read.
    pub cwnd_bytes: Option<u64>,
    /// Slow-start threshold; `None` before the first reduction, for shared windows, and for laws without one.
    pub ssthresh_bytes: Option<u64>,
    /// Smoothed round-trip time in microseconds; `None` before the first sample.
    pub srtt_us: Option<u32>,
}

impl Values {
    /// Returns the values of the flow's shadow, in the units that the kernel uses for sockets.
    pub fn of_shadow(flow: &Flow) -> Values {
        let cwnd = window_bytes(flow).filter(|bytes| *bytes < INFINITE_SSTHRESH);
        Values {
            cwnd_bytes: cwnd.map(u64::from),
            ssthresh_bytes: ssthresh_bytes(flow),
            srtt_us: Some(flow.srtt_us >> 3).filter(|us| *us > 0),
        }
    }
}

/// Returns the law's window in bytes; `None` if only the code of a law from outside the tree can read it.
pub fn window_bytes(flow: &Flow) -> Option<u32> {
    let law = Law::of(&flow.policy).of_same_window()?;
    let policy = Policy {
        law: law.number(),
        ..flow.policy
    };
    let mut copy = *flow;
    copy.policy = policy;
    Some(uc_core::COMPILED.window_bytes(&copy))
}

/// Returns the shadow's slow-start threshold in bytes; `None` if there is none. The threshold of a group is not that of
/// its flows.
fn ssthresh_bytes(flow: &Flow) -> Option<u64> {
    let law = Law::of(&flow.policy).of_same_window()?;
    let grouped = law.has(Trait::GROUPED) || flow.share != 0;
    let ssthresh = Some(flow.reno.ssthresh);
    let ssthresh = ssthresh.filter(|at| !grouped && (1..INFINITE_SSTHRESH).contains(at))?;
    // As uc_counts_segments() in core/flow.h.
    let is_linux = u32::from(flow.policy.profile) == consts::PROFILE_LINUX;
    let unit = match is_linux && !law.has(Trait::BYTES) {
        true => flow.mss_bytes.into(),
        false => 1,
    };
    Some(u64::from(ssthresh) * unit)
}

#[cfg(test)]
mod tests {
    use uc_core::FlowState;

    use super::*;

    #[test]
    fn thresholds_of_segments_and_of_bytes_are_told_in_bytes() {
        let state = FlowState {
            mss_bytes: 1000,
            srtt_us: 800,
            ..FlowState::default()
        };
        let mut flow = Flow::from(state);
        flow.policy = Policy::new(consts::LAW_ECN, consts::PROFILE_LINUX);
        flow.reno.ssthresh = 7;
        let values = Values::of_shadow(&flow);
        assert_eq!(
            (values.ssthresh_bytes, values.srtt_us),
            (Some(7000), Some(100))
        );
        flow.policy = Policy::new(consts::LAW_ECN, consts::PROFILE_RFC);
        assert_eq!(Values::of_shadow(&flow).ssthresh_bytes, Some(7));
        flow.reno.ssthresh = INFINITE_SSTHRESH;
        flow.srtt_us = 0;
        let values = Values::of_shadow(&flow);
        assert_eq!((values.ssthresh_bytes, values.srtt_us), (None, None));
    }
}
