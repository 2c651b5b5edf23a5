//! Checks of what the shape of a network allows between real kernels.

use std::collections::BTreeSet;

use super::only::{Only, only};
use crate::arm::Arm;
use crate::case::{Case, Guests};
use crate::network::Topology;

/// Maximum number of guests on the live backend in a star. Addresses are one octet (10.77.0.1 to
/// 10.77.0.254), of which the receiver takes one too.
const LIVE_GUESTS_MAX: u32 = 250;

/// Checks that some hosts only send and others only receive.
pub(super) fn check_topology(topology: Topology) -> Result<(), Only> {
    if topology.hosts().is_none() {
        return Ok(());
    }
    let name = topology.name();
    let what = format!("a {name}, whose hosts both send and receive,");
    Err(only("network.topology", &what, &[Arm::Sim]))
}

/// Checks that a case suits its network's receivers: their number, their stalls, and
/// their coupled groups.
pub(super) fn check_case(key: &str, case: &Case, topology: Topology) -> Result<(), Only> {
    if case.receiver_hypervisor.is_some() && topology != Topology::Star {
        let key = format!("{key}.receiver_hypervisor");
        return Err(only(key, "a hypervisor of several receivers", &[Arm::Sim]));
    }
    check_coupling(key, case)?;
    check_size(key, case, topology)
}

/// Checks that all guests and receivers have addresses.
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
    let receivers = topology.receivers(hosts);
    let what = match topology {
        Topology::Star if guests > LIVE_GUESTS_MAX => {
            format!("a case of more than {LIVE_GUESTS_MAX} guests, here {guests},")
        }
        _ if guests.saturating_add(receivers) > LIVE_GUESTS_MAX + 1 => {
            let (sum, most) = (guests.saturating_add(receivers), LIVE_GUESTS_MAX + 1);
            format!("a case of more than {most} guests and receivers, here {sum},")
        }
        _ => return Ok(()),
    };
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
