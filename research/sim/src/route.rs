//! The hosts, path and addresses of an end's packets.

use uc_net::{HostId, Path};

use crate::packet::Address;

/// The addresses and the flow number of an end's packets.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Host on which the end is.
    pub from: HostId,
    /// Path from the end's host to the peer's host.
    pub path: Path,
    /// Address of the end.
    pub address: Address,
    /// Number of the flow in the run's record.
    pub flow: u32,
    /// IP header size of the end's packets, in bytes.
    pub ip_header_bytes: u32,
}
