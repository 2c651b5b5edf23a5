//! The flow table, read from user space.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use uc_core::{Annex, Flow};

use crate::batch::{first, keys};
use crate::bytes::{number, read, value_at};
use crate::error::PortError;
use crate::layout::{UC_SLOT_ANNEXED, uc_cursor, uc_key, uc_slot};
use crate::programs::Programs;

/// One flow of the flow table, as `uc flows` shows it.
#[derive(Clone, Debug)]
pub struct FlowView {
    /// Interface index of the flow's port.
    pub ifindex: u32,
    /// Address and port of the guest's end.
    pub guest: SocketAddr,
    /// Address and port of the other end.
    pub remote: SocketAddr,
    /// ID of the VLAN in which the port sees it; 0: in none.
    pub vlan: u16,
    /// A copy of the core's state of the flow.
    pub state: Flow,
    /// Index, from 0, of the rule by which the flow was opened, among the rules of its port's plan.
    pub rule: u16,
    /// Number of the flow's rule in the operator's file.
    pub rule_number: u16,
    /// Generation of the host's plan that had the rule ([`Programs::plan_generation`]).
    pub generation: u32,
    /// DSCP of the flow's SYN, and of the SYN that it stores.
    pub(crate) dscps: [u8; 2],
    pub(crate) place: u32,
}

impl FlowView {
    /// Creates an untagged flow with this state, without an index in any table.
    pub fn of(ifindex: u32, guest: SocketAddr, remote: SocketAddr, state: Flow) -> FlowView {
        FlowView {
            ifindex,
            guest,
            remote,
            vlan: 0,
            state,
            rule: 0,
            rule_number: 0,
            generation: 0,
            dscps: [0; 2],
            place: u32::MAX,
        }
    }
}

pub(crate) const READ: &str = "read the flow table";

/// Maximum number of searches for the flows of a port that is gone.
const SEARCHES: u32 = 3;

/// Offset of an annex in an entry of the flow table, in bytes.
pub(crate) const ANNEX_AT: usize = std::mem::offset_of!(uc_slot, flow);

const KEY_BYTES: usize = size_of::<uc_key>();

/// A key as the programs' maps have it.
pub(crate) type Key = [u8; KEY_BYTES];

/// Returns the key of an untagged flow, as the programs' maps have it (`struct uc_key` of `bpf/key.h`).
pub fn flow_key(ifindex: u32, guest: SocketAddr, remote: SocketAddr) -> Key {
    key_bytes(ifindex, guest, remote, 0)
}

/// Encodes a key as in the map. The struct has no padding, which the assertion below checks.
pub(crate) fn key_bytes(ifindex: u32, guest: SocketAddr, remote: SocketAddr, vlan: u16) -> Key {
    let mut bytes = [0; KEY_BYTES];
    bytes[0..4].copy_from_slice(&ifindex.to_ne_bytes());
    bytes[4..6].copy_from_slice(&guest.port().to_be_bytes());
    bytes[6..8].copy_from_slice(&remote.port().to_be_bytes());
    bytes[8..24].copy_from_slice(&mapped(guest.ip()).octets());
    bytes[24..40].copy_from_slice(&mapped(remote.ip()).octets());
    bytes[40..44].copy_from_slice(&u32::from(vlan).to_ne_bytes());
    bytes
}

pub(crate) fn key_of(flow: &FlowView) -> Key {
    key_bytes(flow.ifindex, flow.guest, flow.remote, flow.vlan)
}

const _: () = {
    assert!(KEY_BYTES == 44);
    assert!(std::mem::offset_of!(uc_key, guest_port) == 4);
    assert!(std::mem::offset_of!(uc_key, remote_port) == 6);
    assert!(std::mem::offset_of!(uc_key, guest) == 8);
    assert!(std::mem::offset_of!(uc_key, remote) == 24);
    assert!(std::mem::offset_of!(uc_key, vlan) == 40);
};

/// Returns an address as keys have it: IPv4 as ::ffff:a.b.c.d.
pub(crate) fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// Decodes the guest's end and the other end.
pub(crate) fn ends(key: &uc_key) -> (SocketAddr, SocketAddr) {
    let end = |octets: [u8; 16], port: u16| {
        SocketAddr::new(
            IpAddr::V6(Ipv6Addr::from(octets)).to_canonical(),
            u16::from_be(port),
        )
    };
    (
        end(key.guest, key.guest_port),
        end(key.remote, key.remote_port),
    )
}

/// Decodes the flow in the value of a table entry, whose index is `place`. Returns it with the index of its annex;
/// `None` in its place if it has no annex. Returns `None` if the entry has no flow. `in_force`: generation of the plan
/// in force.
fn view(place: u32, value: &[u8], in_force: u32) -> Option<(FlowView, Option<u32>)> {
    let slot: uc_slot = read(value)?;
    if slot.key.ifindex == 0 {
        return None;
    }
    let (guest, remote) = ends(&slot.key);
    let mut state = Flow::from(slot.flow);
    let annex_at = (u32::from(slot.bits) & UC_SLOT_ANNEXED != 0).then_some(state.annex_at);
    if annex_at.is_some() {
        state.annex_at = 0;
    }
    let flow = FlowView {
        ifindex: slot.key.ifindex,
        guest,
        remote,
        vlan: slot.key.vlan as u16,
        state,
        rule: slot.rule.into(),
        rule_number: slot.rule_number,
        generation: whole_generation(slot.generation, in_force),
        dscps: [slot.dscp, slot.kept_dscp],
        place,
    };
    Some((flow, annex_at))
}

/// Returns the generation nearest to the one in force that has these low 16 bits.
fn whole_generation(low: u16, in_force: u32) -> u32 {
    let ahead = low.wrapping_sub(in_force as u16) as i16;
    in_force.wrapping_add_signed(ahead.into())
}

/// Decodes an annex from the value of its table entry; `None` if a flow has taken the entry meanwhile.
fn annex_in(value: &[u8]) -> Option<Annex> {
    if read::<uc_slot>(value)?.key.ifindex != 0 {
        return None;
    }
    read(value.get(ANNEX_AT..ANNEX_AT + size_of::<Annex>())?)
}

impl Programs {
    /// Returns all flows of all ports. Flows added or removed meanwhile may be missed.
    pub fn flows(&self) -> Result<Vec<FlowView>, PortError> {
        let mut flows = Vec::new();
        self.each_flow(|flow| flows.push(flow))?;
        Ok(flows)
    }

    /// Calls `see` with each flow of all ports. Flows added or removed meanwhile may be missed.
    pub fn each_flow(&self, mut see: impl FnMut(FlowView)) -> Result<(), PortError> {
        let taken = self.cursor()?.fresh;
        let in_force = self.plan_generation()?;
        let mut result = Ok(());
        first(
            &self.maps.flows,
            taken,
            MapFlags::LOCK,
            READ,
            |place, value| {
                let Some(found) = view(place, value, in_force) else {
                    return;
                };
                match self.with_annex(found) {
                    Ok(flow) => see(flow),
                    Err(error) => result = Err(error),
                }
            },
        )?;
        result
    }

    /// Returns the number of entries of the flow table that are taken: a flow takes one, or two if it has an annex.
    pub fn places_taken(&self) -> Result<u32, PortError> {
        Ok(self.cursor()?.used)
    }

    fn cursor(&self) -> Result<uc_cursor, PortError> {
        let cursor = value_at(&self.maps.cursors, 0);
        let cursor = cursor.map_err(|error| PortError::from_libbpf(READ, &error))?;
        Ok(cursor.unwrap_or_default())
    }

    /// Reads the entry at this table index under its lock; `None` if the table has no such index. A free entry is
    /// read, too.
    pub(crate) fn read_place(&self, place: u32) -> Result<Option<Vec<u8>>, PortError> {
        let value = self.maps.flows.lookup(&place.to_ne_bytes(), MapFlags::LOCK);
        value.map_err(|error| PortError::from_libbpf(READ, &error))
    }

    /// Writes the entry at this table index under its lock. If the entry has a flow, `value` must have that flow's
    /// key.
    pub(crate) fn write_place(&self, place: u32, value: &[u8]) -> Result<(), PortError> {
        let flows = &self.maps.flows;
        let written = flows.update(&place.to_ne_bytes(), value, MapFlags::LOCK);
        written.map_err(|error| PortError::from_libbpf("write a flow", &error))
    }

    /// Returns the flow with its annex, if it has one.
    fn with_annex(&self, found: (FlowView, Option<u32>)) -> Result<FlowView, PortError> {
        let (mut flow, annex_at) = found;
        if let Some(place) = annex_at {
            let value = self.read_place(place)?;
            flow.state.annex = value.as_deref().and_then(annex_in).unwrap_or_default();
        }
        Ok(flow)
    }

    /// Returns one untagged flow; `None` if the table has none with these ends.
    pub fn flow(
        &self,
        ifindex: u32,
        guest: SocketAddr,
        remote: SocketAddr,
    ) -> Result<Option<FlowView>, PortError> {
        self.flow_of(&flow_key(ifindex, guest, remote))
    }

    /// Reads a flow again; `None` if it has left the table.
    pub fn again(&self, flow: &FlowView) -> Result<Option<FlowView>, PortError> {
        self.flow_of(&key_of(flow))
    }

    /// Returns the flow with this key (`struct uc_key` of `bpf/key.h`); `None` if the table has none.
    pub fn flow_of(&self, key: &[u8]) -> Result<Option<FlowView>, PortError> {
        let in_force = self.plan_generation()?;
        for place in self.places_of(key)? {
            let value = self.read_place(place)?;
            let has = |(flow, _): &(FlowView, _)| key_of(flow) == key;
            let found = value.and_then(|value| view(place, &value, in_force));
            if let Some(found) = found.filter(has) {
                return self.with_annex(found).map(Some);
            }
        }
        Ok(None)
    }

    /// Deletes a port's flows. For tests, and for a port that is detached for good.
    pub fn forget_flows(&self, ifindex: u32) -> Result<(), PortError> {
        self.forget_flows_of(&BTreeSet::from([ifindex]))
    }

    /// Deletes the flows of many ports by the programs' own search for stale flows: only the programs can tell whether
    /// a table entry still has the flow. Other searches at the same time may make this one miss some flows.
    pub(crate) fn forget_flows_of(&self, ports: &BTreeSet<u32>) -> Result<(), PortError> {
        let is_theirs = |key: &Vec<u8>| port_of(key).is_some_and(|port| ports.contains(&port));
        ports
            .iter()
            .try_for_each(|&port| self.forget_until_now(port))?;
        for _ in 0..SEARCHES {
            let mut places = Vec::new();
            self.each_flow(|flow| {
                places.extend(ports.contains(&flow.ifindex).then_some(flow.place))
            })?;
            if places.is_empty() {
                break;
            }
            places
                .into_iter()
                .try_for_each(|place| self.forget_member(place))?;
            self.collect_idle()?;
        }
        self.forget_keys_of(&self.maps.asked, "delete the SYNs of peers", &is_theirs)?;
        self.forget_keys_of(
            &self.maps.marked,
            "delete the entries of marked flows",
            &is_theirs,
        )
    }

    /// Deletes entries of a hash map whose keys are flows' keys.
    fn forget_keys_of(
        &self,
        map: &MapHandle,
        action: &str,
        is_theirs: &dyn Fn(&Vec<u8>) -> bool,
    ) -> Result<(), PortError> {
        for key in keys(map, action)?.into_iter().filter(is_theirs) {
            match map.delete(&key) {
                // the programs have deleted it meanwhile
                Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                    return Err(PortError::from_libbpf(action, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the interface indices of the ports that have flows in the table.
    pub(crate) fn ports_of_flows(&self) -> Result<BTreeSet<u32>, PortError> {
        let mut ports = BTreeSet::new();
        self.each_flow(|flow| {
            ports.insert(flow.ifindex);
        })?;
        Ok(ports)
    }
}

fn port_of(key: &[u8]) -> Option<u32> {
    key.get(..4).and_then(number)
}
