//! Checks of `dupack`: the settings of the port and of the guests that it needs.

use uc_law::keys;

use super::fault::{Check, ensure};
use crate::Law;
use crate::case::Guests;

pub(super) fn check_dupack(key: &str, guests: &Guests) -> Check {
    if guests.dupack.is_none() {
        return Ok(());
    }
    let key = format!("{key}.dupack");
    let acts = guests.law.is_some_and(|law| law != Law::PASS) && !guests.is_observed();
    ensure(acts, &key, || {
        "needs a law on the guests' ports that acts, whose shadow times the path; give for example \
         law = \"ecn\", or leave it out"
            .into()
    })?;
    for (name, why) in [
        (
            keys::NO_SACK,
            "SACK ignore duplicate ACKs without its blocks",
        ),
        (keys::NO_TIMESTAMPS, "timestamps may drop ACKs without them"),
    ] {
        ensure(guests.parameters.has(name), &key, || {
            format!("guests with {why}; give parameters = {{ {name} = true }} too")
        })?;
    }
    ensure(guests.hypervisor.is_none(), &key, || {
        "is not simulated for guests that share a CPU; leave out `hypervisor` or this".into()
    })
}
