//! The visible state and the counters of a connection.

use uc_net::Nanos;

/// A snapshot of a connection's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Congestion window (cwnd), in bytes.
    pub cwnd_bytes: u32,
    /// Slow-start threshold (ssthresh), in bytes.
    pub ssthresh_bytes: u32,
    /// Receive window that the peer advertised, scaled, in bytes.
    pub send_window_bytes: u32,
    /// Number of bytes that were sent and are not acknowledged.
    pub flight_bytes: u32,
    /// Payload of a full segment, without the options.
    pub smss_bytes: u32,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Nanos,
    /// Retransmission timeout, including its backoff.
    pub rto: Nanos,
    /// DCTCP's α in 1/1024; 0 for other laws.
    pub alpha_q10: u32,
    /// Whether both ends agreed on ECN.
    pub ecn: bool,
    /// Whether the connection is in fast recovery (RFC 6582, RFC 6675).
    pub in_recovery: bool,
    /// Whether the recovery after a timeout is under way: it lasts until the data that was in flight at the timeout is
    /// acknowledged.
    pub in_loss: bool,
}

/// Counters of a connection since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Payload delivered to the application in order.
    pub delivered_bytes: u64,
    /// Payload sent by this end and acknowledged.
    pub acknowledged_bytes: u64,
    /// Number of payload bytes sent, including retransmissions.
    pub sent_bytes: u64,
    /// Number of payload bytes that were retransmitted.
    pub retransmitted_bytes: u64,
    /// Segments retransmitted (payload, SYN or FIN).
    pub retransmits: u64,
    /// Number of retransmission timeouts that expired.
    pub timeouts: u64,
    /// Retransmission timeouts found spurious by F-RTO.
    pub spurious_timeouts: u64,
    /// Retransmission timeouts of data that had timed out already: the timer's second doubling and
    /// later ones.
    pub backoffs: u64,
    /// Number of times that fast recovery began.
    pub fast_recoveries: u64,
    /// Number of window reductions because of ECE.
    pub ecn_cuts: u64,
    /// Number of duplicate ACKs that were received.
    pub duplicate_acks: u64,
    /// Data segments received of which every byte had arrived before, as DSACK would report (RFC
    /// 2883). Each is answered with an ACK that acknowledges nothing new.
    pub needless_received: u64,
    /// Number of segments that were received with a CE mark.
    pub ce_received: u64,
}
