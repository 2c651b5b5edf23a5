//! What must hold at the end of a story: the host has exactly the ports, plans, pins and map entries that the policy
//! wants.

use std::collections::BTreeSet;

use uc_faults::{BPFFS, World, inside};
use uc_policy::Policy;
use uc_port::Store;

use super::policy::Intent;
use crate::desired::desired;
use crate::guests::Guests;
use crate::links::Link;
use crate::withdrawn::Withdrawn;

/// Compares the host with the policy.
pub fn is_as_wanted(world: &mut World, intent: &Intent) -> Result<(), String> {
    let each = world.interfaces.iter();
    let wanted = each.filter(|(_, own)| intent.ports.contains(&own.name));
    let wanted: BTreeSet<u32> = wanted.map(|(index, _)| *index).collect();
    let (whole, half) = world.bpf.attached();
    if (&whole, half.is_empty()) != (&wanted, true) {
        return Err(format!(
            "attached {whole:?}, half attached {half:?}, wanted {wanted:?}"
        ));
    }
    let flows = world.flows.clone();
    let faults = wanted
        .iter()
        .filter_map(|port| world.bpf.fault_of(*port, &flows));
    if let Some(fault) = faults.into_iter().next() {
        return Err(fault);
    }
    has_only(world, &wanted)?;
    match wanted.is_empty() {
        true => Ok(()),
        false => has_plans(world, intent),
    }
}

/// Checks that there are only pins of one version and of the ports, and only map entries of the ports.
fn has_only(world: &World, wanted: &BTreeSet<u32>) -> Result<(), String> {
    let store = format!("{BPFFS}/undercurrent");
    let Some(names) = world.files.names(&store) else {
        return wanted
            .is_empty()
            .then_some(())
            .ok_or("nothing is pinned".to_owned());
    };
    let of = |first: &str| names.iter().filter(|name| name.starts_with(first)).count();
    let counts = [of("programs-"), of("maps-"), of("port-")];
    if wanted.is_empty() || counts != [1, 1, 2 * wanted.len()] || names.len() != 2 + counts[2] {
        return Err(format!("pins are left over, or missing: {names:?}"));
    }
    for (path, object) in world.files.pins() {
        let is_of_ports = [
            "flows",
            "asked",
            "marked",
            "ports",
            "couplings",
            "priorities",
        ];
        let name = path.rsplit('/').next().unwrap_or_default();
        if path.contains("/maps-") && is_of_ports.contains(&name) {
            let has = world.bpf.ports_in(object);
            let is_whole = name != "ports" || has == *wanted;
            if !has.is_subset(wanted) || !is_whole {
                return Err(format!("map {name} has ports {has:?}, wanted {wanted:?}"));
            }
        }
    }
    Ok(())
}

/// Checks that each port has the plan that the policy gives it.
fn has_plans(world: &mut World, intent: &Intent) -> Result<(), String> {
    let policy = Policy::parse_fleet("policy", &intent.text());
    let policy = policy.map_err(|error| error.to_string())?;
    let links: Vec<Link> = world
        .interfaces
        .iter()
        .map(|(index, own)| Link {
            ifindex: *index,
            name: own.name.clone(),
            ..Link::default()
        })
        .collect();
    inside(world, || {
        let withdrawn = Withdrawn::read("/nowhere".as_ref()).map_err(|error| error.to_string())?;
        let desired = desired(&policy, &links, &Guests::default(), &withdrawn);
        let programs = Store::default().open().map_err(|error| error.to_string())?;
        let programs = programs.ok_or("no programs are pinned")?;
        for (index, port) in &desired {
            let plan = programs.plan(*index).map_err(|error| error.to_string())?;
            if plan.as_ref() != Some(&port.plan) {
                return Err(format!("port {index} has {plan:?}, wanted {:?}", port.plan));
            }
        }
        Ok(())
    })
}
