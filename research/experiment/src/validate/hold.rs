//! Checks of `hold`: the settings of the port that it needs, and the keys that exclude it.

use super::fault::{Check, ensure};
use crate::Law;
use crate::case::Guests;

/// Longest minimum RTO, 60 s: RFC 6298 (2.5) allows no shorter maximum RTO.
const LEAST_TIMEOUT_MAX_NS: u64 = 60_000_000_000;

pub(super) fn check_hold(key: &str, guests: &Guests) -> Check {
    let Some(hold) = guests.hold else {
        return Ok(());
    };
    let key = format!("{key}.hold");
    ensure(hold.pace || hold.buffer.is_some(), &key, || {
        "holds nothing; give pace = true, buffer = {} or both, or leave it out".into()
    })?;
    let excluding = [
        (
            guests.dupack.is_some(),
            "dupack",
            "which repairs the same losses",
        ),
        (
            guests.hypervisor.is_some(),
            "hypervisor",
            "guests that share a CPU",
        ),
        (
            guests.start_law.is_some(),
            "start_law",
            "which holds handshakes itself",
        ),
    ];
    for (is_there, other, why) in excluding {
        ensure(!is_there, &key, || {
            format!("can't be simulated together with `{other}`, {why}; remove `hold` or `{other}`")
        })?;
    }
    let Some(buffer) = hold.buffer else {
        return Ok(());
    };
    let acts = guests.law.is_some_and(|law| law != Law::PASS) && !guests.is_observed();
    ensure(acts, &format!("{key}.buffer"), || {
        "hides losses from the guests, so a law on their ports must respond to congestion; give for \
         example law = \"ecn\", or leave it out"
            .into()
    })?;
    let Some(least) = buffer.least_timeout else {
        return Ok(());
    };
    let is_sensible = (1..=LEAST_TIMEOUT_MAX_NS).contains(&least.0);
    ensure(is_sensible, &format!("{key}.buffer.least_timeout"), || {
        format!("{least} is not a valid minimum RTO; give 1ns to 60s, for example 10ms")
    })
}
