//! Why a number can't be had from the records.

use std::fmt;

use crate::error::Error;

/// One repetition at one point of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which {
    /// The repetition, from 0.
    pub run: u32,
    /// Axes and their labels.
    pub at: Vec<(String, String)>,
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
        /// The case.
        case: String,
        /// Which run.
        which: Which,
    },
    /// A group sent nothing that was recorded.
    #[error("case `{case}`, {which}: no flow of group `{group}` was recorded")]
    NoFlow {
        /// The case.
        case: String,
        /// Which run.
        which: Which,
        /// The group.
        group: String,
    },
    /// A flow has nothing to compute this measure from.
    #[error("case `{case}`, {which}: flow {index} of group `{group}` has {lacks}")]
    Flow {
        /// The case.
        case: String,
        /// Which run.
        which: Which,
        /// The group.
        group: String,
        /// The flow's number in its group.
        index: u32,
        /// What it lacks.
        lacks: String,
    },
    /// A group began no transfer in the measured part.
    #[error(
        "case `{case}`, {which}: no transfer of group `{group}` began in the measured part; give \
         it more time, or a shorter settle"
    )]
    NoTransfer {
        /// The case.
        case: String,
        /// Which run.
        which: Which,
        /// The group.
        group: String,
    },
    /// A group began no transfer of these sizes in the measured part.
    #[error(
        "case `{case}`, {which}: no transfer of group `{group}` in the measured part is of these \
         sizes; give it more time"
    )]
    NoTransferOfSize {
        /// The case.
        case: String,
        /// Which run.
        which: Which,
        /// The group.
        group: String,
    },
    /// No packet of a group was acknowledged in the measured part.
    #[error(
        "case `{case}`, {which}: no packet of group `{group}` was sent once and acknowledged in \
         the measured part; give it more time, or a shorter settle"
    )]
    NoPacket {
        /// The case.
        case: String,
        /// Which run.
        which: Which,
        /// The group.
        group: String,
    },
    /// A record has nothing to compute this measure from.
    #[error("case `{case}`, {which}: the record has {lacks}")]
    Record {
        /// The case.
        case: String,
        /// Which run.
        which: Which,
        /// What it lacks.
        lacks: String,
    },
    /// A ratio with nothing below the line.
    #[error("{case}, {which}: {what} is 0, and nothing can be divided by it")]
    Zero {
        /// Which case.
        case: String,
        /// Which run.
        which: Which,
        /// What is below the line.
        what: String,
    },
}

impl MeasureError {
    /// Whether runs are missing, or what to run is: not only a number that they should give.
    pub(crate) fn is_of_runs(&self) -> bool {
        matches!(
            self,
            MeasureError::Points(_) | MeasureError::NoRecord { .. }
        )
    }
}
