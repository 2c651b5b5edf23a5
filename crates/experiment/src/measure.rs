//! What is computed from the records of a run. `measure = { kind = "share", case = …, … }`.

use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::statistic::Statistic;
use crate::units::Nanos;

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
    },
    /// Jain's index of the goodputs x of all n flows of the case: (Σx)² / (n·Σx²).
    Jain {
        /// The case.
        case: String,
    },
    /// Mean goodput of a flow of group `of`, bits per second.
    Goodput {
        /// The case.
        case: String,
        /// The group.
        of: String,
    },
    /// Sum of all goodputs over what the bottleneck can carry of payload, which is
    /// rate · MSS / (MSS + h), h being the Ethernet, IP and TCP headers of a data segment; where
    /// flows differ, each with its own: Σ goodput · (MSS + h) / MSS / rate.
    Utilisation {
        /// The case.
        case: String,
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
    },
    /// Transfers of group `of` that began in the measured part and that the end of the run cut off.
    Unfinished {
        /// The case.
        case: String,
        /// The group.
        of: String,
    },
    /// Expired retransmission timers of the flows of group `of`, summed; of the *whole* run.
    Timeouts {
        /// The case.
        case: String,
        /// The group.
        of: String,
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

impl Measure {
    /// The case that it looks at; none for a ratio, whose two sides have one each.
    pub fn case(&self) -> Option<&str> {
        match self {
            Measure::Share { case, .. }
            | Measure::Jain { case }
            | Measure::Goodput { case, .. }
            | Measure::Utilisation { case }
            | Measure::Retransmitted { case }
            | Measure::Retransmits { case, .. }
            | Measure::Drops { case, .. }
            | Measure::SendWindow { case, .. }
            | Measure::WindowAbove { case, .. }
            | Measure::SawtoothPeriod { case, .. }
            | Measure::SawtoothPeak { case, .. }
            | Measure::SawtoothTrough { case, .. }
            | Measure::Rtt { case, .. }
            | Measure::Fct { case, .. }
            | Measure::Unfinished { case, .. }
            | Measure::Timeouts { case, .. }
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
            Measure::Timeouts { .. } | Measure::AckGaps { .. } => Some(Arm::Sim),
            Measure::Ratio { of, to } => of.only_on().or(to.only_on()),
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
            | Measure::Fct { of, .. }
            | Measure::Unfinished { of, .. }
            | Measure::Timeouts { of, .. }
            | Measure::AckGaps { of, .. } => vec![("of", of)],
            Measure::Jain { .. }
            | Measure::Utilisation { .. }
            | Measure::Retransmitted { .. }
            | Measure::Queue { .. }
            | Measure::Marked { .. }
            | Measure::Lost { .. }
            | Measure::Ratio { .. } => Vec::new(),
        }
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
