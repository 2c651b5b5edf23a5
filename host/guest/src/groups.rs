//! The groups of coupled connections in this kernel: which connections share which window, and by what weights.

use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use uc_core::coupling::across::RTO_MIN_NS;
use zerocopy::{FromBytes, IntoBytes};

use crate::clock::now_ns;
use crate::error::GuestError;
use crate::layout::{
    uc_ctrl_group, uc_ctrl_group_key, uc_ctrl_guest, uc_ctrl_guest_key, uc_ctrl_policy,
    uc_ctrl_weight_key,
};

/// Names of the maps, both in the object and as pins.
const GROUPS: &str = "groups";
const GUESTS: &str = "guests";
const WEIGHTS: &str = "weights";
const POLICIES: &str = "policies";
const TOLD: &str = "told";

/// The maps of one loaded pair of `ctrltcp` congestion controls.
#[derive(Debug)]
pub struct Groups {
    pub(crate) groups: MapHandle,
    pub(crate) told: MapHandle,
    guests: MapHandle,
    weights: MapHandle,
    policies: MapHandle,
}

/// A group: connections to the same remote prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupState {
    /// Remote prefix of the group's connections, with zeros after it.
    pub remote: IpAddr,
    /// Cookie of the network namespace that has this group to itself; `None` if namespaces share the group.
    pub netns: Option<u64>,
    /// Window that all connections of the group share, in bytes.
    pub window_bytes: u32,
    /// Whether the window is the part that a host gives this guest's group, by an answer of at most one RTO ago.
    pub by_host: bool,
    /// Number of connections of the group, including idle ones.
    pub connections: u32,
    /// Number of the group's flows that reported in this epoch or the last.
    pub flows: u32,
    /// Number of loss events to which the group has responded.
    pub cuts: u32,
    /// The group's guests, sorted by network namespace cookie.
    pub guests: Vec<GuestState>,
}

/// A guest of a group: the connections of one network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestState {
    /// Cookie of the guest's network namespace (`SO_NETNS_COOKIE`).
    pub netns: u64,
    /// Weight of the guest in the group.
    pub weight: u32,
    /// Number of the guest's connections in the group, including idle ones.
    pub connections: u32,
    /// Number of the guest's flows that reported in this epoch or the last.
    pub flows: u32,
    /// The guest's part of the group's window, in bytes.
    pub share_bytes: u64,
}

impl Groups {
    pub(crate) fn of(
        map: impl Fn(&str) -> Result<MapHandle, GuestError>,
    ) -> Result<Self, GuestError> {
        Ok(Self {
            groups: map(GROUPS)?,
            told: map(TOLD)?,
            guests: map(GUESTS)?,
            weights: map(WEIGHTS)?,
            policies: map(POLICIES)?,
        })
    }

    pub(crate) fn pinned(folder: &Path) -> Result<Self, GuestError> {
        Self::of(|name| {
            let path = folder.join(name);
            MapHandle::from_pinned_path(&path).map_err(|error| {
                GuestError::from_libbpf(format!("open {}", path.display()), &error)
            })
        })
    }

    pub(crate) fn pin(&mut self, folder: &Path) -> Result<(), GuestError> {
        for (map, name) in [
            (&mut self.groups, GROUPS),
            (&mut self.guests, GUESTS),
            (&mut self.weights, WEIGHTS),
            (&mut self.policies, POLICIES),
            (&mut self.told, TOLD),
        ] {
            let path = folder.join(name);
            map.pin(&path).map_err(|error| {
                GuestError::from_libbpf(format!("pin {}", path.display()), &error)
            })?;
        }
        Ok(())
    }

    /// Reads all groups, sorted by remote address. A group's own values are read at one moment, those of its guests may
    /// be newer.
    pub fn list(&self) -> Result<Vec<GroupState>, GuestError> {
        let failed = |error| GuestError::from_libbpf("read the groups", &error);
        let mut list = Vec::new();
        for key in self.groups.keys() {
            let found = self.groups.lookup(&key, MapFlags::LOCK).map_err(failed)?;
            let (Some(key), Some(group)) = (from_bytes(&key), found.and_then(|v| from_bytes(&v)))
            else {
                continue; // it has gone meanwhile
            };
            list.push((key, group));
        }
        let mut guests = Vec::new();
        for key in self.guests.keys() {
            let found = self.guests.lookup(&key, MapFlags::ANY).map_err(failed)?;
            if let (Some(key), Some(guest)) = (from_bytes(&key), found.and_then(|v| from_bytes(&v)))
            {
                guests.push((key, guest));
            }
        }
        let mut groups: Vec<_> = list
            .iter()
            .map(|(key, group)| group_state(key, group, &guests))
            .collect();
        groups.sort_by_key(|group| (group.remote, group.netns));
        Ok(groups)
    }

    /// Gives a network namespace this weight in every group, 1 to 255, also for existing connections. A namespace that
    /// was given none has weight 1.
    ///
    /// # Errors
    /// [`GuestError::BadWeight`] for 0, or the kernel's.
    pub fn set_weight(&self, netns: u64, weight: u8) -> Result<(), GuestError> {
        self.set(netns, 0, weight)
    }

    /// Gives the flows of a network namespace that have this TCP port at either end a priority, 1 to 255, relative to
    /// its other flows.
    ///
    /// # Errors
    /// [`GuestError::BadWeight`] for port or priority 0, or the kernel's.
    pub fn set_priority(&self, netns: u64, port: u16, priority: u8) -> Result<(), GuestError> {
        if port == 0 {
            return Err(GuestError::BadWeight { number: 0 });
        }
        self.set(netns, port, priority)
    }

    fn set(&self, netns: u64, port: u16, weight: u8) -> Result<(), GuestError> {
        if weight == 0 {
            return Err(GuestError::BadWeight { number: weight });
        }
        let failed = |error| GuestError::from_libbpf("set a weight", &error);
        let key = uc_ctrl_weight_key {
            netns,
            port: port.into(),
            pad: 0,
        };
        let value = u32::from(weight).to_ne_bytes();
        self.weights
            .update(key.as_bytes(), &value, MapFlags::ANY)
            .map_err(failed)?;
        // Connections look again when the number is another.
        let found = self.policies.lookup(&[0; 4], MapFlags::ANY);
        let found = found.map_err(failed)?;
        if let Some(mut policy) = found.and_then(|bytes| from_bytes::<uc_ctrl_policy>(&bytes)) {
            policy.weights_version = policy.weights_version.wrapping_add(1);
            self.policies
                .update(&[0; 4], policy.as_bytes(), MapFlags::ANY)
                .map_err(failed)?;
        }
        Ok(())
    }
}

fn group_state(
    key: &uc_ctrl_group_key,
    group: &uc_ctrl_group,
    guests: &[(uc_ctrl_guest_key, uc_ctrl_guest)],
) -> GroupState {
    let all = &group.ccc.guests.counted;
    let window_bytes = (group.ccc.window_q16 >> 16) as u32;
    let of_group = guests.iter().filter(|(guest, _)| guest.group == *key);
    let mut guests: Vec<_> = of_group
        .map(|(key, guest)| {
            let counts = guest.ccc.stake.epoch + 1 >= group.ccc.guests.epoch;
            let weight = if counts {
                guest.ccc.stake.held.weight
            } else {
                0
            };
            let whole = u128::from(window_bytes) * u128::from(weight);
            let share = whole / u128::from(all.weight.max(weight).max(1));
            GuestState {
                netns: key.netns,
                weight: guest.ccc.weight.max(1),
                connections: guest.members,
                flows: if counts {
                    guest.ccc.flows.counted.flows
                } else {
                    0
                },
                share_bytes: share as u64,
            }
        })
        .collect();
    guests.sort_by_key(|guest| guest.netns);
    GroupState {
        remote: Ipv6Addr::from(key.remote).to_canonical(),
        netns: Some(key.netns).filter(|&netns| netns != 0),
        window_bytes,
        by_host: follows_host(group),
        connections: group.members,
        flows: all.flows,
        cuts: group.ccc.cuts,
        guests,
    }
}

/// Returns whether the group follows a host's answer, by the programs' rule: an answer is valid for one round trip plus
/// the minimum RTO.
fn follows_host(group: &uc_ctrl_group) -> bool {
    let srtt_us = u64::from(group.ccc.srtt_max_us.max(group.ccc.srtt_was_us)) / 8;
    let until_ns = group.host.taken_ns + srtt_us * 1000 + RTO_MIN_NS;
    group.host.taken_ns > 0 && now_ns() <= until_ns
}

/// Reads a map's key or value, in the program's own layout; `None` if it has another size.
pub(crate) fn from_bytes<T: FromBytes>(bytes: &[u8]) -> Option<T> {
    T::read_from_bytes(bytes).ok()
}
