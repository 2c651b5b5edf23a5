//! The flow table, as user space sees it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use libbpf_rs::{MapCore, MapFlags};
use uc_core::Flow;

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
    pub(crate) place: u32,
}

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

fn view(key: &[u8], value: &[u8]) -> Option<FlowView> {
    if key.len() != KEY_BYTES || value.len() < size_of::<uc_slot>() {
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
    // SAFETY: uc_slot is plain integers, so every bit pattern is a value; the length was checked,
    // and read_unaligned asks no alignment of the buffer.
    let slot = unsafe { value.as_ptr().cast::<uc_slot>().read_unaligned() };
    Some(FlowView {
        ifindex: u32::from_ne_bytes(key[0..4].try_into().ok()?),
        guest: socket(8, 4)?,
        remote: socket(24, 6)?,
        state: slot.flow,
        place: slot.place,
    })
}

impl Programs {
    /// All flows of all ports. A flow that comes or goes meanwhile may be missed.
    pub fn flows(&self) -> Result<Vec<FlowView>, PortError> {
        let mut flows = Vec::new();
        for key in self.flows.keys() {
            let value = self
                .flows
                .lookup(&key, MapFlags::ANY)
                .map_err(|error| PortError::from_libbpf("read the flow table", &error))?;
            flows.extend(value.and_then(|value| view(&key, &value)));
        }
        Ok(flows)
    }

    /// One flow.
    pub fn flow(
        &self,
        ifindex: u32,
        guest: SocketAddr,
        remote: SocketAddr,
    ) -> Result<Option<FlowView>, PortError> {
        let key = key_bytes(ifindex, guest, remote);
        let value = self
            .flows
            .lookup(&key, MapFlags::ANY)
            .map_err(|error| PortError::from_libbpf("read the flow table", &error))?;
        Ok(value.and_then(|value| view(&key, &value)))
    }

    /// Empties a port's part of the table. For tests and for a port that is detached for good.
    pub fn forget_flows(&self, ifindex: u32) -> Result<(), PortError> {
        for flow in self.flows()?.iter().filter(|flow| flow.ifindex == ifindex) {
            let gone = self
                .flows
                .delete(&key_bytes(ifindex, flow.guest, flow.remote));
            match gone {
                Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                    return Err(PortError::from_libbpf("empty the flow table", &error));
                }
                _ => self.forget_member(flow.place)?,
            }
        }
        Ok(())
    }
}
