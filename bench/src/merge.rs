//! `uc-bench merge`: makes one result from the runs of several machines.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use uc_batch::{Laws, merge, outputs};
use uc_program::cancel_on_signal;

use crate::arms;
use crate::batch::Batch;
use crate::traces::Traces;
use crate::whole::Whole;

/// Make one result from the folders of `uc-bench run --shard`.
///
/// Writes the same files as one `uc-bench run` that makes all runs, byte for byte, and has the same exit
/// status. All runs must be of one experiment, with the same options, and by the program that merges
/// them. Makes the further runs that undecided expectations need, up to `repeat_max`.
#[derive(Args)]
pub struct Merge {
    /// Folders that `uc-bench run --shard` or an interrupted `uc-bench run` wrote
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Folder of the laws that the runs used, if the folder has moved since `uc-bench run --laws DIR`
    #[arg(long, value_name = "DIR")]
    laws: Option<PathBuf>,
    /// Number of further runs that are made at the same time [default: as for `uc-bench run`]
    #[arg(
        long,
        value_name = "N",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024)
    )]
    jobs: Option<usize>,
    /// Print one JSON object on standard output instead of a table
    #[arg(long)]
    json: bool,
    /// Folder into which report.html, results.json, flows.csv, verdicts.csv, values.jsonl and records.json are
    /// written
    /// [default: out/NAME]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

impl Merge {
    /// Reads the folders, makes further runs if undecided expectations need them, and writes the result.
    pub fn execute(self) -> Result<bool> {
        // Loaded once, they are found by their hash.
        self.laws.as_deref().map(Laws::read).transpose()?;
        let sweep = merge(&self.folders)?;
        let arm = sweep.request.arm;
        let batch = Batch {
            arm,
            repeat: sweep.experiment.repeats(arm),
            jobs: self
                .jobs
                .unwrap_or_else(|| arms::default_jobs(arm, &sweep.points)),
            seed: sweep.request.seed,
            cancel: cancel_on_signal()?,
            until: None,
            traces: Traces::default(),
        };
        sweep.check_memory()?;
        let folder = self.out;
        let folder = folder.unwrap_or_else(|| outputs::default_folder(&sweep.experiment.name));
        let whole = Whole {
            folder,
            resume: true,
            json: self.json,
        };
        whole.complete(sweep, &batch)
    }
}
