//! Checks of cases and groups of guests.

use std::collections::{BTreeMap, BTreeSet};

use super::application::check_application;
use super::coupling::check_coupling;
use super::dupack::check_dupack;
use super::fault::{Check, check_name, ensure, fault};
use super::hold::check_hold;
use super::hypervisor::check_hypervisors;
use super::list::check_list;
use super::network::check_queue;
use super::parameters::check_parameters;
use super::pattern::check_pattern;
use super::start_law::{check_grants, check_start_law, check_starts};
use crate::Law;
use crate::application::Application;
use crate::case::{Case, Guests};
use crate::network::Topology;
use crate::schema::{Experiment, SERVER_STACK};
use crate::units::Nanos;
use crate::wording::suggest;

/// Maximum number of guests of a case; memory and tables are sized for it.
const GUESTS_MAX: u32 = 10_000;
/// Maximum number of flows of a case; memory and tables are sized for it.
const FLOWS_MAX: u32 = 100_000;
/// Maximum number of messages at given times in a case: each is stored, and they pile up while the network carries
/// fewer.
const MESSAGES_MAX: u128 = 10_000_000;

pub(super) fn check_case(key: &str, case: &Case, experiment: &Experiment) -> Check {
    if case.guests.is_empty() {
        return fault(format!("{key}.guests"), "no guests; add a [[case.guests]]");
    }
    if let Some(receiver) = case
        .receiver
        .as_deref()
        .filter(|name| *name != SERVER_STACK)
    {
        check_stack_name(&format!("{key}.receiver"), receiver, experiment)?;
    }
    if let Some(queue) = &case.queue {
        check_queue(&format!("{key}.queue"), queue)?;
    }
    let key_of_law = format!("{key}.receiver_law");
    ensure(case.receiver_law != Some(Law::COUPLED), &key_of_law, || {
        "coupled needs a group, and a receivers' port has none; give dctcp, ecn or pass, and \
             coupled to the guests"
            .into()
    })?;
    ensure(case.receiver_law != Some(Law::DELAY), &key_of_law, || {
        "delay needs a target, and a receivers' port has no parameters; give dctcp, ecn or pass, \
         and delay to the guests"
            .into()
    })?;
    let mut names = BTreeSet::new();
    let mut hosts = BTreeMap::new();
    let (mut guests_sum, mut flows_sum, mut messages_sum) = (0u32, 0u32, 0u128);
    for (i, guests) in case.guests.iter().enumerate() {
        let key = format!("{key}.guests.{i}");
        check_name(&format!("{key}.name"), &guests.name)?;
        ensure(names.insert(&guests.name), &format!("{key}.name"), || {
            format!("a second group `{}` in case `{}`", guests.name, case.name)
        })?;
        check_guests(&key, guests, experiment)?;
        check_ends(&key, guests, experiment)?;
        match &guests.application {
            Application::List(list) => check_list(&key, list, guests, experiment)?,
            _ => check_pattern(&key, guests, experiment.network.topology)?,
        }
        if let Some(host) = &guests.host {
            let (from, to) = guests.ends(experiment.network.topology);
            let first = *hosts.entry(host).or_insert((from, to));
            ensure(first.0 == from, &format!("{key}.from"), || {
                format!(
                    "host `{host}` is at {} already; a host is at one place",
                    first.0
                )
            })?;
            ensure(first.1 == to, &format!("{key}.to"), || {
                let place = first.1;
                format!("host `{host}` sends to a receiver at {place} already; a host has one")
            })?;
        }
        guests_sum = guests_sum.saturating_add(guests.count);
        flows_sum = flows_sum.saturating_add(guests.total_flows());
        messages_sum += guests.timed_messages(experiment.duration);
        check_messages(&key, messages_sum, guests)?;
    }
    check_coupling(key, case)?;
    check_starts(key, case, &experiment.network)?;
    check_grants(key, case, &experiment.network)?;
    check_hypervisors(key, case, experiment)?;
    let at_most = |sum: u32, most: u32, what: &str| {
        ensure(sum <= most, &format!("{key}.guests"), || {
            format!("{sum} {what} in one case; give at most {most}")
        })
    };
    at_most(guests_sum, GUESTS_MAX, "guests")?;
    at_most(flows_sum, FLOWS_MAX, "flows")
}

fn check_messages(key: &str, sum: u128, guests: &Guests) -> Check {
    let (field, what) = match guests.application {
        Application::Epochs { .. } => ("epochs.rounds", "transfers"),
        Application::List(_) => ("list", "transfers"),
        _ => ("messages.every", "messages"),
    };
    let key = format!("{key}.application.{field}");
    ensure(sum <= MESSAGES_MAX, &key, || {
        format!(
            "makes {sum} {what} in one run of the case, and {MESSAGES_MAX} are the most; send \
             them less often, or from fewer flows"
        )
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
    check_stack_name(&format!("{key}.stack"), &guests.stack, experiment)?;
    check_parameters(key, guests)?;
    check_dupack(key, guests)?;
    check_hold(key, guests)?;
    check_start_law(key, guests)?;
    check_application(&format!("{key}.application"), &guests.application)?;
    check_times(key, guests, experiment)
}

fn check_stack_name(key: &str, name: &str, experiment: &Experiment) -> Check {
    ensure(experiment.stacks.contains_key(name), key, || {
        let known: Vec<&str> = experiment.stacks.keys().map(String::as_str).collect();
        format!("no [stack.{name}]; {}", suggest(name, &known))
    })
}

/// Checks that a flow begins before it ends, and before the run ends.
fn check_times(key: &str, guests: &Guests, experiment: &Experiment) -> Check {
    let last_start = guests.start.0.saturating_add(guests.start_spread.0);
    ensure(
        last_start < experiment.duration.0,
        &format!("{key}.start"),
        || {
            let duration = experiment.duration;
            format!("with start_spread it reaches the end of the run, {duration}; start sooner")
        },
    )?;
    check_epochs(key, guests, experiment.duration)?;
    let Some(stop) = guests.stop else {
        return Ok(());
    };
    let key = format!("{key}.stop");
    ensure(guests.application == Application::Bulk, &key, || {
        let name = guests.application.name();
        format!("is for bulk flows, and this is {name}; leave it out")
    })?;
    ensure(stop.0 > last_start, &key, || {
        format!("{stop} is not after every start; stop later")
    })?;
    let duration = experiment.duration;
    ensure(stop <= duration, &key, || {
        format!("{stop} is after the end of the run, {duration}; leave it out")
    })
}

/// Checks that all epochs begin within the run, and have room for the gaps between their transfers.
fn check_epochs(key: &str, guests: &Guests, duration: Nanos) -> Check {
    let Application::Epochs {
        rounds, every, gap, ..
    } = guests.application
    else {
        return Ok(());
    };
    ensure(
        guests.start_spread.0 == 0,
        &format!("{key}.start_spread"),
        || "an epoch's transfers are as far apart as its `gap` says; leave it out".into(),
    )?;
    let key = format!("{key}.application.epochs");
    let gaps_ns = gap.0.saturating_mul(guests.total_flows().into());
    ensure(
        rounds < 2 || every.0 > gaps_ns,
        &format!("{key}.every"),
        || {
            let gaps = Nanos(gaps_ns);
            format!("is {every}, and the gaps of one epoch take {gaps}; give more")
        },
    )?;
    let epochs_ns = every.0.saturating_mul(u64::from(rounds) - 1);
    let last_ns = guests
        .start
        .0
        .saturating_add(epochs_ns)
        .saturating_add(gaps_ns);
    ensure(last_ns < duration.0, &format!("{key}.rounds"), || {
        format!("the last of them reaches the end of the run, {duration}; give fewer")
    })
}

/// Checks the switches or leaves of a group and its receivers.
fn check_ends(key: &str, guests: &Guests, experiment: &Experiment) -> Check {
    let topology = experiment.network.topology;
    let (places, name) = (topology.places(), topology.name());
    for (field, place) in [("from", guests.from), ("to", guests.to)] {
        let key = format!("{key}.{field}");
        ensure(places > 0 || place.is_none(), &key, || {
            format!("a {name} leaves no choice of place; leave it out")
        })?;
        let place = place.unwrap_or(0);
        ensure(place < places.max(1), &key, || {
            format!("{place} is beyond the {name}; give 0 to {}", places - 1)
        })?;
    }
    let (from, to) = guests.ends(topology);
    let forwards = !matches!(topology, Topology::ParkingLot { .. }) || from < to;
    ensure(forwards, &format!("{key}.to"), || {
        format!("{to} is not behind {from}; a parking-lot is crossed forwards")
    })
}
