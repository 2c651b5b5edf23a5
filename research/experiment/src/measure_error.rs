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
    #[error(
        "case `{case}` has no record of {which}; make the run, or remove the expectations that \
         read it"
    )]
    NoRecord {
        /// Name of the case.
        case: String,
        /// The run: number of the repetition, and point of the sweep.
        which: Which,
    },
    /// A run has no such number: the message names the run, and what it lacks.
    #[error("{0}")]
    NoNumber(String),
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
