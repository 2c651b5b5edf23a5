//! The key of a flow at a port, as the programs' maps have it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use zerocopy::IntoBytes;

use crate::layout::uc_key;

/// The key of a flow: interface index, guest's end and remote end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow(uc_key);

impl From<uc_key> for Flow {
    fn from(key: uc_key) -> Self {
        Self(key)
    }
}

impl Flow {
    /// Returns the untagged flow at the port with this index between these ends.
    pub fn of(ifindex: u32, guest: SocketAddr, remote: SocketAddr) -> Self {
        Self(uc_key {
            ifindex,
            guest_port: guest.port().to_be(),
            remote_port: remote.port().to_be(),
            guest: mapped(guest.ip()).octets(),
            remote: mapped(remote.ip()).octets(),
            vlan: 0,
        })
    }

    /// Returns the bytes of the flow's key in the BPF maps.
    pub fn key(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Returns the address as IPv6: IPv4 becomes IPv4-mapped (`::ffff:a.b.c.d`), as in the maps' keys.
fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}
