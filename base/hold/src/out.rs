//! What the platform sends.

/// A packet that is to be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out<P> {
    /// Towards the guest.
    ToGuest {
        /// The packet as it arrived, or an ACK made of one.
        packet: P,
        /// ACK number and window to write; `None`: the packet's own.
        ack: Option<AckEdit>,
        /// Whether to remove the SACK blocks, since the host repairs what they report (NOPs in
        /// place of the option).
        without_sack: bool,
    },
    /// Towards the network, as if the guest had sent it again: through the port's program, ECN
    /// codepoint Not-ECT (RFC 3168 §6.1.5), CWR cleared. Is not reported to [`crate::Hold::sent`].
    ToNetwork(P),
}

/// The ACK number and the window of a packet towards the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckEdit {
    /// ACK number, from 0 to the largest, as in the header.
    pub ack: u32,
    /// The window field, unscaled.
    pub window: u16,
}
