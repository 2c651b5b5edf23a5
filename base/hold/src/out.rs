//! The packets that the platform is to send.

/// A packet that is to be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out<P> {
    /// A packet to send to the guest.
    ToGuest {
        /// The packet as it arrived, or an ACK made of one.
        packet: P,
        /// ACK number and window to write; `None`: the packet's own.
        ack: Option<AckEdit>,
        /// Whether to overwrite the SACK blocks with NOPs, because the host itself repairs the losses that
        /// they report.
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
    /// The ACK number to write into the header.
    pub ack: u32,
    /// The window field to write into the header, unscaled.
    pub window: u16,
}
