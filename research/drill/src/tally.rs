//! The outcomes of many scripts, counted by reason.

use std::collections::BTreeMap;
use std::fmt;

use crate::syntax::Error;
use crate::verdict::Verdict;

/// Numbers of scripts that passed, failed and were skipped.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    passed: usize,
    failed: Vec<String>,
    skipped: BTreeMap<String, usize>,
}

impl Tally {
    /// Counts a script that was read and played.
    pub fn count(&mut self, name: &str, verdict: &Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Failed { place, why } => self.failed.push(format!("{name}:{place}: {why}")),
            Verdict::Skipped { reason } => *self.skipped.entry(reason.clone()).or_default() += 1,
        }
    }

    /// Counts a file that was not read: as skipped if it needs a feature that the reader lacks, else
    /// as failed.
    pub fn count_unread(&mut self, name: &str, error: &Error) {
        match error.lacks {
            Some(feature) => {
                *self
                    .skipped
                    .entry(format!("{feature} is not supported"))
                    .or_default() += 1
            }
            None => self.failed.push(format!("{name}:{error}")),
        }
    }

    /// Returns how many scripts passed, failed and were skipped.
    pub fn totals(&self) -> (usize, usize, usize) {
        let skipped = self.skipped.values().sum();
        (self.passed, self.failed.len(), skipped)
    }

    /// Returns the scripts that failed, each with file, line, column and reason.
    pub fn failures(&self) -> &[String] {
        &self.failed
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failed {
            writeln!(f, "{failure}")?;
        }
        let (passed, failed, skipped) = self.totals();
        writeln!(f, "{passed} passed, {failed} failed, {skipped} skipped")?;
        let mut reasons: Vec<_> = self.skipped.iter().collect();
        reasons.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), *reason));
        for (reason, count) in reasons {
            writeln!(f, "{count:>6}  skipped: {reason}")?;
        }
        Ok(())
    }
}
