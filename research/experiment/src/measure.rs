//! Measures, which are computed from the records of a run: `measure = { kind = "share", case = …, …
//! }`.

use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::statistic::Statistic;
use crate::units::{Bytes, Nanos};

/// One number of one repetition, over the measured part of the run (`settle` to `duration` −
/// `tail`). Goodput is payload delivered to the receiving application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Measure {
    /// Mean goodput of a flow of group `of` divided by that of a flow of group `to`.
    Share {
        /// Name of the case whose runs are measured.
        case: String,
        /// Group of the numerator.
        of: String,
        /// Group of the denominator.
        to: String,
        /// Part of the run, from and to; the measured part if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        during: Option<[Nanos; 2]>,
    },
    /// Jain's index of the goodputs x of n flows of the case, or of n guests: (Σx)² / (n·Σx²).
    Jain {
        /// Name of the case whose runs are measured.
        case: String,
        /// Groups whose flows count; all if absent.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        of: Vec<String>,
        /// Whether goodputs are each flow's or each guest's. Default `flow`.
        #[serde(default, skip_serializing_if = "SharedBy::is_flows")]
        by: SharedBy,
        /// Part of the run, from and to; the measured part if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        during: Option<[Nanos; 2]>,
    },
    /// Mean goodput of a flow of group `of`, in bits per second.
    Goodput {
        /// Name of the case whose runs are measured.
        case: String,
        /// Name of the group of guests whose flows are measured.
        of: String,
        /// Part of the run, from and to; the measured part if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        during: Option<[Nanos; 2]>,
    },
    /// Sum of all goodputs divided by the payload that the bottleneck can carry, which is rate ·
    /// MSS / (MSS + h), h being the Ethernet, IP and TCP headers of a data segment; if flows
    /// differ, each with its own: Σ goodput · (MSS + h) / MSS / rate.
    Utilisation {
        /// Name of the case whose runs are measured.
        case: String,
        /// Part of the run, from and to; the measured part if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        during: Option<[Nanos; 2]>,
    },
    /// Retransmitted payload of all flows, divided by the bottleneck's rate · time.
    Retransmitted {
        /// Name of the case whose runs are measured.
        case: String,
    },
    /// Retransmitted segments of the flows of group `of`, summed.
    Retransmits(OfGroup),
    /// Packets of the flows of group `of` that the network dropped, summed; of the *whole* run,
    /// since the network has one total per flow.
    Drops(OfGroup),
    /// Mean over time of the send window, in segments: the shadow's window if a law translates the
    /// flow, else min(cwnd, receive window). Mean over the flows of the group.
    SendWindow(OfGroup),
    /// Fraction of the samples with a full window (flight at most one segment below it) in which
    /// the guest's own cwnd is above the advertised window. Mean over the flows.
    WindowAbove(OfGroup),
    /// Median time between two reductions of the send window, in seconds. Mean over the flows.
    SawtoothPeriod(OfGroup),
    /// Median send window just before a reduction, in segments. Mean over the flows.
    SawtoothPeak(OfGroup),
    /// Median send window just after a reduction, in segments. Mean over the flows.
    SawtoothTrough(OfGroup),
    /// Mean smoothed round-trip time at the senders, in seconds. Mean over the samples of a flow,
    /// then over the flows.
    Rtt(OfGroup),
    /// Round-trip times of the packets of group `of` that were sent once, over all its flows, in
    /// seconds.
    PacketRtt {
        /// Name of the case whose runs are measured.
        case: String,
        /// Name of the group of guests whose flows are measured.
        of: String,
        /// Statistic of the round-trip times. Default `mean`.
        #[serde(default)]
        statistic: Statistic,
    },
    /// Distance of the shadow's window from the guest's own, relative to the guest's: mean of
    /// |shadow − cwnd| / cwnd, both in whole segments, over the samples of a flow, then over the
    /// flows.
    WindowError {
        /// Name of the case whose runs are measured.
        case: String,
        /// Name of the group of guests whose flows are measured.
        of: String,
        /// Whether distances above and below cancel. Default false.
        #[serde(default, skip_serializing_if = "is_false")]
        signed: bool,
    },
    /// DCTCP's α, 0 to 1. Mean over the samples of a flow, then over the flows.
    Alpha {
        /// Name of the case whose runs are measured.
        case: String,
        /// Name of the group of guests whose flows are measured.
        of: String,
        /// Estimator of the α. Default `shadow`.
        #[serde(default)]
        which: Alpha,
    },
    /// Distance of the shadow's α from another estimate: mean of |shadow − other| over the samples
    /// of a flow, divided by the mean of the other. Mean over the flows.
    AlphaError {
        /// Name of the case whose runs are measured.
        case: String,
        /// Name of the group of guests whose flows are measured.
        of: String,
        /// Estimator of the other α. Default `exact`.
        #[serde(default = "exact")]
        against: Alpha,
    },
    /// Completion time of the transfers of group `of` that began in the measured part, over all its
    /// flows, in seconds. A transfer that the end of the run cut off counts with its time until
    /// then: a lower bound (see `unfinished`).
    Fct {
        /// Name of the case whose runs are measured.
        case: String,
        /// Name of the group of guests whose flows are measured.
        of: String,
        /// Statistic of the completion times. Default `mean`.
        #[serde(default)]
        statistic: Statistic,
        /// Range of payloads that count: at least the first and less than the second; all if
        /// absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sizes: Option<[Bytes; 2]>,
        /// Divide each time by the shortest in which an empty network carries the transfer: a round trip
        /// for the handshake, propagation, and the rate of the slowest link. Default false.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        slowdown: bool,
    },
    /// Number of transfers of group `of` that began in the measured part and that the end of the
    /// run cut off.
    Unfinished {
        /// Name of the case whose runs are measured.
        case: String,
        /// Name of the group of guests whose flows are measured.
        of: String,
        /// Range of payloads that count: at least the first and less than the second; all if
        /// absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sizes: Option<[Bytes; 2]>,
    },
    /// Retransmission timeouts of the flows of group `of`, summed; of the *whole* run.
    Timeouts(OfGroup),
    /// Number of events of one kind at the senders of group `of`, over all its flows; of the
    /// *whole* run.
    Events {
        /// Name of the case whose runs are measured.
        case: String,
        /// Name of the group of guests whose flows are measured.
        of: String,
        /// Kind of event.
        what: Event,
    },
    /// Largest jump of the clock of a guest of group `of`, in ticks; of the *whole* run.
    ClockJump(OfGroup),
    /// Retransmission timeout with backoff in the samples of all flows of group `of`, in seconds.
    Rto {
        /// Name of the case whose runs are measured.
        case: String,
        /// Name of the group of guests whose flows are measured.
        of: String,
        /// Statistic of the samples. Default `mean`.
        #[serde(default)]
        statistic: Statistic,
    },
    /// A counter of the backend, of the *whole* run.
    Counter {
        /// Name of the case whose runs are measured.
        case: String,
        /// Name in the record's `counters`.
        name: String,
    },
    /// Number of gaps of at least `from` and less than `to` between ACKs that reached a sender of
    /// group `of`, summed over its flows. On real kernels and machines a packet of the receiver
    /// counts as an ACK.
    AckGaps {
        /// Name of the case whose runs are measured.
        case: String,
        /// Name of the group of guests whose flows are measured.
        of: String,
        /// Lower end, a multiple of 100 ms.
        from: Nanos,
        /// Upper end, a multiple of 100 ms; no upper end if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Nanos>,
    },
    /// Length of the bottleneck's queue in its samples (one every `sample`).
    Queue {
        /// Name of the case whose runs are measured.
        case: String,
        /// Statistic of the samples. Default `mean`.
        #[serde(default)]
        statistic: Statistic,
        /// Unit of the length. Default `packets`.
        #[serde(default)]
        unit: QueueUnit,
        /// Part of the run, from and to; the measured part if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        during: Option<[Nanos; 2]>,
    },
    /// Packets that the bottlenecks marked, divided by all that crossed them; of the *whole* run.
    Marked {
        /// Name of the case whose runs are measured.
        case: String,
    },
    /// Packets that the bottlenecks lost, by their queues or at random, divided by all that reached
    /// them; of the *whole* run.
    Lost {
        /// Name of the case whose runs are measured.
        case: String,
    },
    /// Mean of one measure over the repetitions, divided by that of another; they may be of different cases.
    Ratio {
        /// Measure in the numerator.
        of: Box<Measure>,
        /// Measure in the denominator.
        to: Box<Measure>,
    },
}

/// Case and group of a measure of one group's flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfGroup {
    /// Name of the case whose runs are measured.
    pub case: String,
    /// Name of the group of guests whose flows are measured.
    pub of: String,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn exact() -> Alpha {
    Alpha::Exact
}

impl Measure {
    /// Returns the measure's case; `None` for a ratio, whose two sides have one each.
    pub fn case(&self) -> Option<&str> {
        match self {
            Measure::Share { case, .. }
            | Measure::Jain { case, .. }
            | Measure::Goodput { case, .. }
            | Measure::Utilisation { case, .. }
            | Measure::Retransmitted { case }
            | Measure::Retransmits(OfGroup { case, .. })
            | Measure::Drops(OfGroup { case, .. })
            | Measure::SendWindow(OfGroup { case, .. })
            | Measure::WindowAbove(OfGroup { case, .. })
            | Measure::SawtoothPeriod(OfGroup { case, .. })
            | Measure::SawtoothPeak(OfGroup { case, .. })
            | Measure::SawtoothTrough(OfGroup { case, .. })
            | Measure::Rtt(OfGroup { case, .. })
            | Measure::PacketRtt { case, .. }
            | Measure::WindowError { case, .. }
            | Measure::Alpha { case, .. }
            | Measure::AlphaError { case, .. }
            | Measure::Fct { case, .. }
            | Measure::Unfinished { case, .. }
            | Measure::Timeouts(OfGroup { case, .. })
            | Measure::Events { case, .. }
            | Measure::ClockJump(OfGroup { case, .. })
            | Measure::Rto { case, .. }
            | Measure::Counter { case, .. }
            | Measure::AckGaps { case, .. }
            | Measure::Queue { case, .. }
            | Measure::Marked { case }
            | Measure::Lost { case } => Some(case),
            Measure::Ratio { .. } => None,
        }
    }

    /// Returns the cases that the measure needs; of a ratio, those of both sides.
    pub fn cases(&self) -> Vec<&str> {
        match self {
            Measure::Ratio { of, to } => [of.cases(), to.cases()].concat(),
            other => other.case().into_iter().collect(),
        }
    }

    /// Returns the measures that are not ratios and from which this one is computed: itself, or both
    /// sides of a ratio.
    pub fn sides(&self) -> Vec<&Measure> {
        match self {
            Measure::Ratio { of, to } => [of.sides(), to.sides()].concat(),
            other => vec![other],
        }
    }

    /// Returns the only backend whose records contain the measure; `None` if all do.
    pub fn only_on(&self) -> Option<Arm> {
        match self {
            Measure::Events { .. }
            | Measure::ClockJump { .. }
            | Measure::PacketRtt { .. }
            | Measure::Fct { slowdown: true, .. }
            | Measure::Alpha {
                which: Alpha::Exact,
                ..
            }
            | Measure::AlphaError {
                against: Alpha::Exact,
                ..
            } => Some(Arm::Sim),
            Measure::Ratio { of, to } => of.only_on().or(to.only_on()),
            _ => None,
        }
    }

    /// Returns whether the records of this backend contain the measure. Not checked: real kernels report
    /// [`Measure::Timeouts`] only for a guest with one flow.
    pub fn can_be_told_by(&self, arm: Arm) -> bool {
        self.only_on().is_none_or(|only| only == arm)
    }

    /// Returns the part of the run (from, to) that the measure's key `during` names; `None` without the key.
    pub fn during(&self) -> Option<[Nanos; 2]> {
        match self {
            Measure::Share { during, .. }
            | Measure::Jain { during, .. }
            | Measure::Goodput { during, .. }
            | Measure::Utilisation { during, .. }
            | Measure::Queue { during, .. } => *during,
            _ => None,
        }
    }

    /// Returns the groups that the measure names, each with its key; none for a ratio.
    pub fn groups(&self) -> Vec<(&'static str, &str)> {
        match self {
            Measure::Share { of, to, .. } => vec![("of", of), ("to", to)],
            Measure::Goodput { of, .. }
            | Measure::Retransmits(OfGroup { of, .. })
            | Measure::Drops(OfGroup { of, .. })
            | Measure::SendWindow(OfGroup { of, .. })
            | Measure::WindowAbove(OfGroup { of, .. })
            | Measure::SawtoothPeriod(OfGroup { of, .. })
            | Measure::SawtoothPeak(OfGroup { of, .. })
            | Measure::SawtoothTrough(OfGroup { of, .. })
            | Measure::Rtt(OfGroup { of, .. })
            | Measure::PacketRtt { of, .. }
            | Measure::WindowError { of, .. }
            | Measure::Alpha { of, .. }
            | Measure::AlphaError { of, .. }
            | Measure::Fct { of, .. }
            | Measure::Unfinished { of, .. }
            | Measure::Timeouts(OfGroup { of, .. })
            | Measure::Events { of, .. }
            | Measure::ClockJump(OfGroup { of, .. })
            | Measure::Rto { of, .. }
            | Measure::AckGaps { of, .. } => vec![("of", of)],
            Measure::Jain { of, .. } => of.iter().map(|of| ("of", of.as_str())).collect(),
            Measure::Utilisation { .. }
            | Measure::Retransmitted { .. }
            | Measure::Queue { .. }
            | Measure::Marked { .. }
            | Measure::Lost { .. }
            | Measure::Counter { .. }
            | Measure::Ratio { .. } => Vec::new(),
        }
    }
}

/// An estimator of the fraction of bytes that are marked (RFC 8257 §3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Alpha {
    /// The shadow of the guest's port.
    #[default]
    Shadow,
    /// An ideal sender that counts every marked byte without feedback errors.
    Exact,
    /// The guest itself.
    Guest,
}

/// A kind of event at a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Retransmission timeouts that fired when the ACK had already reached the sender's host.
    SpuriousTimeouts,
    /// Timeouts that the sender itself found spurious (F-RTO).
    DetectedTimeouts,
    /// Timeouts of data that had timed out already.
    Backoffs,
    /// Duplicate ACKs received.
    DuplicateAcks,
    /// Data segments whose bytes had all reached the receiver before (spurious retransmissions).
    NeedlessSegments,
    /// Retransmission timers that were due during a stall and that PVTCP deferred.
    DeferredTimers,
    /// Round-trip times that PVTCP replaced or ignored, as they contained a stall.
    FilteredSamples,
}

/// The unit between which Jain's index compares goodputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SharedBy {
    /// Each flow counts by itself.
    #[default]
    Flow,
    /// Each guest counts once, however many flows it has.
    Guest,
}

impl SharedBy {
    fn is_flows(&self) -> bool {
        *self == SharedBy::Flow
    }
}

/// The unit of a queue's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueUnit {
    /// Number of packets.
    #[default]
    Packets,
    /// Link-layer bytes.
    Bytes,
    /// Queueing delay: the time in which the bottleneck's rate empties the queue.
    Seconds,
}
