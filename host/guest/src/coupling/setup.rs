//! The configuration of guests.

use std::path::PathBuf;

/// The Unix socket through which the host reaches a guest's channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Socket to connect to, where another process listens, as QEMU does for a virtio-serial port.
    Connect(PathBuf),
    /// Socket to create, for guests that connect themselves: containers.
    Listen(PathBuf),
}

/// The settings of a guest that is coupled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestSetup {
    /// Name by which the operator calls the guest.
    pub name: String,
    /// Path of the guest's channel, and who creates the socket.
    pub place: Place,
    /// Weight of the guest relative to the other guests of a group, 1 to 255.
    pub weight: u8,
}
