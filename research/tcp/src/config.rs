//! Settings of one end of a connection.

use uc_net::Nanos;

/// Maximum that a host that ignores the receive window sends beyond SND.UNA, in bytes.
pub const IGNORED_WINDOW_BYTES: u32 = 64 << 20;

/// The settings of an endpoint. The default is a host that follows the RFCs as of today; the
/// papers' hosts differ by named fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The algorithm that grows and reduces the congestion window.
    pub congestion_control: CongestionControl,
    /// Whether the host requests ECN and grants it (RFC 3168; DCTCP implies it).
    pub ecn: bool,
    /// Whether the host grants ECN to a peer that requests ECN, without requesting ECN itself; `ecn` implies this.
    pub grants_ecn: bool,
    /// Offers and uses SACK (RFC 2018, RFC 6675).
    pub sack: bool,
    /// Reports duplicate data in the first SACK block (RFC 2883).
    pub dsack: bool,
    /// Maximum number of SACK blocks in a segment without timestamps, 3 or 4 (RFC 2018 §3). With
    /// timestamps three fit.
    pub sack_blocks: u8,
    /// Offers and uses timestamps (RFC 7323).
    pub timestamps: bool,
    /// Announced MSS in bytes, options not counted (RFC 6691): 1,460 over IPv4 and Ethernet.
    pub mss_bytes: u16,
    /// Announced window scale, 0 to 14; `None` omits the option.
    pub wscale: Option<u8>,
    /// Receive buffer in bytes. The advertised window is the free part of the buffer.
    pub receive_buffer_bytes: u32,
    /// Initial window in segments, 1 to 20 (RFC 5681: 2 to 4, RFC 6928: 10).
    pub initial_window_segments: u8,
    /// Initial ssthresh in bytes (RFC 5681 §3.1: arbitrarily high).
    pub initial_ssthresh_bytes: u32,
    /// Retransmission timeout before the first sample (RFC 6298 (2.1): 1 s).
    pub rto_initial: Nanos,
    /// Minimum retransmission timeout (RFC 6298 (2.4)).
    pub rto_min: Nanos,
    /// The term of the timeout to which the minimum applies.
    pub rto_min_of: RtoMin,
    /// Maximum retransmission timeout (RFC 6298 (2.5)).
    pub rto_max: Nanos,
    /// Clock granularity G of the timeout (RFC 6298 (2.3)).
    pub rto_granularity: Nanos,
    /// The response to timeouts that F-RTO finds spurious (RFC 5682).
    pub spurious_timeout: SpuriousTimeout,
    /// Maximum delay of an ACK that waits for a second segment (RFC 5681 §4.2: < 500 ms); `None`
    /// acknowledges each segment at once.
    pub delayed_ack: Option<Nanos>,
    /// Whether some ACKs do not wait, as in Linux 6.18 (`net/ipv4/tcp_input.c`): those of the first
    /// 16 segments, of two from each CE that begins an echo on, and of a segment with CWR.
    pub quick_acks: bool,
    /// Full segments in order that one ACK covers (RFC 5681 §4.2: 2). More make stretch ACKs (RFC 2525
    /// §2.13). With [`Config::delayed_ack`] only.
    pub ack_segments: u8,
    /// Merging of segments that arrive close together, before TCP sees them (GRO); `None`: TCP sees each segment.
    pub coalescing: Option<Coalescing>,
    /// Longest wait of the fourth and later duplicate ACKs of a gap. One of these ACKs then answers up to 44 segments
    /// (`tcp_comp_sack_delay_ns` of Linux); `None`: each is sent at once. With SACK only.
    pub compressed_sacks: Option<Nanos>,
    /// Lets data segments carry SACK blocks and duplicate ACKs, as in Linux: their payload is smaller by
    /// the blocks. Otherwise a full segment has none, and a duplicate ACK has no payload (RFC 5681 §2
    /// (b)). With SACK only.
    pub sack_on_data: bool,
    /// Window in bytes that the receiver advertises at first. Each segment that arrives, even out of order, then opens
    /// the window, up to a bound that doubles as the application reads (autotuning of Linux). `None`: the window is the
    /// whole buffer from the start.
    pub autotune_from_bytes: Option<u32>,
    /// The receiver's choices where the RFCs leave a choice.
    pub receiving: Receiving,
    /// Whether a reset anywhere in the receive window ends the connection (RFC 793). If false, only a reset at exactly
    /// RCV.NXT does, and others are challenged (RFC 5961 §3).
    pub reset_in_window: bool,
    /// Lets a SYN in the receive window reset the connection (RFC 793) instead of being challenged
    /// (RFC 5961 §4).
    pub syn_in_window: bool,
    /// Answers and drops a segment without payload that lies outside of the receive window (RFC 9293
    /// §3.10.7.4). Otherwise its ACK is used wherever it lies: being overtaken does not make it
    /// wrong.
    pub drops_old_acks: bool,
    /// Sends new data on the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: bool,
    /// Whether a timeout in fast recovery keeps ssthresh. RFC 5681 §3.1 sets ssthresh to half of the data in flight. In
    /// a recovery that is stuck, more data is in flight than ever fitted the path, so slow start then overruns the path
    /// again and again.
    pub timeout_keeps_ssthresh: bool,
    /// Whether every ACK that acknowledges nothing new counts as a duplicate, even if its window changed. RFC 5681 §2
    /// (e) requires the same window; with that rule, a host whose windows a port changes misses some duplicates.
    pub any_window_duplicates: bool,
    /// Whether a segment that acknowledges more sets the send window, whatever its sequence number, as in Linux. If
    /// false, a segment older than the last one that set the window does not (RFC 9293 §3.10.7.4), such as a
    /// retransmission of the peer.
    pub new_acks_set_window: bool,
    /// Holds a segment smaller than the MSS back while data is in flight (RFC 9293 §3.7.4).
    pub nagle: bool,
    /// Whether the congestion window grows only while it limits the sender (RFC 9002 §7.8; Linux since 3.16).
    pub cwnd_validation: bool,
    /// Restarts from the restart window after an idle RTO (RFC 5681 §4.1).
    pub restart_after_idle: bool,
    /// Whether the last ACK of the handshake has no data, as from a program that writes after connecting; if false,
    /// that ACK carries data written before.
    pub acknowledges_before_data: bool,
    /// How the window goes down to ssthresh after a loss or a mark.
    pub reduction: Reduction,
    /// Sends by its congestion window alone, up to [64 MiB](crate::config::IGNORED_WINDOW_BYTES),
    /// whatever receive window is advertised: a host that breaks RFC 9293 §3.8.6, for tests of
    /// hosts and guards that meet one.
    pub ignores_receive_window: bool,
}

/// The congestion control of a native endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// NewReno: RFC 5681 and RFC 6582 (RFC 6675 with SACK).
    NewReno,
    /// NewReno whose window is counted by ACKs as in RFC 5681 equation (3), with fractions; see
    /// [`NewReno::by_acks`](crate::congestion::NewReno::by_acks).
    NewRenoByAcks,
    /// CUBIC of RFC 9438.
    Cubic,
    /// DCTCP of RFC 8257.
    Dctcp {
        /// Exponent of the estimator's gain g = 2^−shift (RFC 8257 §4.2: 4).
        gain_shift: u8,
        /// Initial α, in 1/1024 (RFC 8257 §4.2: 1024).
        initial_alpha_q10: u16,
    },
    /// HighSpeed TCP of RFC 3649.
    HighSpeed,
    /// TCP Vegas (Brakmo and Peterson 1995).
    Vegas,
    /// TCP-Illinois (Liu, Başar and Srikant 2006).
    Illinois,
}

/// The term of the retransmission timeout to which the minimum applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoMin {
    /// The sum of SRTT and variation (RFC 6298 (2.4)).
    Sum,
    /// The variation alone, as in Linux: the timeout is SRTT + max(minimum, 4·RTTVAR), so a queue's
    /// delay adds to the minimum.
    Variation,
}

/// How the window goes down to ssthresh after a loss or a mark. After a timeout the window collapses at once in either
/// case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The window jumps at once (RFC 5681 §3.2, RFC 3168 §6.1.2).
    Jump,
    /// The window walks down while a round trip is acknowledged (RFC 9937), as in Linux also after a mark. Until then
    /// the window neither grows nor is reduced again.
    Proportional,
}

/// A receiver's choices where the RFCs leave a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiving {
    /// The right edge moves by a segment or half of the buffer (RFC 9293 §3.8.6.2.2). Every second
    /// full-sized segment is acknowledged at once (RFC 5681 §4.2).
    Rfc,
    /// The choices of 4.4BSD. The right edge moves with every segment sent; a move by a quarter of the buffer is worth
    /// a segment of its own. Every second segment is acknowledged at once, whatever its size. The buffer is rounded up
    /// to whole segments. Data that the buffer can hold is accepted, even beyond the advertised window. ACKs repeat a
    /// FIN that is not acknowledged.
    Bsd,
}

/// The merging of segments that arrive close together (GRO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// Maximum number of segments that become one.
    pub segments: u8,
    /// Longest time that the first of the segments waits for others.
    pub within: Nanos,
}

/// The use of a round-trip time sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RttSample {
    /// The estimator takes the sample (RFC 6298 (2.2) and (2.3)).
    #[default]
    Measured,
    /// The estimator takes SRTT in place of the sample, or nothing before the first sample.
    Smoothed,
    /// The estimator takes nothing; the sample still ends the backoff.
    Ignored,
}

/// The response to a timeout that F-RTO finds spurious.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpuriousTimeout {
    /// F-RTO is off: spurious timeouts are not detected.
    Ignored,
    /// Retransmission stops and the reduction stays (RFC 5682 §3.4 leaves the response open).
    Halve,
    /// A timeout that proves spurious is undone: ssthresh returns to its value before it, and cwnd
    /// becomes the data in flight plus what the ACK acknowledged, of that at most an initial
    /// window (RFC 4015 §3.2).
    Undo,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            congestion_control: CongestionControl::NewReno,
            ecn: false,
            grants_ecn: false,
            sack: true,
            dsack: false,
            sack_blocks: 3,
            timestamps: true,
            mss_bytes: 1460,
            wscale: Some(7),
            receive_buffer_bytes: 6 << 20,
            initial_window_segments: 10,
            initial_ssthresh_bytes: u32::MAX >> 1,
            rto_initial: Nanos::from_secs(1),
            rto_min: Nanos::from_millis(200),
            rto_min_of: RtoMin::Sum,
            rto_max: Nanos::from_secs(120),
            rto_granularity: Nanos::from_millis(1),
            spurious_timeout: SpuriousTimeout::Undo,
            delayed_ack: Some(Nanos::from_millis(40)),
            quick_acks: false,
            ack_segments: 2,
            coalescing: None,
            compressed_sacks: None,
            sack_on_data: false,
            autotune_from_bytes: None,
            receiving: Receiving::Rfc,
            reset_in_window: false,
            syn_in_window: false,
            drops_old_acks: false,
            limited_transmit: true,
            timeout_keeps_ssthresh: true,
            any_window_duplicates: false,
            new_acks_set_window: false,
            nagle: true,
            cwnd_validation: true,
            restart_after_idle: true,
            acknowledges_before_data: false,
            reduction: Reduction::Jump,
            ignores_receive_window: false,
        }
    }
}

impl Config {
    /// Returns RFC 5681 and RFC 6582 to the letter, as the theorems assume it: no SACK, no
    /// timestamps, no window scale, no limited transmit, an ACK for each segment, growth by every
    /// ACK, duplicates counted by number, half of the flight after every first timeout.
    pub fn textbook() -> Self {
        Self {
            sack: false,
            timestamps: false,
            wscale: None,
            receive_buffer_bytes: 65_535,
            spurious_timeout: SpuriousTimeout::Ignored,
            delayed_ack: None,
            quick_acks: false,
            limited_transmit: false,
            timeout_keeps_ssthresh: false,
            any_window_duplicates: true,
            cwnd_validation: false,
            ..Self::default()
        }
    }

    /// Returns whether the endpoint requests ECN, which DCTCP needs (RFC 8257 §3).
    pub(crate) fn wants_ecn(&self) -> bool {
        self.ecn || matches!(self.congestion_control, CongestionControl::Dctcp { .. })
    }

    /// Returns whether the endpoint grants ECN to a peer that requests it.
    pub(crate) fn grants_ecn(&self) -> bool {
        self.grants_ecn || self.wants_ecn()
    }
}
