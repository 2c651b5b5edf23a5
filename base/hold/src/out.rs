//! The packets that the platform is to send.

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
    /// A retransmission towards the network. The platform sends it through the port's program as if
    /// the guest had sent it, with ECN codepoint Not-ECT (RFC 3168 §6.1.5) and CWR cleared. It does
    /// not report the retransmission to [`crate::Hold::sent`].
    ToNetwork(P),
}

/// The ACK number and the window of a packet towards the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckEdit {
    /// ACK number, as in the header.
    pub ack: u32,
    /// The window field, unscaled.
    pub window: u16,
}
