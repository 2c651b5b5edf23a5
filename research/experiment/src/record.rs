//! The record of one run of one case, the only input of measures and reports.
//!
//! A backend fills it from its own sources (TCP_INFO and BPF maps, or a simulator's state). All
//! times count from the start of the run, all counters from the start of the flow.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::law_event::LawEvent;
use crate::units::Nanos;

/// One run of one case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Name of the case in the experiment file.
    pub case: String,
    /// Number of the repetition, from 0. Measures that compare two cases pair equal numbers.
    pub run: u32,
    /// Number of the sweep's point, from 0; 0 without a sweep.
    #[serde(default)]
    pub point: u32,
    /// Seed of everything random in this run.
    pub seed: u64,
    /// Start of the run, in milliseconds since 1970-01-01 UTC; 0 on a virtual clock.
    pub started_unix_ms: u64,
    /// Flows of all groups, in the file's order.
    pub flows: Vec<FlowRecord>,
    /// Samples of the bottleneck's queue; of several bottlenecks, the first of
    /// [`Self::bottlenecks`].
    pub queue: Vec<QueueSample>,
    /// Names of the links with the experiment's queue, which are keys of `links`.
    #[serde(default)]
    pub bottlenecks: Vec<String>,
    /// Totals of each link in the whole run, by the link's name.
    pub links: BTreeMap<String, LinkTotals>,
    /// Other counters of the whole run (reasons of the port programs, late packets of the emulated
    /// network), by name.
    pub counters: BTreeMap<String, u64>,
}

/// One TCP flow of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Name of the group of guests that the flow belongs to.
    pub group: String,
    /// Number of the flow in its group, from 0: guest by guest, then flow by flow.
    pub index: u32,
    /// Samples in order of time.
    pub samples: Vec<FlowSample>,
    /// Whether the guest itself negotiated ECN (agreed on, not only offered).
    pub negotiated_ecn: bool,
    /// Packets of this flow that the network dropped in the whole run.
    pub drops: u64,
    /// Packets of this flow that the network marked CE in the whole run.
    pub marks: u64,
    /// Transfers of the flow (blocks, responses, pages) in order of their start; empty if it has none.
    #[serde(default)]
    pub completions: Vec<Completion>,
    /// Number of times that the sender's retransmission timer expired with data outstanding, in the
    /// whole run; `None` if the backend doesn't count them.
    #[serde(default)]
    pub timeouts: Option<u32>,
    /// Counters of the sender's timers and clock in the whole run; `None` if the backend doesn't
    /// count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// Histogram of the gaps between ACKs that reached the sender in the measured part: the number
    /// in [100·i, 100·(i + 1)) ms, for each i up to the longest. `None` if the backend doesn't
    /// measure them.
    #[serde(default)]
    pub ack_gaps: Option<Vec<u32>>,
    /// Round-trip times, in nanoseconds, of the data packets that were sent once and acknowledged
    /// in the measured part, at the sender: from the packet's departure to the ACK that covers it.
    /// `None` if the backend doesn't measure them.
    #[serde(default)]
    pub packet_rtt: Option<Histogram>,
    /// Events of the law that translates or observes the flow, in order of time; empty without a law, and if the
    /// backend doesn't record them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<LawEvent>,
}

/// Counters of timeouts, and of a sender's CPU that was taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// Timeouts that fired when an ACK of the data had already reached the sender's host, but not yet its guest.
    pub spurious_timeouts: u64,
    /// Timeouts that the sender itself found spurious (F-RTO).
    pub detected_timeouts: u64,
    /// Timeouts of data that had timed out already: the timer's second doubling and later ones.
    pub backoffs: u64,
    /// Duplicate ACKs received.
    pub duplicate_acks: u64,
    /// Data segments whose bytes had all reached the receiver before, each answered with a
    /// duplicate ACK (what DSACK reports).
    pub needless_segments: u64,
    /// Largest jump of the sender's clock, in ticks; 1 without a stall, 0 without ticks.
    pub clock_jump_ticks: u64,
    /// Retransmission timers that were due during a stall and that PVTCP deferred.
    pub deferred_timers: u64,
    /// Round-trip times that PVTCP replaced or ignored, as they contained a stall.
    pub filtered_samples: u64,
}

/// Width of a bin of [`FlowRecord::ack_gaps`].
pub const ACK_GAP_BIN: Nanos = Nanos(100_000_000);

/// One transfer of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// Time at which the transfer could first be sent (it was requested, or its connection was opened): nanoseconds
    /// since the run began.
    pub started_ns: u64,
    /// Time at which the receiving application had the whole transfer, in nanoseconds since the run began; `None` if
    /// the run ended first.
    pub finished_ns: Option<u64>,
    /// Payload of the transfer.
    pub bytes: u64,
    /// Shortest time in which an empty network carries the transfer, in nanoseconds; `None` if the backend does not
    /// know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ideal_ns: Option<u64>,
}

impl Completion {
    /// Returns the time from the transfer's start to its end, or to `end` (the end of the run) if that came first.
    pub fn time(&self, end: Nanos) -> Nanos {
        let finished_ns = self.finished_ns.unwrap_or(end.0);
        Nanos(finished_ns.saturating_sub(self.started_ns))
    }
}

/// The state of one flow at one time, at its sender unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSample {
    /// Time of the sample, in nanoseconds since the run began.
    pub at_ns: u64,
    /// Payload delivered to the receiving application so far.
    pub delivered_bytes: u64,
    /// Congestion window of the guest itself (`tcpi_snd_cwnd`).
    pub cwnd_segments: u32,
    /// Receive window that the guest sees, scaled (`tcpi_snd_wnd`).
    pub snd_wnd_bytes: u32,
    /// Smoothed round-trip time (`tcpi_rtt`).
    pub srtt_us: u32,
    /// Number of segments sent and not yet acknowledged (`tcpi_unacked`).
    pub unacked_segments: u32,
    /// Payload sent so far, retransmissions included (`tcpi_bytes_sent`).
    pub bytes_sent: u64,
    /// Retransmitted payload so far (`tcpi_bytes_retrans`).
    pub bytes_retransmitted: u64,
    /// Retransmitted segments so far (`tcpi_total_retrans`).
    pub total_retransmits: u32,
    /// Payload of a full segment, without options (`tcpi_snd_mss`).
    pub mss_bytes: u32,
    /// Window of the law's shadow; `None` if no law translates this flow.
    pub shadow_window_bytes: Option<u32>,
    /// DCTCP's α of the port's shadow, in 1/2³⁰; `None` without law `dctcp`.
    #[serde(default)]
    pub shadow_alpha_q30: Option<u32>,
    /// DCTCP's α of a sender that knows every mark exactly, byte by byte, with the ACK that covers
    /// it, in 1/2³⁰; `None` if the backend doesn't measure it.
    #[serde(default)]
    pub exact_alpha_q30: Option<u32>,
    /// DCTCP's α of the guest itself, in 1/2³⁰; `None` if it runs no DCTCP.
    #[serde(default)]
    pub guest_alpha_q30: Option<u32>,
    /// Retransmission timeout with backoff (`tcpi_rto`); `None` if the backend doesn't measure it,
    /// or while no connection is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rto_us: Option<u32>,
}

/// The bottleneck's queue at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSample {
    /// Time of the sample, in nanoseconds since the run began.
    pub at_ns: u64,
    /// Bytes that wait in the queue.
    pub backlog_bytes: u64,
    /// Packets that wait in the queue.
    pub backlog_packets: u32,
    /// RED's average queue in bytes; `None` for other disciplines.
    pub average_bytes: Option<u64>,
}

/// The traffic, drops and marks of one link in a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTotals {
    /// Packets that crossed the link.
    pub packets: u64,
    /// Bytes that crossed the link, Ethernet headers included.
    pub bytes: u64,
    /// Packets that the link's queue dropped.
    pub dropped_packets: u64,
    /// Packets that the link's queue marked CE.
    pub marked_packets: u64,
}
