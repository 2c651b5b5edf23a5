//! Settings of a port's hold.

/// Which packets a port holds, and with how much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether ACKs towards the guest are spread over a round trip.
    pub pace: bool,
    /// Whether the guest's data is kept and retransmitted; `None`: it is not.
    pub buffer: Option<Buffer>,
    /// Maximum memory of the port's flows and packets, in bytes. What does not fit passes unheld.
    pub bytes_max: usize,
}

impl Settings {
    /// Default of [`Settings::bytes_max`]: the windows of a hundred flows, each at 10 Gb/s and a
    /// round trip of 0.5 ms.
    pub const BYTES_MAX: usize = 64 << 20;
}

/// How the guest's data is kept for retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Minimum RTO of the host's retransmissions, in ns; at least 1.
    pub least_timeout_ns: u64,
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer {
            least_timeout_ns: 10_000_000,
        }
    }
}
