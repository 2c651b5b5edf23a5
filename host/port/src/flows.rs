//! The flow table, as user space sees it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use libbpf_rs::{MapCore, MapFlags};
use uc_core::Flow;

use crate::batch::for_each;
use crate::bytes::{number, read};
use crate::error::PortError;
use crate::layout::{uc_key, uc_slot};
use crate::programs::Programs;

/// One flow of the table.
#[derive(Clone, Debug)]
pub struct FlowView {
    /// Interface index of the port.
    pub ifindex: u32,
    /// The guest's end.
    pub guest: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The core's state, a copy.
    pub state: Flow,
    /// Index of the port's rule that opened it, from 0.
    pub rule: u16,
    /// The rule's number, as the operator sees it.
    pub rule_number: u16,
    /// The host's plan that the rule belongs to ([`Programs::plan_generation`]).
    pub generation: u32,
    pub(crate) place: u32,
}

impl FlowView {
    /// A flow in this state, without a place in any table.
    pub fn of(ifindex: u32, guest: SocketAddr, remote: SocketAddr, state: Flow) -> FlowView {
        FlowView {
            ifindex,
            guest,
            remote,
            state,
            rule: 0,
            rule_number: 0,
            generation: 0,
            place: u32::MAX,
        }
    }
}

const READ: &str = "read the flow table";

const KEY_BYTES: usize = size_of::<uc_key>();

/// A key as the map holds it. The struct has no padding, which the assertion below makes sure of.
fn key_bytes(ifindex: u32, guest: SocketAddr, remote: SocketAddr) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    bytes[0..4].copy_from_slice(&ifindex.to_ne_bytes());
    bytes[4..6].copy_from_slice(&guest.port().to_be_bytes());
    bytes[6..8].copy_from_slice(&remote.port().to_be_bytes());
    bytes[8..24].copy_from_slice(&mapped(guest.ip()).octets());
    bytes[24..40].copy_from_slice(&mapped(remote.ip()).octets());
    bytes
}

const _: () = {
    assert!(KEY_BYTES == 40);
    assert!(std::mem::offset_of!(uc_key, guest_port) == 4);
    assert!(std::mem::offset_of!(uc_key, remote_port) == 6);
    assert!(std::mem::offset_of!(uc_key, guest) == 8);
    assert!(std::mem::offset_of!(uc_key, remote) == 24);
};

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// The guest's end and the other one.
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

fn view(key: &[u8], value: &[u8]) -> Option<FlowView> {
    if key.len() != KEY_BYTES {
        return None;
    }
    let socket = |address: usize, port: usize| {
        let octets: [u8; 16] = key[address..address + 16].try_into().ok()?;
        let port = u16::from_be_bytes(key[port..port + 2].try_into().ok()?);
        Some(SocketAddr::new(
            IpAddr::V6(Ipv6Addr::from(octets)).to_canonical(),
            port,
        ))
    };
    let slot: uc_slot = read(value)?;
    Some(FlowView {
        ifindex: u32::from_ne_bytes(key[0..4].try_into().ok()?),
        guest: socket(8, 4)?,
        remote: socket(24, 6)?,
        state: slot.flow,
        rule: slot.rule.into(),
        rule_number: slot.rule_number,
        generation: slot.generation,
        place: slot.place,
    })
}

impl Programs {
    /// Reads all flows of all ports. A flow that begins or ends meanwhile may be missed.
    pub fn flows(&self) -> Result<Vec<FlowView>, PortError> {
        let mut flows = Vec::new();
        for_each(&self.maps.flows, READ, |key, value| {
            flows.extend(view(key, value));
        })?;
        Ok(flows)
    }

    /// Reads one flow; `None` if it isn't in the table.
    pub fn flow(
        &self,
        ifindex: u32,
        guest: SocketAddr,
        remote: SocketAddr,
    ) -> Result<Option<FlowView>, PortError> {
        let key = key_bytes(ifindex, guest, remote);
        let value = self
            .maps
            .flows
            .lookup(&key, MapFlags::ANY)
            .map_err(|error| PortError::from_libbpf(READ, &error))?;
        Ok(value.and_then(|value| view(&key, &value)))
    }

    /// Empties a port's part of the table. For tests and for a port that is detached for good.
    pub fn forget_flows(&self, ifindex: u32) -> Result<(), PortError> {
        self.forget_flows_of(&BTreeSet::from([ifindex]))
    }

    /// Removes the flows of several ports, in one walk through the table.
    pub(crate) fn forget_flows_of(&self, ports: &BTreeSet<u32>) -> Result<(), PortError> {
        let is_theirs = |key: &Vec<u8>| port_of(key).is_some_and(|port| ports.contains(&port));
        // reads all keys first: a walk starts again if the key that it has reached is deleted
        let keys: Vec<Vec<u8>> = self.maps.flows.keys().filter(is_theirs).collect();
        for key in keys {
            let value = self.maps.flows.lookup(&key, MapFlags::ANY);
            match self.maps.flows.delete(&key) {
                Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                    return Err(PortError::from_libbpf("empty the flow table", &error));
                }
                _ => {}
            }
            let slot = value
                .ok()
                .flatten()
                .and_then(|value| read::<uc_slot>(&value));
            if let Some(slot) = slot {
                self.forget_member(slot.place)?;
            }
        }
        ports.iter().try_for_each(|&port| self.set_flows(port, 0))
    }

    /// The ports that have flows.
    pub(crate) fn ports_of_flows(&self) -> BTreeSet<u32> {
        let keys = self.maps.flows.keys();
        keys.filter_map(|key| port_of(&key)).collect()
    }
}

fn port_of(key: &[u8]) -> Option<u32> {
    key.get(..4).and_then(number)
}
