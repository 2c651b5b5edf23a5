//! A path through a network, which a sender looks up once for all its packets.

use crate::topology::{HostId, LinkId};

/// The path of packets with one [path key](crate::Packet::path_key) from a host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Host at the end of the path.
    pub to: HostId,
    /// First link that a packet takes on the path.
    pub(crate) link: LinkId,
}
