//! The configuration of guests.

use std::path::PathBuf;

/// The place of a guest's channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Socket to connect to, where another process listens, as QEMU does for a virtio-serial port.
    Connect(PathBuf),
    /// Socket to create, for guests that connect themselves: containers.
    Listen(PathBuf),
}

/// The configuration of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestSetup {
    /// Name of the guest, as the operator calls it.
    pub name: String,
    /// Path of the guest's channel, and who creates the socket.
    pub place: Place,
    /// Weight among the guests.
    pub weight: u8,
}
