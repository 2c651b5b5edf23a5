//! What is computed from the records of a run. `measure = { kind = "share", case = …, … }`.

use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::statistic::Statistic;
use crate::units::{Bytes, Nanos};

/// One number of one repetition, over the measured part of the run (`settle` to `duration` −
/// `tail`). Goodput is payload delivered to the receiving application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Measure {
    /// Mean goodput of a flow of group `of` over that of a flow of group `to`.
    Share {
        /// The case.
        case: String,
        /// The group above the line.
        of: String,
        /// The group below the line.
        to: String,
        /// That part of the run, from and to; the measured part where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        during: Option<[Nanos; 2]>,
    },
    /// Jain's index of the goodputs x of n flows of the case, or of n guests': (Σx)² / (n·Σx²).
    Jain {
        /// The case.
        case: String,
        /// The groups whose flows they are; all where absent.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        of: Vec<String>,
        /// Whose goodputs. Default each flow's.
        #[serde(default, skip_serializing_if = "SharedBy::is_flows")]
        by: SharedBy,
        /// That part of the run, from and to; the measured part where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        during: Option<[Nanos; 2]>,
    },
    /// Mean goodput of a flow of group `of`, bits per second.
    Goodput {
        /// The case.
        case: String,
        /// The group.
        of: String,
        /// That part of the run, from and to; the measured part where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        during: Option<[Nanos; 2]>,
    },
    /// Sum of all goodputs over what the bottleneck can carry of payload, which is
    /// rate · MSS / (MSS + h), h being the Ethernet, IP and TCP headers of a data segment; where
    /// flows differ, each with its own: Σ goodput · (MSS + h) / MSS / rate.
    Utilisation {
        /// The case.
        case: String,
        /// That part of the run, from and to; the measured part where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        during: Option<[Nanos; 2]>,
    },
    /// Payload that was sent again, by all flows, over the bottleneck's rate · time.
    Retransmitted {
        /// The case.
        case: String,
    },
    /// Segments that the flows of group `of` sent again, summed.
    Retransmits {
        /// The case.
        case: String,
        /// The group.
        of: String,
    },
    /// Packets of the flows of group `of` that the network dropped, summed; of the *whole* run, for
    /// the network keeps one total per flow.
    Drops {
        /// The case.
        case: String,
        /// The group.
        of: String,
    },
    /// Mean over time of the send window, in segments: the shadow's window where a law translates
    /// the flow, else min(cwnd, receive window). Mean over the flows of the group.
    SendWindow {
        /// The case.
        case: String,
        /// The group.
        of: String,
    },
    /// Fraction of the samples with a full window (flight at most one segment short of it) in which
    /// the guest's own cwnd is above the window that it was given. Mean over the flows.
    WindowAbove {
        /// The case.
        case: String,
        /// The group.
        of: String,
    },
    /// Median time between two cuts of the send window, seconds. Mean over the flows.
    SawtoothPeriod {
        /// The case.
        case: String,
        /// The group.
        of: String,
    },
    /// Median send window just before a cut, segments. Mean over the flows.
    SawtoothPeak {
        /// The case.
        case: String,
        /// The group.
        of: String,
    },
    /// Median send window just after a cut, segments. Mean over the flows.
    SawtoothTrough {
        /// The case.
        case: String,
        /// The group.
        of: String,
    },
    /// Mean smoothed round-trip time as the senders see it, seconds. Mean over the samples of a
    /// flow, then over the flows.
    Rtt {
        /// The case.
        case: String,
        /// The group.
        of: String,
    },
    /// Round-trip time of the packets of group `of` that were sent once, of all its flows together,
    /// seconds.
    PacketRtt {
        /// The case.
        case: String,
        /// The group.
        of: String,
        /// Of the round-trip times. Default mean.
        #[serde(default)]
        statistic: Statistic,
    },
    /// How far the shadow's window is from the guest's own, over the guest's: mean of
    /// |shadow − cwnd| / cwnd, both in whole segments, over the samples of a flow, then over the
    /// flows.
    WindowError {
        /// The case.
        case: String,
        /// The group.
        of: String,
        /// Whether above and below make up for each other. Default false.
        #[serde(default, skip_serializing_if = "is_false")]
        signed: bool,
    },
    /// DCTCP's α, 0 to 1. Mean over the samples of a flow, then over the flows.
    Alpha {
        /// The case.
        case: String,
        /// The group.
        of: String,
        /// Whose. Default the shadow's.
        #[serde(default)]
        which: Alpha,
    },
    /// How far the shadow's α is from another one: mean of |shadow − other| over the samples of a
    /// flow, over the mean of the other. Mean over the flows.
    AlphaError {
        /// The case.
        case: String,
        /// The group.
        of: String,
        /// Which other. Default the exact one.
        #[serde(default = "exact")]
        against: Alpha,
    },
    /// Completion time of the transfers of group `of` that began in the measured part, of all its
    /// flows together, seconds. A transfer that the end of the run cut off counts with the time
    /// that it had: a lower bound (see `unfinished`).
    Fct {
        /// The case.
        case: String,
        /// The group.
        of: String,
        /// Of the completion times. Default mean.
        #[serde(default)]
        statistic: Statistic,
        /// Only those with a payload of at least the first and less than the second; all where
        /// absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sizes: Option<[Bytes; 2]>,
    },
    /// Transfers of group `of` that began in the measured part and that the end of the run cut off.
    Unfinished {
        /// The case.
        case: String,
        /// The group.
        of: String,
        /// Only those with a payload of at least the first and less than the second; all where
        /// absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sizes: Option<[Bytes; 2]>,
    },
    /// Expired retransmission timers of the flows of group `of`, summed; of the *whole* run.
    Timeouts {
        /// The case.
        case: String,
        /// The group.
        of: String,
    },
    /// Something that happened at the senders of group `of`, counted over its flows; of the *whole*
    /// run.
    Events {
        /// The case.
        case: String,
        /// The group.
        of: String,
        /// What happened.
        what: Event,
    },
    /// By how many ticks the clock of a guest of group `of` jumped at most; of the *whole* run.
    ClockJump {
        /// The case.
        case: String,
        /// The group.
        of: String,
    },
    /// The retransmission timeout, backed off, as the samples have it, of all flows together,
    /// seconds.
    Rto {
        /// The case.
        case: String,
        /// The group.
        of: String,
        /// Of the samples. Default mean.
        #[serde(default)]
        statistic: Statistic,
    },
    /// What the arm counted under a name, of the *whole* run.
    Counter {
        /// The case.
        case: String,
        /// A name of the record's `counters`.
        name: String,
    },
    /// Gaps of at least `from` and less than `to` between ACKs that reached a sender of group `of`,
    /// summed over its flows.
    AckGaps {
        /// The case.
        case: String,
        /// The group.
        of: String,
        /// A whole number of bins of 100 ms.
        from: Nanos,
        /// A whole number of bins of 100 ms; no upper end where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Nanos>,
    },
    /// The bottleneck's queue, of its samples (one every `sample`).
    Queue {
        /// The case.
        case: String,
        /// Of the samples. Default mean.
        #[serde(default)]
        statistic: Statistic,
        /// What is counted. Default packets.
        #[serde(default)]
        unit: QueueUnit,
        /// That part of the run, from and to; the measured part where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        during: Option<[Nanos; 2]>,
    },
    /// Packets that the bottlenecks marked over all that crossed them; of the *whole* run.
    Marked {
        /// The case.
        case: String,
    },
    /// Packets that the bottlenecks' queues dropped over all that reached them; of the *whole* run.
    Lost {
        /// The case.
        case: String,
    },
    /// One measure over another, of the same repetition; they may be of different cases.
    Ratio {
        /// Above the line.
        of: Box<Measure>,
        /// Below the line.
        to: Box<Measure>,
    },
}

fn is_false(value: &bool) -> bool {
    !value
}

fn exact() -> Alpha {
    Alpha::Exact
}

impl Measure {
    /// The case that it looks at; none for a ratio, whose two sides have one each.
    pub fn case(&self) -> Option<&str> {
        match self {
            Measure::Share { case, .. }
            | Measure::Jain { case, .. }
            | Measure::Goodput { case, .. }
            | Measure::Utilisation { case, .. }
            | Measure::Retransmitted { case }
            | Measure::Retransmits { case, .. }
            | Measure::Drops { case, .. }
            | Measure::SendWindow { case, .. }
            | Measure::WindowAbove { case, .. }
            | Measure::SawtoothPeriod { case, .. }
            | Measure::SawtoothPeak { case, .. }
            | Measure::SawtoothTrough { case, .. }
            | Measure::Rtt { case, .. }
            | Measure::PacketRtt { case, .. }
            | Measure::WindowError { case, .. }
            | Measure::Alpha { case, .. }
            | Measure::AlphaError { case, .. }
            | Measure::Fct { case, .. }
            | Measure::Unfinished { case, .. }
            | Measure::Timeouts { case, .. }
            | Measure::Events { case, .. }
            | Measure::ClockJump { case, .. }
            | Measure::Rto { case, .. }
            | Measure::Counter { case, .. }
            | Measure::AckGaps { case, .. }
            | Measure::Queue { case, .. }
            | Measure::Marked { case }
            | Measure::Lost { case } => Some(case),
            Measure::Ratio { .. } => None,
        }
    }

    /// The only arm whose records can tell it; none if all can.
    pub fn only_on(&self) -> Option<Arm> {
        match self {
            Measure::Timeouts { .. }
            | Measure::Events { .. }
            | Measure::ClockJump { .. }
            | Measure::Rto { .. }
            | Measure::AckGaps { .. }
            | Measure::PacketRtt { .. }
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

    /// Whether the records of that arm can tell it. Machines know the timeouts of a guest's only flow.
    pub fn can_be_told_by(&self, arm: Arm) -> bool {
        match self {
            Measure::Timeouts { .. } => arm != Arm::Live,
            Measure::Ratio { of, to } => of.can_be_told_by(arm) && to.can_be_told_by(arm),
            _ => self.only_on().is_none_or(|only| only == arm),
        }
    }

    /// The part of the run that it looks at, where it is not the measured one.
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

    /// The groups that it looks at, by the key that names them; none for a ratio.
    pub fn groups(&self) -> Vec<(&'static str, &str)> {
        match self {
            Measure::Share { of, to, .. } => vec![("of", of), ("to", to)],
            Measure::Goodput { of, .. }
            | Measure::Retransmits { of, .. }
            | Measure::Drops { of, .. }
            | Measure::SendWindow { of, .. }
            | Measure::WindowAbove { of, .. }
            | Measure::SawtoothPeriod { of, .. }
            | Measure::SawtoothPeak { of, .. }
            | Measure::SawtoothTrough { of, .. }
            | Measure::Rtt { of, .. }
            | Measure::PacketRtt { of, .. }
            | Measure::WindowError { of, .. }
            | Measure::Alpha { of, .. }
            | Measure::AlphaError { of, .. }
            | Measure::Fct { of, .. }
            | Measure::Unfinished { of, .. }
            | Measure::Timeouts { of, .. }
            | Measure::Events { of, .. }
            | Measure::ClockJump { of, .. }
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

/// Whose estimate of the part of the bytes that are marked (RFC 8257 §3.3) it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Alpha {
    /// The port's shadow's.
    #[default]
    Shadow,
    /// That of a sender that is told every mark exactly.
    Exact,
    /// The guest's own.
    Guest,
}

/// What a sender goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Timeouts at which the ACK that they waited for had already come to the sender's machine.
    SpuriousTimeouts,
    /// Timeouts that the sender itself found spurious (F-RTO).
    DetectedTimeouts,
    /// Timeouts of data that had timed out already.
    Backoffs,
    /// Duplicate ACKs.
    DuplicateAcks,
    /// Segments that had reached the receiver before.
    NeedlessSegments,
    /// Retransmission timers that were put off.
    DeferredTimers,
    /// Round-trip times that weren't taken as measured.
    FilteredSamples,
}

/// Between whom something is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SharedBy {
    /// Flows.
    #[default]
    Flow,
    /// Guests, however many flows each has.
    Guest,
}

impl SharedBy {
    fn is_flows(&self) -> bool {
        *self == SharedBy::Flow
    }
}

/// What a queue's length is counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueUnit {
    /// Packets.
    #[default]
    Packets,
    /// Bytes.
    Bytes,
}
