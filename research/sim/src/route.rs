//! Where the packets of an end come from and go to.

use uc_net::{HostId, Path};

use crate::packet::Address;

/// The addresses and the flow number of an end's packets.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Host of the end.
    pub from: HostId,
    /// Path to the peer's host.
    pub path: Path,
    /// Address of the end itself.
    pub address: Address,
    /// Flow number in the record.
    pub flow: u32,
    /// IP header size of the end's packets, in bytes.
    pub ip_header_bytes: u32,
}
