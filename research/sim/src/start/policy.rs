//! Conversion of an experiment's start `watch` into the core's policy.

use uc_core::watch::StartPolicy;
use uc_experiment::Network;
use uc_law::{Watch, watch_policy};

/// Returns the core's policy for the start `watch`. Pacing slots come at the rate of the link to a
/// receiver.
pub fn start_policy(watch: &Watch, network: &Network) -> StartPolicy {
    let usual = StartPolicy {
        pace_bytes_per_s: network.receiver_rate().0 / 8,
        ..StartPolicy::usual()
    };
    watch_policy(watch, &usual)
}
