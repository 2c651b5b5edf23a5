//! The settings of one end of a connection.

use uc_net::Nanos;

/// What a host that ignores the receive window sends beyond SND.UNA at most.
pub const IGNORED_WINDOW_BYTES: u32 = 64 << 20;

/// How an endpoint behaves. The default is a host that follows the RFCs as of today; the papers'
/// hosts differ by named fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What grows and cuts the congestion window.
    pub congestion_control: CongestionControl,
    /// Asks for ECN and grants it (RFC 3168; DCTCP implies it).
    pub ecn: bool,
    /// Offers and uses SACK (RFC 2018, RFC 6675).
    pub sack: bool,
    /// Offers and uses timestamps (RFC 7323).
    pub timestamps: bool,
    /// The MSS that it announces, options not counted (RFC 6691): 1,460 over IPv4 and Ethernet.
    pub mss_bytes: u16,
    /// Its window scale, 0 to 14; none: doesn't offer the option.
    pub wscale: Option<u8>,
    /// Bytes that it can hold for an application that doesn't read. Window = what is left of it.
    pub receive_buffer_bytes: u32,
    /// Initial window in segments, 1 to 20 (RFC 5681: 2 to 4, RFC 6928: 10).
    pub initial_window_segments: u8,
    /// The first ssthresh in bytes (RFC 5681 §3.1: arbitrarily high).
    pub initial_ssthresh_bytes: u32,
    /// The timeout before there is a sample (RFC 6298 (2.1): 1 s), its least (2.4), most (2.5),
    /// and the clock's grain G (2.3).
    pub rto_initial: Nanos,
    /// See [`Config::rto_initial`].
    pub rto_min: Nanos,
    /// What the least is held against.
    pub rto_min_of: RtoMin,
    /// See [`Config::rto_initial`].
    pub rto_max: Nanos,
    /// See [`Config::rto_initial`].
    pub rto_granularity: Nanos,
    /// What it does about timeouts that F-RTO finds spurious (RFC 5682).
    pub spurious_timeout: SpuriousTimeout,
    /// How long an ACK may wait for a second segment (RFC 5681 §4.2: < 500 ms); none: an ACK for
    /// each segment.
    pub delayed_ack: Option<Nanos>,
    /// Sends new data on the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: bool,
    /// A timeout in fast recovery never raises ssthresh. RFC 5681 §3.1 bounds it by half of what is
    /// in flight, and in a recovery that is stuck more is in flight than ever fitted the path:
    /// slow start then overruns it again, and again.
    pub timeout_keeps_ssthresh: bool,
    /// Counts every ACK that acknowledges nothing as a duplicate, its window as before or not.
    /// RFC 5681 §2 (e) wants the same window; a host that hides behind a translated window then
    /// misses some.
    pub any_window_duplicates: bool,
    /// Holds a runt back while data is in flight (RFC 9293 §3.7.4).
    pub nagle: bool,
    /// Grows the window only when it limits (RFC 9002 §7.8; Linux since 3.16).
    pub cwnd_validation: bool,
    /// Restarts from the restart window after an idle RTO (RFC 5681 §4.1).
    pub restart_after_idle: bool,
    /// The last ACK of the handshake goes by itself, as of a program that writes once it is
    /// connected; if not, data that were written before carry it.
    pub acknowledges_before_data: bool,
    /// How the window gets to ssthresh.
    pub reduction: Reduction,
    /// Sends by its congestion window alone, up to
    /// [64 MiB](crate::config::IGNORED_WINDOW_BYTES) whatever window it is given: a host that breaks
    /// RFC 9293 §3.8.6, for those that have to live with one.
    pub ignores_receive_window: bool,
}

/// The law of a native endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// RFC 5681 and RFC 6582 (RFC 6675 with SACK).
    NewReno,
    /// The same, its window counted by ACKs as in RFC 5681 equation (3) and with fractions; see
    /// [`NewReno::by_acks`](crate::congestion::NewReno::by_acks).
    NewRenoByAcks,
    /// RFC 9438.
    Cubic,
    /// RFC 8257.
    Dctcp {
        /// The estimator's gain g = 2^−shift (RFC 8257 §4.2: 4).
        gain_shift: u8,
        /// α at the start, in 1/1024 (RFC 8257 §4.2: 1024).
        initial_alpha_q10: u16,
    },
    /// RFC 3649.
    HighSpeed,
    /// Brakmo and Peterson 1995.
    Vegas,
    /// Liu, Başar and Srikant 2006.
    Illinois,
}

/// What the least retransmission timeout is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoMin {
    /// SRTT and variation together, RFC 6298 (2.4).
    Sum,
    /// The variation alone, as Linux does: the timeout is SRTT + max(least, 4·RTTVAR), so that a
    /// queue's delay comes on top of the least.
    Variation,
}

/// How the window gets to ssthresh after a loss or a mark. A timeout's collapse is the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// At once (RFC 5681 §3.2, RFC 3168 §6.1.2).
    Jump,
    /// While a round trip is acknowledged (RFC 9937), a mark's too, as in Linux: until then the
    /// window neither grows nor is cut again.
    Proportional,
}

/// What a round-trip time counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RttSample {
    /// RFC 6298 (2.2) and (2.3).
    #[default]
    Measured,
    /// The smoothed one is taken in its place, or nothing before there is one.
    Smoothed,
    /// Nothing is taken; that there was an answer ends the backoff all the same.
    Ignored,
}

/// The answer to a timeout that F-RTO finds spurious.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpuriousTimeout {
    /// Not looked for.
    Ignored,
    /// Retransmission stops, the reduction stays (RFC 5682 §3.4 leaves the answer open).
    Halve,
    /// The threshold as before the timeout, the window as what is in flight (RFC 4015).
    Undo,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            congestion_control: CongestionControl::NewReno,
            ecn: false,
            sack: true,
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
            limited_transmit: true,
            timeout_keeps_ssthresh: true,
            any_window_duplicates: false,
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
    /// RFC 5681 and RFC 6582 to the letter, as the theorems assume it: no SACK, no timestamps, no
    /// window scale, no limited transmit, an ACK for each segment, growth by every ACK, duplicates
    /// counted by number, half of the flight after every first timeout.
    pub fn textbook() -> Self {
        Self {
            sack: false,
            timestamps: false,
            wscale: None,
            receive_buffer_bytes: 65_535,
            spurious_timeout: SpuriousTimeout::Ignored,
            delayed_ack: None,
            limited_transmit: false,
            timeout_keeps_ssthresh: false,
            any_window_duplicates: true,
            cwnd_validation: false,
            ..Self::default()
        }
    }

    /// RFC 8257 §3: DCTCP needs ECN.
    pub(crate) fn wants_ecn(&self) -> bool {
        self.ecn || matches!(self.congestion_control, CongestionControl::Dctcp { .. })
    }
}
