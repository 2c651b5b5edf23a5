//! The key of a flow at a port, as the programs' maps have it.

use std::net::SocketAddr;

use zerocopy::{FromBytes, IntoBytes};

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
        let key = uc_port::flow_key(ifindex, guest, remote);
        Self(uc_key::read_from_bytes(&key).expect("the same struct"))
    }

    /// Returns the bytes of the flow's key in the BPF maps.
    pub fn key(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
