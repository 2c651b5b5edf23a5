//! Checks that start laws fit their group of guests and the hosts of its receivers.

use uc_law::{Value, Watch, start_keys};

use super::fault::{Check, ensure, first};
use crate::case::{Case, Guests};
use crate::network::Network;
use crate::units::Nanos;

pub(super) fn check_start_law(key: &str, guests: &Guests) -> Check {
    let watch = &guests.watch;
    let owned = guests.start_law.is_some() || watch.are_default();
    ensure(owned, &format!("{key}.watch"), || {
        "applies only with start_law = \"watch\"; add that to the group, or remove the watch settings"
            .into()
    })?;
    first(&format!("{key}.watch"), watch.faults())
}

/// Checks the key `grants` of a case: a group has a start law, no receiver has a bottleneck of its own, and the rate is
/// high enough to grant first windows.
pub(super) fn check_grants(key: &str, case: &Case, network: &Network) -> Check {
    let Some(rate) = case.grants else {
        return Ok(());
    };
    let key = format!("{key}.grants");
    let starts = case.guests.iter().any(|guests| guests.start_law.is_some());
    ensure(starts, &key, || {
        "grants first windows to flows with start_law = \"watch\", and no group has it; add it to a \
         group, or remove grants"
            .into()
    })?;
    let several = !network.topology.ends_in_bottleneck();
    ensure(several, &key, || {
        "is for receivers behind one shared link; a receiver of a star, switch or fat-tree has a link \
         of its own, whose host grants first windows: remove grants, or use the topology dumbbell"
            .into()
    })?;
    ensure(rate >= Watch::slowest_pace(), &key, || {
        format!("is below {}; give that or more", Watch::slowest_pace())
    })
}

/// Checks that groups with a start law that send to one host have the same settings, and that the receiver's link is
/// fast enough for first windows.
pub(super) fn check_starts(key: &str, case: &Case, network: &Network) -> Check {
    let shared = network.topology.ends_in_bottleneck();
    let rate = network.receiver_rate();
    let mut watched: Option<&Guests> = None;
    for (i, guests) in case.guests.iter().enumerate() {
        if guests.start_law.is_none() {
            continue;
        }
        let key = format!("{key}.guests.{i}.watch");
        let watch = &guests.watch;
        let waits = watch.get(start_keys::WAIT) != Some(Value::Time(Nanos(0)));
        let paced = waits && !watch.has(start_keys::PACE);
        ensure(
            !paced || rate >= Watch::slowest_pace(),
            &format!("{key}.pace"),
            || {
                format!(
                    "missing, and the link to a receiver has {rate}, at which nothing would start; \
                     give {} or more, or wait = \"0s\"",
                    Watch::slowest_pace()
                )
            },
        )?;
        let other = *watched.get_or_insert(guests);
        ensure(!shared || other.watch == *watch, &key, || {
            format!(
                "is not that of group `{}`, and one host receives from both; give them the same",
                other.name
            )
        })?;
    }
    Ok(())
}
