//! Errors of measures.

use std::fmt;

use crate::error::Error;
use crate::sweep::Point;

/// One repetition at one point of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which {
    /// Number of the repetition, from 0.
    pub run: u32,
    /// Axes and their labels at the point.
    pub at: Vec<(String, String)>,
}

impl Which {
    /// Returns the repetition `run` at a point.
    pub(crate) fn at(point: &Point, run: u32) -> Self {
        Self {
            run,
            at: point.labels.clone(),
        }
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "repetition {}", self.run)?;
        for (number, (axis, label)) in self.at.iter().enumerate() {
            write!(
                f,
                "{}{axis} {label}",
                if number == 0 { " at " } else { ", " }
            )?;
        }
        Ok(())
    }
}

/// Why a measure could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The experiment's sweep can't be applied.
    #[error(transparent)]
    Points(Error),
    /// A case was not run.
    #[error("case `{case}` has no record of {which}; run it, or leave out what expects it")]
    NoRecord {
        /// Name of the case.
        case: String,
        /// The run: number of the repetition, and point of the sweep.
        which: Which,
    },
    /// No flow of a group was recorded.
    #[error("case `{case}`, {which}: no flow of group `{group}` was recorded")]
    NoFlow {
        /// Name of the case.
        case: String,
        /// The run: number of the repetition, and point of the sweep.
        which: Which,
        /// Name of the group.
        group: String,
    },
    /// A flow lacks the data of the measure.
    #[error("case `{case}`, {which}: flow {index} of group `{group}` has {lacks}")]
    Flow {
        /// Name of the case.
        case: String,
        /// The run: number of the repetition, and point of the sweep.
        which: Which,
        /// Name of the group.
        group: String,
        /// Index of the flow in its group, from 0.
        index: u32,
        /// Description of the missing data.
        lacks: String,
    },
    /// A group began no transfer in the measured part.
    #[error(
        "case `{case}`, {which}: no transfer of group `{group}` began in the measured part; give \
         it more time, or a shorter settle"
    )]
    NoTransfer {
        /// Name of the case.
        case: String,
        /// The run: number of the repetition, and point of the sweep.
        which: Which,
        /// Name of the group.
        group: String,
    },
    /// A group began no transfer of these sizes in the measured part.
    #[error(
        "case `{case}`, {which}: no transfer of group `{group}` in the measured part is of these \
         sizes; give it more time"
    )]
    NoTransferOfSize {
        /// Name of the case.
        case: String,
        /// The run: number of the repetition, and point of the sweep.
        which: Which,
        /// Name of the group.
        group: String,
    },
    /// No packet of a group was acknowledged in the measured part.
    #[error(
        "case `{case}`, {which}: no packet of group `{group}` was sent once and acknowledged in \
         the measured part; give it more time, or a shorter settle"
    )]
    NoPacket {
        /// Name of the case.
        case: String,
        /// The run: number of the repetition, and point of the sweep.
        which: Which,
        /// Name of the group.
        group: String,
    },
    /// A record lacks the data of the measure.
    #[error("case `{case}`, {which}: the record has {lacks}")]
    Record {
        /// Name of the case.
        case: String,
        /// The run: number of the repetition, and point of the sweep.
        which: Which,
        /// Description of the missing data.
        lacks: String,
    },
    /// The measure could not be computed when the run ended.
    #[error("{why}")]
    Recorded {
        /// The reason in words.
        why: String,
    },
    /// The measure is infinite or NaN.
    #[error("{which}: the measure is {value}, which is no finite number")]
    NotFinite {
        /// The run: number of the repetition, and point of the sweep.
        which: Which,
        /// Value of the measure.
        value: f64,
    },
    /// The denominator of a ratio is 0.
    #[error("{case}, {which}: {what} is 0, and nothing can be divided by it")]
    Zero {
        /// Name of the case.
        case: String,
        /// The run: number of the repetition, and point of the sweep.
        which: Which,
        /// Description of the denominator.
        what: String,
    },
}

impl MeasureError {
    /// Returns whether runs or points are missing, and not only a number in them.
    pub(crate) fn is_of_runs(&self) -> bool {
        matches!(
            self,
            MeasureError::Points(_) | MeasureError::NoRecord { .. }
        )
    }
}
