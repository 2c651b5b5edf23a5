//! Notifications of an application.

/// One of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The guest, which opens the connection and sends the data.
    Guest,
    /// The end of the connection at the guest's peer.
    Receiver,
}

/// The index of a connection, reused once both its ends are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub(super) u32);

impl Slot {
    pub(super) fn end(self, side: Side) -> usize {
        2 * self.0 as usize + usize::from(side == Side::Receiver)
    }
}

/// An event that an application must handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The handshake is complete on this side.
    Established(Slot, Side),
    /// The bytes that [`want`](super::Hosts::want) waits for have come to this side.
    Reached(Slot, Side),
    /// Both sides are closed; the slot is free again after [`release`](super::Hosts::release).
    Closed(Slot),
    /// The time of [`wake`](super::Hosts::wake) for this flow has come.
    Wake(usize),
}
