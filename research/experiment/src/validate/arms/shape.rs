//! Checks of what the shape of a network allows between real kernels.

use std::collections::BTreeSet;

use super::only::{Only, only};
use crate::arm::Arm;
use crate::case::{Case, Guests};
use crate::network::Topology;

/// Maximum number of guests and receivers on the live backend, each in a namespace of its own.
const NAMESPACES_MAX: u32 = 1_000;

/// Checks that a case suits its network's receivers: their number, their stalls, and
/// their coupled groups.
pub(super) fn check_case(key: &str, case: &Case, topology: Topology) -> Result<(), Only> {
    if case.receiver_hypervisor.is_some() && topology != Topology::Star {
        let key = format!("{key}.receiver_hypervisor");
        return Err(only(
            key,
            "receiver_hypervisor in a topology with several receivers",
            &[Arm::Sim],
        ));
    }
    check_coupling(key, case)?;
    check_size(key, case, topology)
}

/// Checks that a computer carries all guests and receivers.
fn check_size(key: &str, case: &Case, topology: Topology) -> Result<(), Only> {
    let guests = case.guests.iter().map(|guests: &Guests| guests.count);
    let guests = guests.fold(0u32, u32::saturating_add);
    let named: BTreeSet<&str> = case
        .guests
        .iter()
        .filter_map(|it| it.host.as_deref())
        .collect();
    let unnamed = case.guests.iter().filter(|guests| guests.host.is_none());
    let hosts = unnamed.fold(named.len() as u32, |sum, guests| {
        sum.saturating_add(guests.count)
    });
    let receivers = topology.hosts().unwrap_or(topology.receivers(hosts));
    let sum = guests.saturating_add(receivers);
    if sum <= NAMESPACES_MAX {
        return Ok(());
    }
    let what = format!("a case of more than {NAMESPACES_MAX} guests and receivers, here {sum},");
    Err(only(format!("{key}.guests"), &what, &[Arm::Sim]))
}

/// Checks the coupling on the live backend: one group, of all coupled flows; and either all guests or
/// all ports are coupled, since the guests' kernels know nothing of the ports' groups.
fn check_coupling(key: &str, case: &Case) -> Result<(), Only> {
    let (mut first, mut first_kind) = (None, None);
    for (i, guests) in case.guests.iter().enumerate() {
        let Some(coupling) = guests.group() else {
            continue;
        };
        let first = *first.get_or_insert(&coupling.group);
        if *first != coupling.group {
            let kind = if guests.share.is_some() {
                "share"
            } else {
                "coupling"
            };
            let key = format!("{key}.guests.{i}.{kind}.group");
            let what = format!("a second coupled group beside `{first}`");
            return Err(only(key, &what, &[Arm::Sim]));
        }
        let kind = (guests.is_coupled_by_port(), guests.share.is_some());
        if *first_kind.get_or_insert(kind) != kind {
            let key = format!("{key}.guests.{i}.law");
            let what = "one group of guests with law coupled and guests without";
            return Err(only(key, what, &[Arm::Sim]));
        }
    }
    Ok(())
}
