//! The result of all runs: records, verdicts, and the report of them.

use std::path::PathBuf;

use anyhow::{Result, bail};
use uc_experiment::{Circumstances, Evaluation, Experiment, Outcome, Point, RunRecord};
use uc_report::{Meta, Report};

use crate::outputs::{COMMIT, Folder, Source};
use crate::request::Request;

/// An experiment all of whose runs were made and judged.
pub struct Finished {
    /// The request: experiment file, backend, options.
    pub request: Request,
    /// The experiment, with its overrides applied.
    pub experiment: Experiment,
    /// Points of the experiment's sweep.
    pub points: Vec<Point>,
    /// All runs, by point, case in the order of the file, and repetition.
    pub records: Vec<RunRecord>,
    /// The verdicts on the experiment's expectations.
    pub evaluation: Evaluation,
}

impl Finished {
    /// Returns the origin of the runs.
    pub fn meta(&self) -> Meta {
        Meta {
            arm: self.request.arm.name().to_owned(),
            seed: self.request.seed,
            commit: COMMIT.to_owned(),
            runs: self.experiment.repeats(self.request.arm),
            command: self.request.command(),
        }
    }

    /// Returns the input of a report.
    pub fn report<'a>(&'a self, meta: &'a Meta) -> Report<'a> {
        Report {
            experiment: &self.experiment,
            points: &self.points,
            records: &self.records,
            evaluation: &self.evaluation,
            meta,
        }
    }

    /// Writes all files of a result, whose runs were made in these `circumstances`. Returns the path of the page.
    ///
    /// # Errors
    /// The error with the file's path; the folder is then as it was.
    pub fn write(&self, folder: Folder, circumstances: Circumstances) -> Result<PathBuf> {
        let source = Source {
            arm: self.request.arm,
            circumstances: Circumstances {
                core: self.request.core(),
                ..circumstances
            },
        };
        folder.write(&self.report(&self.meta()), &source)
    }

    /// Refuses an expectation that holds although the file states why its result differs.
    ///
    /// # Errors
    /// The first such expectation.
    pub fn refuse_stale(&self) -> Result<()> {
        let mut stale = self.evaluation.with(Outcome::Stale);
        if let Some(verdict) = stale.next() {
            bail!(
                "the expectation `{}` holds, and the file says why it differs; remove `differs`",
                verdict.name
            );
        }
        Ok(())
    }
}
