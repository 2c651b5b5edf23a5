//! Checks of hypervisors.

use super::fault::{Check, ensure};
use crate::case::Case;
use crate::hypervisor::Hypervisor;
use crate::schema::{Experiment, SERVER_STACK};
use crate::units::Nanos;

/// Maximum number of VMs of a core: with more, one round of their slices exceeds any measured part.
const VMS_MAX: u32 = 64;
/// Minimum time slice, 10 µs in ns: with shorter slices VMs do nothing but switch.
const SLICE_MIN_NS: u64 = 10_000;
/// Maximum interval of a guest's timer interrupt; kernels have 1 to 10 ms.
const TICK_MAX: Nanos = Nanos(1_000_000_000);
/// Maximum number of ticks and slices of one run, each of which is an event of the simulator.
const BEATS_MAX: u128 = 100_000_000;

pub(super) fn check_hypervisors(key: &str, case: &Case, experiment: &Experiment) -> Check {
    let mut beats = 0;
    for (i, guests) in case.guests.iter().enumerate() {
        let Some(hypervisor) = &guests.hypervisor else {
            if case.receiver_hypervisor.is_some() {
                continue; // what a sender can do about a receiver's stalls is a question
            }
            let key = format!("{key}.guests.{i}");
            check_pvtcp(&key, &guests.stack, "hypervisor", experiment)?;
            continue;
        };
        let key = format!("{key}.guests.{i}.hypervisor");
        check_hypervisor(&key, hypervisor, experiment)?;
        beats += beats_of(hypervisor, guests.count, experiment.duration);
        ensure(beats <= BEATS_MAX, &format!("{key}.tick"), || {
            format!(
                "makes {beats} ticks and turns with those before it in one run of the case, and \
                 {BEATS_MAX} are the most; give a longer tick or slice, or fewer guests"
            )
        })?;
        ensure(guests.group().is_none(), &key, || {
            "the simulator can't stall guests that share a window; remove `hypervisor`, or the \
             guests' coupling"
                .into()
        })?;
    }
    let Some(hypervisor) = &case.receiver_hypervisor else {
        let receiver = case.receiver.as_deref().unwrap_or(SERVER_STACK);
        return check_pvtcp(key, receiver, "receiver_hypervisor", experiment);
    };
    let key = format!("{key}.receiver_hypervisor");
    check_hypervisor(&key, hypervisor, experiment)?;
    ensure(hypervisor.guests == 1, &format!("{key}.guests"), || {
        "each receiver is on a core of its own; leave it out".into()
    })?;
    let topology = experiment.network.topology;
    ensure(topology.hosts().is_none(), &key, || {
        let name = topology.name();
        format!("the hosts of a {name} both send and receive; give the groups a hypervisor")
    })
}

/// Checks that a stack with PVTCP has a hypervisor that causes stalls.
fn check_pvtcp(key: &str, stack: &str, missing: &str, experiment: &Experiment) -> Check {
    let found = experiment.stacks.get(stack);
    let has = found.is_some_and(|stack| stack.pvtcp.is_some());
    ensure(!has, &format!("{key}.{missing}"), || {
        format!(
            "[stack.{stack}] has pvtcp, and nobody takes these hosts' CPU away; give \
             {missing} = {{ vms = 3 }}, {{}} for a control, or a stack without pvtcp"
        )
    })
}

/// Returns the number of ticks and slices of this many guests.
fn beats_of(hypervisor: &Hypervisor, guests: u32, duration: Nanos) -> u128 {
    let times = |each: Nanos| u128::from(duration.0 / each.0.max(1));
    let ticks = times(hypervisor.simulated_tick()) * u128::from(guests);
    let turns = match hypervisor.vms {
        0 | 1 => 0,
        _ => times(hypervisor.slice) * u128::from(hypervisor.cores(guests)),
    };
    ticks + turns
}

fn check_hypervisor(key: &str, hypervisor: &Hypervisor, experiment: &Experiment) -> Check {
    let Hypervisor { vms, guests, .. } = *hypervisor;
    ensure((1..=VMS_MAX).contains(&vms), &format!("{key}.vms"), || {
        format!("is {vms}; give 1 to {VMS_MAX}")
    })?;
    ensure(
        (1..=vms).contains(&guests),
        &format!("{key}.guests"),
        || format!("is {guests} of {vms} virtual machines; give 1 to {vms}"),
    )?;
    for (name, time) in [
        ("slice", Some(hypervisor.slice)),
        ("tick", hypervisor.tick),
        ("boost", hypervisor.boost),
    ] {
        let sensible = time.is_none_or(|time| time.0 >= SLICE_MIN_NS);
        ensure(sensible, &format!("{key}.{name}"), || {
            "is too short; give 10us at least".into()
        })?;
    }
    let tick = hypervisor.simulated_tick();
    ensure(tick <= TICK_MAX, &format!("{key}.tick"), || {
        format!("{tick} is longer than {TICK_MAX}; kernels have 1ms to 10ms")
    })?;
    ensure(
        hypervisor.jitter.0 <= hypervisor.slice.0 / 2,
        &format!("{key}.jitter"),
        || {
            let slice = hypervisor.slice;
            format!("is more than half of a slice, which is {slice}; make it smaller")
        },
    )?;
    let backlog = hypervisor.simulated_backlog();
    ensure(backlog > 0, &format!("{key}.backlog"), || {
        "is 0, and whatever came would be lost; give 1 at least".into()
    })?;
    let Some(migration) = hypervisor.migration else {
        return Ok(());
    };
    let key = format!("{key}.migration");
    ensure(migration.downtime.0 > 0, &format!("{key}.downtime"), || {
        "is 0; give for example 1s".into()
    })?;
    let end = migration.at.0.checked_add(migration.downtime.0);
    ensure(
        end.is_some_and(|end| end < experiment.duration.0),
        &key,
        || {
            let duration = experiment.duration;
            format!("is not over at the end of the run, {duration}; stop sooner or for less")
        },
    )
}
