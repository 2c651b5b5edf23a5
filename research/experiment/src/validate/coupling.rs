//! Checks of coupled groups: guests have one weight each, and rules apply to some guests.

use std::collections::BTreeMap;

use super::fault::{Check, check_name, ensure};
use crate::Law;
use crate::case::{Case, Guests};
use crate::coupling::Coupling;
use uc_law::Trait;

pub(super) fn check_coupling(key: &str, case: &Case) -> Check {
    let (mut weights, mut kinds) = (BTreeMap::new(), BTreeMap::new());
    for (i, guests) in case.guests.iter().enumerate() {
        let key = format!("{key}.guests.{i}");
        check_kind(&key, guests)?;
        let Some(coupling) = guests.group() else {
            continue;
        };
        let key = match guests.share {
            Some(_) => format!("{key}.share"),
            None => format!("{key}.coupling"),
        };
        check_numbers(&key, guests, coupling)?;
        let is_sum = guests.share.is_some();
        let first = *kinds.entry(&coupling.group).or_insert(is_sum);
        ensure(first == is_sum, &format!("{key}.group"), || {
            let group = &coupling.group;
            format!("`{group}` is a group of coupling and one of share; name another")
        })?;
        let Some(guest) = &coupling.guest else {
            continue;
        };
        let first = *weights
            .entry((&coupling.group, guest))
            .or_insert(coupling.weight);
        ensure(first == coupling.weight, &format!("{key}.weight"), || {
            format!("guest `{guest}` has weight {first} already; a guest has one weight")
        })?;
    }
    check_rules(key, case, &kinds.into_values().collect::<Vec<bool>>())
}

/// Checks that law `coupled` has a group, and `share` a law.
fn check_kind(key: &str, guests: &Guests) -> Check {
    let lacks_group = guests.law == Some(Law::COUPLED) && guests.coupling.is_none();
    ensure(!lacks_group, &format!("{key}.coupling"), || {
        "missing, and law coupled is about a group's window; give for example coupling = { \
         group = \"trunk\" }"
            .into()
    })?;
    if guests.share.is_none() {
        return Ok(());
    }
    let key = format!("{key}.share");
    ensure(guests.coupling.is_none(), &key, || {
        "these guests share a window by `coupling` already; remove `share` or `coupling`".into()
    })?;
    let own = |law: Law| law != Law::PASS && !law.has(Trait::GROUPED);
    let makes_windows = guests.law.is_some_and(own);
    ensure(makes_windows, &key, || {
        "divides the windows that a law makes, and no law makes any here; add for example law = \
         \"ecn\""
            .into()
    })
}

fn check_numbers(key: &str, guests: &Guests, coupling: &Coupling) -> Check {
    check_name(&format!("{key}.group"), &coupling.group)?;
    for (name, value) in [("weight", coupling.weight), ("priority", coupling.priority)] {
        ensure(value > 0, &format!("{key}.{name}"), || {
            "is 0; give 1 to 255".into()
        })?;
    }
    let Some(guest) = &coupling.guest else {
        return Ok(());
    };
    check_name(&format!("{key}.guest"), guest)?;
    ensure(guests.count == 1, &format!("{key}.guest"), || {
        let count = guests.count;
        format!("names one guest, and these are {count}; leave it out, or take count = 1")
    })
}

/// Checks the rules of coupled groups; `sums`: for each group, whether it is one of `share`.
fn check_rules(key: &str, case: &Case, sums: &[bool]) -> Check {
    let key = format!("{key}.coupling");
    let rules = &case.coupling;
    ensure(!sums.is_empty() || rules.are_default(), &key, || {
        "no guests of this case are coupled; give some a coupling = { group = \"NAME\" }".into()
    })?;
    ensure(
        (0.0..=1.0).contains(&rules.aggressiveness),
        &format!("{key}.aggressiveness"),
        || format!("is {}; give 0 to 1", rules.aggressiveness),
    )?;
    let is_used = rules.aggressiveness == 0.0 || sums.contains(&false);
    ensure(is_used, &format!("{key}.aggressiveness"), || {
        "says nothing of share, whose sum is what its flows' laws make; leave it out".into()
    })?;
    let none = rules.total.is_some_and(|total| total.0 == 0);
    ensure(!none, &format!("{key}.total"), || {
        "is 0; leave it out, or give for example \"256KiB\"".into()
    })?;
    ensure(rules.burst != Some(0), &format!("{key}.burst"), || {
        "is 0; give 1 to 65535 segments".into()
    })
}
