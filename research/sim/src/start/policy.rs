//! The start `watch` of an experiment as the core's policy.

use uc_core::watch::StartPolicy;
use uc_experiment::{Nanos, Network, Topology, Watch};

use crate::plan::whole_us;

/// The core's policy for the start `watch`. Turns come at the rate of the link to a receiver.
pub fn start_policy(watch: &Watch, network: &Network) -> StartPolicy {
    let last_link = match network.topology {
        Topology::Star | Topology::Switch { .. } => network.rate,
        _ => network.access_rate(),
    };
    let usual = StartPolicy {
        pace_bytes_per_s: last_link.0 / 8,
        ..StartPolicy::usual()
    };
    watch_policy(watch, &usual)
}

/// The same where `usual` has what isn't said.
pub fn watch_policy(watch: &Watch, usual: &StartPolicy) -> StartPolicy {
    let us = |time: Option<Nanos>, otherwise| time.map_or(otherwise, whole_us);
    StartPolicy {
        probes: watch.probes.unwrap_or(usual.probes),
        least_segments: watch.least.unwrap_or(usual.least_segments),
        rounds: watch.rounds.unwrap_or(usual.rounds),
        observe: watch.observe.into(),
        span_us: us(watch.span, usual.span_us),
        fresh_us: us(watch.fresh, usual.fresh_us),
        idle_us: us(watch.idle, usual.idle_us),
        wait_us: us(watch.wait, usual.wait_us),
        burst_bytes: watch.burst.map_or(usual.burst_bytes, |bytes| bytes.0),
        late_ns: watch.late.map_or(usual.late_ns, |late| late.0 as u32),
        span_part: watch.part.unwrap_or(usual.span_part),
        marked_part: watch.marked_part.unwrap_or(usual.marked_part),
        pad: [0; 2],
        pace_bytes_per_s: watch.pace.map_or(usual.pace_bytes_per_s, |pace| pace.0 / 8),
    }
}

#[cfg(test)]
mod tests {
    use uc_core::watch::consts;

    use super::*;

    #[test]
    fn what_a_file_may_ask_for_is_what_the_core_keeps_to() {
        assert_eq!(u32::from(Watch::PROBES_MAX), consts::PROBES_MAX);
        assert_eq!(whole_us(*Watch::SPAN.end()), consts::SPAN_MAX_US);
        assert_eq!(whole_us(Watch::WAIT_MAX), consts::WAIT_MAX_US);
    }
}
