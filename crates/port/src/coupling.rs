//! Law `coupled`: whose window a port's flows share, and what the groups are like at the moment.

use std::net::{IpAddr, Ipv6Addr};

use libbpf_rs::{MapCore, MapFlags};
use uc_core::Policy;
use uc_core::coupling::{Answer, GroupPolicy};

use crate::error::PortError;
use crate::flows::FlowView;
use crate::layout::{uc_group, uc_group_guest, uc_group_key, uc_member};
use crate::programs::Programs;

/// Whose window a port's flows share. The port is one guest in each of its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortCoupling {
    /// Ports of different numbers share nothing.
    pub group: u32,
    /// Bits of an IPv4 remote address that name a group, 0 to 32.
    pub prefix4: u8,
    /// The same for IPv6, 0 to 128.
    pub prefix6: u8,
    /// The guest's weight among those of its groups, 1 to 255.
    pub weight: u8,
    /// A flow's among those of its guest, 1 to 255, where its TCP ports have none.
    pub priority: u8,
    /// TCP ports, at either end of a flow, whose flows have a priority of their own.
    pub priorities: Vec<(u16, u8)>,
    /// What a group is like that this port is the first to use.
    pub rules: GroupPolicy,
}

/// All that an operator says of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPolicy {
    /// Of each flow.
    pub flows: Policy,
    /// And whose window they share; without it flows of law `coupled` are not coupled.
    pub coupling: Option<PortCoupling>,
}

impl From<Policy> for PortPolicy {
    fn from(flows: Policy) -> PortPolicy {
        PortPolicy {
            flows,
            coupling: None,
        }
    }
}

impl Default for PortCoupling {
    /// One group for each remote host, and everybody equal in it.
    fn default() -> PortCoupling {
        PortCoupling {
            group: 0,
            prefix4: 32,
            prefix6: 128,
            weight: 1,
            priority: 1,
            priorities: Vec::new(),
            rules: GroupPolicy::default(),
        }
    }
}

/// A group that was used lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// The number that the operator gave.
    pub number: u32,
    /// Where its flows go; what the prefix doesn't count is zero.
    pub remote: IpAddr,
    /// The sum of all shares.
    pub window_bytes: u32,
    /// Flows that were heard lately.
    pub flows: u32,
    /// Loss events that it has answered.
    pub cuts: u32,
    /// Its guests, by port.
    pub guests: Vec<GuestView>,
}

/// A guest of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestView {
    /// Interface index of its port.
    pub ifindex: u32,
    /// Its weight.
    pub weight: u32,
    /// Those of its flows that were heard lately.
    pub flows: u32,
    /// Its part of the window.
    pub share_bytes: u64,
}

/// A flow in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Its part of the window; 0 while it isn't counted.
    pub share_bytes: u64,
    /// What it had in flight when it reported last.
    pub flight_bytes: u64,
    /// What it was told then; the state is the one that it reported.
    pub answer: Answer,
}

/// Groups that have been silent for two epochs have nobody left; those that were used within this
/// time are still listed.
const LISTED_NS: u64 = 10_000_000_000;

impl Programs {
    /// Sets whose window a port's flows share, of those that begin from now on.
    pub fn set_coupling(&self, ifindex: u32, coupling: &PortCoupling) -> Result<(), PortError> {
        let PortCoupling {
            group,
            prefix4,
            prefix6,
            weight,
            priority,
            ref priorities,
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
        let value = [
            &group.to_ne_bytes()[..],
            &[prefix4, prefix6, weight, priority],
            &words.concat(),
            &burst_segments.to_ne_bytes(),
            &[shares, size],
        ];
        let failed =
            |error| PortError::from_libbpf(format!("set port {ifindex}'s coupling"), &error);
        self.clear_coupling(ifindex)?;
        for &(tcp_port, priority) in priorities {
            let key = [ifindex, tcp_port.into()].map(u32::to_ne_bytes).concat();
            self.priorities
                .update(&key, &u32::from(priority).to_ne_bytes(), MapFlags::ANY)
                .map_err(failed)?;
        }
        self.couplings
            .update(&ifindex.to_ne_bytes(), &value.concat(), MapFlags::ANY)
            .map_err(failed)
    }

    /// Sets all that is said of a port; it holds for flows that begin from now on.
    pub fn set_port(&self, ifindex: u32, port: &PortPolicy) -> Result<(), PortError> {
        if let Some(coupling) = &port.coupling {
            self.set_coupling(ifindex, coupling)?;
        }
        self.set_policy(ifindex, &port.flows)
    }

    /// Takes all of that away.
    pub(crate) fn clear_coupling(&self, ifindex: u32) -> Result<(), PortError> {
        let own = ifindex.to_ne_bytes();
        let keys = self.priorities.keys();
        for key in keys.filter(|key| key.starts_with(&own)) {
            self.delete(&self.priorities, &key)?;
        }
        self.delete(&self.couplings, &own)
    }

    /// Forgets a flow as a member of its group.
    pub(crate) fn forget_member(&self, place: u32) -> Result<(), PortError> {
        self.delete(&self.members, &place.to_ne_bytes())
    }

    fn delete(&self, map: &libbpf_rs::MapHandle, key: &[u8]) -> Result<(), PortError> {
        match map.delete(key) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => Err(
                PortError::from_libbpf("forget what was coupled at a port", &error),
            ),
            _ => Ok(()),
        }
    }

    /// The groups that were used lately.
    pub fn groups(&self) -> Result<Vec<GroupView>, PortError> {
        let guests: Vec<uc_group_guest> = self.values(&self.guests)?;
        let groups: Vec<uc_group> = self.values(&self.groups)?;
        let newest_ns = groups.iter().map(|group| group.used_ns).max().unwrap_or(0);
        let is_listed =
            |used_ns: u64| used_ns > 0 && newest_ns - used_ns.min(newest_ns) < LISTED_NS;
        let listed = groups.iter().filter(|group| is_listed(group.used_ns));
        let mut views: Vec<GroupView> = listed.map(|group| group_view(group, &guests)).collect();
        views.sort_by_key(|view| (view.number, view.remote));
        Ok(views)
    }

    /// A flow in its group; none for one that has no group.
    pub fn member(&self, flow: &FlowView) -> Result<Option<MemberView>, PortError> {
        let Some(member) = self.value::<uc_member>(&self.members, flow.place)? else {
            return Ok(None);
        };
        let group = self.value::<uc_group>(&self.groups, member.group)?;
        let guest = self.value::<uc_group_guest>(&self.guests, member.guest)?;
        let (Some(group), Some(guest)) = (group, guest) else {
            return Ok(None);
        };
        let is_there = member.joined != 0
            && member.key == group.key
            && member.key == guest.key
            && guest.port == flow.ifindex;
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

    fn values<T: Plain>(&self, map: &libbpf_rs::MapHandle) -> Result<Vec<T>, PortError> {
        let mut values = Vec::new();
        for place in 0..map.max_entries() {
            values.extend(self.value::<T>(map, place)?);
        }
        Ok(values)
    }

    fn value<T: Plain>(
        &self,
        map: &libbpf_rs::MapHandle,
        place: u32,
    ) -> Result<Option<T>, PortError> {
        let value = map
            .lookup(&place.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| PortError::from_libbpf("read the groups", &error))?;
        Ok(value.and_then(|bytes| read(&bytes)))
    }
}

fn group_view(group: &uc_group, guests: &[uc_group_guest]) -> GroupView {
    let counted = group.ccc.guests.counted.flows;
    let of_group = guests.iter().filter(|guest| guest.key == group.key);
    let mut guests: Vec<GuestView> = of_group
        .map(|guest| GuestView {
            ifindex: guest.port,
            weight: guest.ccc.weight,
            flows: guest.ccc.flows.counted.flows,
            share_bytes: group.ccc.guest_share_bytes(&guest.ccc),
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

/// What bindgen made of structs of plain integers: every bit pattern is a value.
trait Plain {}

impl Plain for uc_group {}
impl Plain for uc_group_guest {}
impl Plain for uc_member {}

fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: T is plain integers and the length was checked; no alignment is asked of the buffer.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}
