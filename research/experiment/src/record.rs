//! What one run of one case leaves behind: the only thing that measures and reports read.
//!
//! An arm fills these from whatever it has (TCP_INFO and BPF maps, or a simulator's own state).
//! All times count from the start of the run, all counters from the start of the flow.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::units::Nanos;

/// One run of one case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The case's name in the experiment file.
    pub case: String,
    /// Which repetition this is, from 0. Measures that compare two cases pair equal numbers.
    pub run: u32,
    /// The point of the sweep, from 0; 0 where there is none.
    #[serde(default)]
    pub point: u32,
    /// The seed of everything random in this run.
    pub seed: u64,
    /// When the run began, milliseconds since 1970-01-01 UTC; 0 on a virtual clock.
    pub started_unix_ms: u64,
    /// Every flow of every group, in the file's order.
    pub flows: Vec<FlowRecord>,
    /// The bottleneck's queue over time; of several bottlenecks the first of [`Self::bottlenecks`].
    pub queue: Vec<QueueSample>,
    /// The names among `links` of those that have the experiment's queue.
    #[serde(default)]
    pub bottlenecks: Vec<String>,
    /// What each link carried in the whole run, by the link's name.
    pub links: BTreeMap<String, LinkTotals>,
    /// Anything else that was counted in the whole run (reasons of the port programs, late packets
    /// of the emulated network), by name.
    pub counters: BTreeMap<String, u64>,
}

/// One TCP flow of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// The name of the group of guests that it belongs to.
    pub group: String,
    /// Its number inside the group, from 0: guest by guest, then flow by flow.
    pub index: u32,
    /// In order of time.
    pub samples: Vec<FlowSample>,
    /// Whether the guest itself negotiated ECN (what was agreed, not what was asked for).
    pub negotiated_ecn: bool,
    /// Packets of this flow that the network dropped in the whole run.
    pub drops: u64,
    /// Packets of this flow that the network marked CE in the whole run.
    pub marks: u64,
    /// The transfers of a flow that has any: blocks, answers, pages. In order of their start.
    #[serde(default)]
    pub completions: Vec<Completion>,
    /// How often the sender's retransmission timer expired with data outstanding, in the whole run;
    /// none if the arm can't tell.
    #[serde(default)]
    pub timeouts: Option<u32>,
    /// What the sender's timers and clock went through in the whole run; none if the arm can't tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// Gaps between ACKs that reached the sender in the measured part: how many were of
    /// [100·i, 100·(i + 1)) ms, for each i up to the longest. None if the arm can't tell.
    #[serde(default)]
    pub ack_gaps: Option<Vec<u32>>,
    /// Round-trip times of the data packets that were sent once and acknowledged in the measured
    /// part, at the sender, nanoseconds: from the packet's departure to the ACK that covers it. None
    /// if the arm can't tell.
    #[serde(default)]
    pub packet_rtt: Option<Histogram>,
}

/// What came of timeouts, and of a sender's CPU that was taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// Timeouts at which an acknowledgment of what they waited for had already come to the sender's
    /// machine, and only its guest hadn't seen it.
    pub spurious_timeouts: u64,
    /// Timeouts that the sender itself found spurious (F-RTO).
    pub detected_timeouts: u64,
    /// Timeouts of data that had timed out already: the timer's second doubling and later ones.
    pub backoffs: u64,
    /// Duplicate ACKs.
    pub duplicate_acks: u64,
    /// Segments that had reached the receiver before, each answered with an ACK that the sender gets
    /// for nothing (what DSACK reports).
    pub needless_segments: u64,
    /// By how many ticks the sender's clock jumped at most; 1 without a stall, 0 where there are no
    /// ticks.
    pub clock_jump_ticks: u64,
    /// Timers that were put off.
    pub deferred_timers: u64,
    /// Round-trip times that weren't taken as measured.
    pub filtered_samples: u64,
}

/// The width of a bin of [`FlowRecord::ack_gaps`].
pub const ACK_GAP_BIN: Nanos = Nanos(100_000_000);

/// One transfer of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// When it could first be sent (it was asked for, or its connection was asked to open):
    /// nanoseconds since the run began.
    pub started_ns: u64,
    /// When the receiving application had all of it; none if the run ended first.
    pub finished_ns: Option<u64>,
    /// Its payload.
    pub bytes: u64,
}

/// The state of one flow at one moment, at its sender unless it says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSample {
    /// Nanoseconds since the run began.
    pub at_ns: u64,
    /// Payload that the receiving application has been given so far.
    pub delivered_bytes: u64,
    /// The guest's own congestion window (`tcpi_snd_cwnd`).
    pub cwnd_segments: u32,
    /// The receive window as the guest sees it, scaled (`tcpi_snd_wnd`).
    pub snd_wnd_bytes: u32,
    /// Smoothed round-trip time (`tcpi_rtt`).
    pub srtt_us: u32,
    /// Segments sent and not yet acknowledged (`tcpi_unacked`).
    pub unacked_segments: u32,
    /// Payload sent so far, retransmissions included (`tcpi_bytes_sent`).
    pub bytes_sent: u64,
    /// Payload sent again so far (`tcpi_bytes_retrans`).
    pub bytes_retransmitted: u64,
    /// Segments sent again so far (`tcpi_total_retrans`).
    pub total_retransmits: u32,
    /// Payload of a full segment, options taken off (`tcpi_snd_mss`).
    pub mss_bytes: u32,
    /// The window of the law's shadow; none where no law translates this flow.
    pub shadow_window_bytes: Option<u32>,
    /// DCTCP's α as the port's shadow has it, 2³⁰ being 1; none where no law `dctcp` is at work.
    #[serde(default)]
    pub shadow_alpha_q30: Option<u32>,
    /// The α of the same flow had every mark been told to its sender exactly, byte by byte, with the
    /// ACK that covers it; none if the arm can't tell.
    #[serde(default)]
    pub exact_alpha_q30: Option<u32>,
    /// The guest's own α; none if it runs no DCTCP.
    #[serde(default)]
    pub guest_alpha_q30: Option<u32>,
    /// The retransmission timeout, backed off (`tcpi_rto`); none if the arm can't tell, or while no
    /// connection is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rto_us: Option<u32>,
}

/// The bottleneck's queue at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSample {
    /// Nanoseconds since the run began.
    pub at_ns: u64,
    /// Bytes that wait.
    pub backlog_bytes: u64,
    /// Packets that wait.
    pub backlog_packets: u32,
    /// RED's average queue; none for a discipline that keeps no average.
    pub average_bytes: Option<u64>,
}

/// What one link carried and refused in a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTotals {
    /// Packets that crossed it.
    pub packets: u64,
    /// Bytes that crossed it, Ethernet headers included.
    pub bytes: u64,
    /// Packets that its queue dropped.
    pub dropped_packets: u64,
    /// Packets that its queue marked CE.
    pub marked_packets: u64,
}
