//! Coupled groups that can be: their guests have one weight each, and their rules someone to rule.

use std::collections::BTreeMap;

use super::{Check, check_name, ensure};
use crate::case::{Case, Law};

pub(super) fn check_coupling(key: &str, case: &Case) -> Check {
    let mut weights = BTreeMap::new();
    let mut is_coupled = false;
    for (i, guests) in case.guests.iter().enumerate() {
        let key = format!("{key}.guests.{i}.coupling");
        let Some(coupling) = &guests.coupling else {
            ensure(guests.law != Some(Law::Coupled), &key, || {
                "missing, and law coupled is about a group's window; give for example coupling = { \
                 group = \"trunk\" }"
                    .into()
            })?;
            continue;
        };
        is_coupled = true;
        check_name(&format!("{key}.group"), &coupling.group)?;
        for (name, value) in [("weight", coupling.weight), ("priority", coupling.priority)] {
            ensure(value > 0, &format!("{key}.{name}"), || {
                "is 0; give 1 to 255".into()
            })?;
        }
        let Some(guest) = &coupling.guest else {
            continue;
        };
        check_name(&format!("{key}.guest"), guest)?;
        ensure(guests.count == 1, &format!("{key}.guest"), || {
            let count = guests.count;
            format!("names one guest, and these are {count}; leave it out, or take count = 1")
        })?;
        let first = *weights
            .entry((&coupling.group, guest))
            .or_insert(coupling.weight);
        ensure(first == coupling.weight, &format!("{key}.weight"), || {
            format!("guest `{guest}` has weight {first} already; a guest has one weight")
        })?;
    }
    check_rules(key, case, is_coupled)
}

fn check_rules(key: &str, case: &Case, is_coupled: bool) -> Check {
    let key = format!("{key}.coupling");
    let rules = &case.coupling;
    ensure(is_coupled || rules.are_default(), &key, || {
        "no guests of this case are coupled; give some a coupling = { group = \"NAME\" }".into()
    })?;
    ensure(
        (0.0..=1.0).contains(&rules.aggressiveness),
        &format!("{key}.aggressiveness"),
        || format!("is {}; give 0 to 1", rules.aggressiveness),
    )?;
    ensure(rules.burst != Some(0), &format!("{key}.burst"), || {
        "is 0; give 1 to 65535 segments".into()
    })
}
