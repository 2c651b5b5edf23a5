//! Shared windows in the programs' maps: sets the groups in which a port's flows share a window, and reads the groups'
//! state.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use libbpf_rs::{MapCore, MapFlags};
use uc_core::coupling::{Answer, GroupPolicy};
use uc_law::{PortCoupling, PortPlan};
use zerocopy::FromBytes;

use crate::batch::keys;
use crate::bytes::{number, value_at};
use crate::error::PortError;
use crate::flows::FlowView;
use crate::layout::{uc_group, uc_group_guest, uc_group_key, uc_member, uc_port_coupling};
use crate::programs::Programs;

/// A group of flows that share a window and that was used recently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Number of the group that the operator gave (`--group`).
    pub number: u32,
    /// Remote prefix of the group's flows, zeros after it.
    pub remote: IpAddr,
    /// The group's window: the sum of all shares, in bytes.
    pub window_bytes: u32,
    /// Number of flows that reported in this epoch or the last.
    pub flows: u32,
    /// Number of loss events that the group has answered.
    pub cuts: u32,
    /// Guests of the group, sorted by the interface index of their port.
    pub guests: Vec<GuestView>,
}

/// A guest of a group, with its share of the group's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestView {
    /// Interface index of the guest's port.
    pub ifindex: u32,
    /// Weight of the guest in the group, 1 to 255.
    pub weight: u32,
    /// Number of the guest's flows that reported in this epoch or the last.
    pub flows: u32,
    /// The guest's part of the group's window, in bytes.
    pub share_bytes: u64,
}

/// A flow that is a member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// The flow's part of the group's window, in bytes; 0 while the flow isn't counted.
    pub share_bytes: u64,
    /// Bytes in flight at the flow's last report.
    pub flight_bytes: u64,
    /// The group's answer to that report. Its state is the one that the flow reported.
    pub answer: Answer,
}

/// Returns the key of a TCP port in the map `priorities` of a port of the host.
fn priority_key(ifindex: u32, tcp_port: u16) -> Vec<u8> {
    [ifindex, tcp_port.into()].map(u32::to_ne_bytes).concat()
}

/// Returns the port's `struct uc_port_coupling`, as the programs read it.
fn bytes(coupling: &PortCoupling, ifindex: u32, version: u32) -> Vec<u8> {
    // Every field by name: one that is added has to be added here.
    let PortCoupling {
        group,
        prefix4,
        prefix6,
        weight,
        priority,
        priorities: _,
        rules,
    } = *coupling;
    let GroupPolicy {
        aggressiveness_q16,
        silence_us,
        window_max_bytes,
        burst_segments,
        shares,
        size,
    } = rules;
    let words = [aggressiveness_q16, silence_us, window_max_bytes].map(u32::to_ne_bytes);
    let group = match group {
        PortCoupling::OWN => PortCoupling::OWN | ifindex,
        group => group,
    };
    [
        &group.to_ne_bytes()[..],
        &[prefix4, prefix6, weight, priority],
        &words.concat(),
        &burst_segments.to_ne_bytes(),
        &[shares, size],
        &version.to_ne_bytes(),
    ]
    .concat()
}

/// Maximum time in ns between a listed group's last use and the latest use of any group.
const LISTED_NS: u64 = 10_000_000_000;

impl Programs {
    /// Sets, for flows that begin from now on, with which other flows they share windows. Weights apply to
    /// existing flows, too, from their next ACK on.
    pub(crate) fn set_couplings(&self, plans: &BTreeMap<u32, PortPlan>) -> Result<(), PortError> {
        let had = self.priorities()?;
        for (&ifindex, plan) in plans {
            let had = had.get(&ifindex).cloned().unwrap_or_default();
            match &plan.coupling {
                Some(coupling) => self.set_coupling(ifindex, coupling, &had)?,
                None => self.remove_coupling(ifindex, &had)?,
            }
        }
        Ok(())
    }

    /// Replaces a port's coupling in place: a flow that joins its group meanwhile finds the old or the new
    /// one.
    fn set_coupling(
        &self,
        ifindex: u32,
        coupling: &PortCoupling,
        had: &BTreeSet<u16>,
    ) -> Result<(), PortError> {
        let version = self.coupling_version(ifindex)?.wrapping_add(1);
        let failed =
            |error| PortError::from_libbpf(format!("set port {ifindex}'s coupling"), &error);
        for &(tcp_port, priority) in &coupling.priorities {
            self.maps
                .priorities
                .update(
                    &priority_key(ifindex, tcp_port),
                    &u32::from(priority).to_ne_bytes(),
                    MapFlags::ANY,
                )
                .map_err(failed)?;
        }
        self.maps
            .couplings
            .update(
                &ifindex.to_ne_bytes(),
                &bytes(coupling, ifindex, version),
                MapFlags::ANY,
            )
            .map_err(failed)?;
        let has = |port: &&u16| coupling.priorities.iter().any(|(has, _)| has == *port);
        for &tcp_port in had.iter().filter(|port| !has(port)) {
            self.delete(&self.maps.priorities, &priority_key(ifindex, tcp_port))?;
        }
        Ok(())
    }

    fn remove_coupling(&self, ifindex: u32, had: &BTreeSet<u16>) -> Result<(), PortError> {
        for &tcp_port in had {
            self.delete(&self.maps.priorities, &priority_key(ifindex, tcp_port))?;
        }
        self.delete(&self.maps.couplings, &ifindex.to_ne_bytes())
    }

    /// Removes a port's coupling and priorities from the maps.
    pub(crate) fn clear_coupling(&self, ifindex: u32) -> Result<(), PortError> {
        let had = self.priorities()?.remove(&ifindex).unwrap_or_default();
        self.remove_coupling(ifindex, &had)
    }

    /// Returns the port's coupling that is in force; `None`: the port has none.
    pub(crate) fn coupling(&self, ifindex: u32) -> Result<Option<PortCoupling>, PortError> {
        let Some(raw) = self.value::<uc_port_coupling>(&self.maps.couplings, ifindex)? else {
            return Ok(None);
        };
        let mut priorities = Vec::new();
        for tcp_port in self.priorities()?.remove(&ifindex).unwrap_or_default() {
            let value = self
                .maps
                .priorities
                .lookup(&priority_key(ifindex, tcp_port), MapFlags::ANY)
                .map_err(|error| PortError::from_libbpf("read the priorities", &error))?;
            let priority = value.and_then(|value| number(&value));
            priorities.extend(priority.map(|priority| (tcp_port, priority as u8)));
        }
        Ok(Some(PortCoupling {
            group: match raw.group {
                own if own == PortCoupling::OWN | ifindex => PortCoupling::OWN,
                group => group,
            },
            prefix4: raw.prefix4,
            prefix6: raw.prefix6,
            weight: raw.weight,
            priority: raw.priority,
            priorities,
            rules: raw.rules,
        }))
    }

    /// Returns the TCP ports that have a priority, by interface index.
    fn priorities(&self) -> Result<BTreeMap<u32, BTreeSet<u16>>, PortError> {
        let mut of_ports: BTreeMap<u32, BTreeSet<u16>> = BTreeMap::new();
        for key in keys(&self.maps.priorities, "read the priorities")? {
            let (Some(ifindex), Some(tcp_port)) =
                (key.get(..4).and_then(number), key.get(4..).and_then(number))
            else {
                continue;
            };
            of_ports.entry(ifindex).or_default().insert(tcp_port as u16);
        }
        Ok(of_ports)
    }

    /// Returns the version of the port's coupling, with which members notice that weights have changed; 0 without a
    /// coupling.
    fn coupling_version(&self, ifindex: u32) -> Result<u32, PortError> {
        let found = self.value::<uc_port_coupling>(&self.maps.couplings, ifindex)?;
        Ok(found.map_or(0, |coupling| coupling.version))
    }

    /// Removes the flow with this table index from its group.
    pub(crate) fn forget_member(&self, place: u32) -> Result<(), PortError> {
        self.delete(&self.maps.members, &place.to_ne_bytes())
    }

    fn delete(&self, map: &libbpf_rs::MapHandle, key: &[u8]) -> Result<(), PortError> {
        match map.delete(key) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => Err(
                PortError::from_libbpf("delete a port's coupling from the maps", &error),
            ),
            _ => Ok(()),
        }
    }

    /// Returns the groups that were used within 10 seconds of the latest use of any group.
    pub fn groups(&self) -> Result<Vec<GroupView>, PortError> {
        let guests: Vec<uc_group_guest> = self.values(&self.maps.guests)?;
        let groups: Vec<uc_group> = self.values(&self.maps.groups)?;
        let newest_ns = groups.iter().map(|group| group.used_ns).max().unwrap_or(0);
        let is_listed =
            |used_ns: u64| used_ns > 0 && newest_ns - used_ns.min(newest_ns) < LISTED_NS;
        let listed = groups.iter().filter(|group| is_listed(group.used_ns));
        let mut views: Vec<GroupView> = listed.map(|group| group_view(group, &guests)).collect();
        views.sort_by_key(|view| (view.number, view.remote));
        Ok(views)
    }

    /// Returns a flow's membership in its group; `None` if the flow is in no group.
    pub fn member(&self, flow: &FlowView) -> Result<Option<MemberView>, PortError> {
        let Some(member) = self.value::<uc_member>(&self.maps.members, flow.place)? else {
            return Ok(None);
        };
        let group = self.value::<uc_group>(&self.maps.groups, member.group)?;
        let guest = self.value::<uc_group_guest>(&self.maps.guests, member.guest)?;
        let (Some(group), Some(guest)) = (group, guest) else {
            return Ok(None);
        };
        let is_there = member.joined != 0
            && member.key == group.key
            && member.key == guest.key
            && guest.ifindex == flow.ifindex;
        Ok(is_there.then(|| MemberView {
            share_bytes: group.ccc.share_bytes(&guest.ccc, &member.flow),
            flight_bytes: member.flow.stake.held.flight_bytes,
            answer: Answer {
                cwnd_bytes: member.flow.given_bytes,
                ssthresh_bytes: member.flow.given_ssthresh_bytes,
                state: member.flow.state,
            },
        }))
    }

    fn values<T: FromBytes>(&self, map: &libbpf_rs::MapHandle) -> Result<Vec<T>, PortError> {
        let mut values = Vec::new();
        for place in 0..map.max_entries() {
            values.extend(self.value::<T>(map, place)?);
        }
        Ok(values)
    }

    fn value<T: FromBytes>(
        &self,
        map: &libbpf_rs::MapHandle,
        place: u32,
    ) -> Result<Option<T>, PortError> {
        value_at(map, place).map_err(|error| PortError::from_libbpf("read the groups", &error))
    }
}

fn group_view(group: &uc_group, guests: &[uc_group_guest]) -> GroupView {
    let counted = group.ccc.guests.counted.flows;
    let of_group = guests.iter().filter(|guest| guest.key == group.key);
    let mut guests: Vec<GuestView> = of_group
        .map(|guest| {
            let share_bytes = group.ccc.guest_share_bytes(&guest.ccc);
            GuestView {
                ifindex: guest.ifindex,
                weight: guest.ccc.weight,
                // A guest that is not counted, such as one whose port was detached, has the flows of its
                // last report.
                flows: match share_bytes {
                    0 => 0,
                    _ => guest.ccc.flows.counted.flows,
                },
                share_bytes,
            }
        })
        .collect();
    guests.sort_by_key(|guest| guest.ifindex);
    GroupView {
        number: group.key.group,
        remote: address(&group.key),
        window_bytes: group.ccc.window_bytes(),
        flows: counted,
        cuts: group.ccc.cuts,
        guests,
    }
}

fn address(key: &uc_group_key) -> IpAddr {
    let mut octets = [0; 16];
    for (bytes, word) in octets.chunks_exact_mut(4).zip(key.remote) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
}
