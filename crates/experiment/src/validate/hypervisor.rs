//! Hypervisors that can be.

use super::{Check, ensure, fault};
use crate::case::Case;
use crate::hypervisor::Hypervisor;
use crate::network::Topology;
use crate::schema::Experiment;

/// A turn of more is longer than any measured part.
const VMS_MAX: u32 = 64;
/// Virtual machines that run in turn for less than this do nothing but change places.
const SLICE_MIN_NS: u64 = 10_000;

pub(super) fn check_hypervisors(key: &str, case: &Case, experiment: &Experiment) -> Check {
    for (i, guests) in case.guests.iter().enumerate() {
        let Some(hypervisor) = &guests.hypervisor else {
            continue;
        };
        let key = format!("{key}.guests.{i}.hypervisor");
        check_hypervisor(&key, hypervisor, experiment)?;
        ensure(guests.coupling.is_none(), &key, || {
            "these guests are coupled, and a group's window has no word for one that is stalled; \
             leave one of the two out"
                .into()
        })?;
    }
    let Some(hypervisor) = &case.receiver_hypervisor else {
        return Ok(());
    };
    let key = format!("{key}.receiver_hypervisor");
    check_hypervisor(&key, hypervisor, experiment)?;
    ensure(hypervisor.guests == 1, &format!("{key}.guests"), || {
        "each receiver is on a core of its own; leave it out".into()
    })?;
    if let Topology::Switch { .. } = experiment.network.topology {
        return fault(
            key,
            "the hosts of a switch both send and receive; give the groups a hypervisor",
        );
    }
    Ok(())
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
        ("tick", Some(hypervisor.tick)),
        ("boost", hypervisor.boost),
    ] {
        let sensible = time.is_none_or(|time| time.0 >= SLICE_MIN_NS);
        ensure(sensible, &format!("{key}.{name}"), || {
            "is too short; give 10us at least".into()
        })?;
    }
    ensure(
        hypervisor.jitter.0 <= hypervisor.slice.0 / 2,
        &format!("{key}.jitter"),
        || {
            let slice = hypervisor.slice;
            format!("is more than half of a slice, which is {slice}; make it smaller")
        },
    )?;
    ensure(hypervisor.backlog > 0, &format!("{key}.backlog"), || {
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
