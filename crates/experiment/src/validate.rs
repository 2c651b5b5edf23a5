//! Whether an experiment makes sense: numbers that can be, names that exist.

mod arms;
mod expect;
mod network;

use std::collections::BTreeSet;

use crate::case::{Case, Guests};
use crate::error::Error;
use crate::place::suggest;
use crate::schema::Experiment;
use arms::check_arms;
use expect::check_expect;
use network::{check_network, check_stack};

/// A key's path and what is wrong with it.
type Fault = (String, String);
type Check = Result<(), Fault>;

impl Experiment {
    /// Checks that the experiment can be run and judged.
    ///
    /// # Errors
    /// [`Error::Invalid`] for the first impossible number or unknown name, with its place.
    pub fn validate(&self) -> Result<(), Error> {
        check(self).map_err(|fault| self.invalid(fault))
    }

    fn invalid(&self, (key, message): Fault) -> Error {
        let place = self.origin.place(&key);
        Error::Invalid {
            place,
            key,
            message,
        }
    }
}

fn fault(key: impl Into<String>, message: impl Into<String>) -> Check {
    Err((key.into(), message.into()))
}

fn ensure(holds: bool, key: &str, message: impl FnOnce() -> String) -> Check {
    if holds {
        Ok(())
    } else {
        Err((key.into(), message()))
    }
}

fn check(experiment: &Experiment) -> Check {
    check_name("name", &experiment.name)?;
    check_times(experiment)?;
    check_network(&experiment.network)?;
    for (name, stack) in &experiment.stacks {
        check_stack(&format!("stack.{name}"), stack)?;
    }
    ensure(!experiment.cases.is_empty(), "case", || {
        "no case; add a [[case]]".into()
    })?;
    let mut names = BTreeSet::new();
    for (i, case) in experiment.cases.iter().enumerate() {
        let key = format!("case.{i}");
        check_name(&format!("{key}.name"), &case.name)?;
        ensure(names.insert(&case.name), &format!("{key}.name"), || {
            format!(
                "a second case `{}`; give every case a name of its own",
                case.name
            )
        })?;
        check_case(&key, case, experiment)?;
    }
    check_arms(experiment)?;
    for (i, expect) in experiment.expects.iter().enumerate() {
        check_expect(&format!("expect.{i}"), expect, experiment)?;
    }
    Ok(())
}

/// Names become parts of file names, of overrides (`case.NAME.…`) and of interface names.
fn check_name(key: &str, name: &str) -> Check {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_/".contains(c);
    ensure(!name.is_empty() && name.chars().all(good), key, || {
        format!("`{name}` is no name; use letters, digits, `-` and `_`")
    })
}

fn check_times(experiment: &Experiment) -> Check {
    let Experiment {
        duration,
        settle,
        tail,
        sample,
        ..
    } = experiment;
    ensure(duration.0 > 0, "duration", || {
        "is 0; give a run some time, for example 37s".into()
    })?;
    let dropped = settle.0.checked_add(tail.0);
    ensure(
        dropped.is_some_and(|dropped| dropped < duration.0),
        "duration",
        || {
            format!(
                "nothing is left to measure: settle {settle} and tail {tail} take all of {duration}"
            )
        },
    )?;
    ensure(sample.0 > 0, "sample", || {
        "is 0; give for example 100ms".into()
    })?;
    let measured = experiment.measured_ns();
    ensure(
        sample.0 <= (measured.end - measured.start) / 2,
        "sample",
        || format!("{sample} leaves fewer than two samples in the measured part; make it smaller"),
    )?;
    ensure(experiment.repeat > 0, "repeat", || {
        "is 0; run it at least once".into()
    })
}

fn check_case(key: &str, case: &Case, experiment: &Experiment) -> Check {
    if case.guests.is_empty() {
        return fault(format!("{key}.guests"), "no guests; add a [[case.guests]]");
    }
    let mut names = BTreeSet::new();
    let mut hosts = 0u32;
    for (i, guests) in case.guests.iter().enumerate() {
        let key = format!("{key}.guests.{i}");
        check_name(&format!("{key}.name"), &guests.name)?;
        ensure(names.insert(&guests.name), &format!("{key}.name"), || {
            format!("a second group `{}` in case `{}`", guests.name, case.name)
        })?;
        check_guests(&key, guests, experiment)?;
        hosts = hosts.saturating_add(guests.count);
    }
    // Addresses are one octet, of which the receiver takes one too (10.77.0.2 to 10.77.0.254).
    ensure(hosts <= 250, &format!("{key}.guests"), || {
        format!("{hosts} guests in one case; a network holds at most 250")
    })
}

fn check_guests(key: &str, guests: &Guests, experiment: &Experiment) -> Check {
    let at_least_one = |name: &str, value: u32| {
        ensure(value > 0, &format!("{key}.{name}"), || {
            "is 0; give at least 1".into()
        })
    };
    at_least_one("count", guests.count)?;
    at_least_one("flows", guests.flows)?;
    if let Some(host) = &guests.host {
        check_name(&format!("{key}.host"), host)?;
    }
    ensure(
        experiment.stacks.contains_key(&guests.stack),
        &format!("{key}.stack"),
        || {
            let known: Vec<&str> = experiment.stacks.keys().map(String::as_str).collect();
            let suggestion = suggest(&guests.stack, &known);
            format!("no [stack.{}]; {suggestion}", guests.stack)
        },
    )
}
