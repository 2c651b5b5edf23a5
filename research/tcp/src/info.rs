//! What a connection shows of itself, and what it counts.

use uc_net::Nanos;

/// What a connection shows of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Congestion window.
    pub cwnd_bytes: u32,
    /// Slow-start threshold.
    pub ssthresh_bytes: u32,
    /// The peer's receive window, scaled.
    pub send_window_bytes: u32,
    /// Sent and not acknowledged.
    pub flight_bytes: u32,
    /// Payload of a full segment, options taken off.
    pub smss_bytes: u32,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Nanos,
    /// The retransmission timeout, backed off.
    pub rto: Nanos,
    /// DCTCP's α in 1/1024; 0 for others.
    pub alpha_q10: u32,
    /// Whether both ends agreed on ECN.
    pub ecn: bool,
    /// In fast recovery (RFC 6582, RFC 6675).
    pub in_recovery: bool,
    /// After a timeout, until what was in flight then is acknowledged.
    pub in_loss: bool,
}

/// What a connection counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Payload handed to the application in order.
    pub delivered_bytes: u64,
    /// Payload of ours acknowledged.
    pub acknowledged_bytes: u64,
    /// Payload sent, retransmissions included.
    pub sent_bytes: u64,
    /// Payload sent again.
    pub retransmitted_bytes: u64,
    /// Segments sent again (payload, SYN or FIN).
    pub retransmits: u64,
    /// Retransmission timeouts that fired.
    pub timeouts: u64,
    /// Of these, found spurious by F-RTO.
    pub spurious_timeouts: u64,
    /// Of all timeouts, those of data that had timed out already: the timer's second doubling and
    /// those after it.
    pub backoffs: u64,
    /// Entries into fast recovery.
    pub fast_recoveries: u64,
    /// Reductions on ECE.
    pub ecn_cuts: u64,
    /// Duplicate ACKs received.
    pub duplicate_acks: u64,
    /// Data segments received of which everything had come before: what DSACK would report
    /// (RFC 2883). Each is answered with an ACK that acknowledges nothing new.
    pub needless_received: u64,
    /// CE-marked segments received.
    pub ce_received: u64,
}
