//! The last part of `uc-bench run` and `uc-bench merge`: makes the runs that a result lacks, and writes the result.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use uc_batch::outputs::Folder;
use uc_batch::{Head, Ledger, Shard, Sweep, Task, circumstances};
use uc_experiment::RunRecord;

use crate::batch::Batch;

/// The folder and the format in which a result is written.
pub struct Whole {
    /// Folder into which the result's files are written.
    pub folder: PathBuf,
    /// Whether runs that the folder already has are used.
    pub resume: bool,
    /// Whether one JSON object is printed instead of a table.
    pub json: bool,
}

impl Whole {
    /// Makes the missing runs, and further ones that undecided expectations need; then writes and prints the result.
    /// Returns whether every expectation holds, or differs for a reason that the file gives.
    ///
    /// # Errors
    /// A run failed, or a file can't be written. The folder has the runs that ended before.
    pub fn complete(&self, mut sweep: Sweep, batch: &Batch) -> Result<bool> {
        let folder = Folder::make(self.folder.clone())?;
        let mut ledger = self.open(&mut sweep, &folder, None)?;
        let told = |text: &str| {
            if !self.json {
                errln!("uc-bench: {text}");
            }
        };
        let mut circumstances = circumstances::of(batch.arm);
        let evaluation = loop {
            make(&mut sweep, Sweep::lacking, batch, &mut ledger)?;
            if let Some(evaluation) = sweep.next(&told)? {
                break evaluation;
            }
        };
        let finished = sweep.finish(evaluation);
        circumstances::end(&mut circumstances);
        let page = finished.write(folder, circumstances)?;
        let meta = finished.meta();
        let report = finished.report(&meta);
        if self.json {
            outln!("{}", uc_report::json::json(&report)?);
        } else {
            out!("{}", uc_report::table::table(&report));
            outln!("\nReport: {}", page.display());
        }
        finished.refuse_stale()?;
        Ok(report.holds())
    }

    /// Makes the runs of one shard, for `uc-bench merge`.
    ///
    /// # Errors
    /// As [`Whole::complete`].
    pub fn part(&self, mut sweep: Sweep, shard: Shard, batch: &Batch) -> Result<()> {
        let folder = Folder::make(self.folder.clone())?;
        let mut ledger = self.open(&mut sweep, &folder, Some(shard))?;
        // Also if it has no run: the file says that the part is there.
        ledger.begin()?;
        make(
            &mut sweep,
            |sweep| sweep.lacking_of(shard),
            batch,
            &mut ledger,
        )?;
        let path = ledger.path().display();
        outln!(
            "shard {shard}: {} runs in {path}; `uc-bench merge` joins all shards",
            ledger.runs()
        );
        Ok(())
    }

    fn open(&self, sweep: &mut Sweep, folder: &Folder, shard: Option<Shard>) -> Result<Ledger> {
        let head = Head::of(&sweep.request, shard)?;
        let (ledger, earlier) = Ledger::open(folder.path(), head, self.resume)?;
        for record in earlier {
            let added = sweep.add(record);
            added.with_context(|| ledger.path().display().to_string())?;
        }
        Ok(ledger)
    }
}

/// Makes the runs that `which` returns. Each run is on disk as soon as it has ended.
fn make(
    sweep: &mut Sweep,
    which: impl Fn(&Sweep) -> Vec<Task<'_>>,
    batch: &Batch,
    ledger: &mut Ledger,
) -> Result<()> {
    let made = Mutex::new((ledger, Vec::new()));
    let keep = |record: RunRecord| {
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        made.0.append(&record)?;
        made.1.push(record);
        Ok(())
    };
    let done = batch.run_each(&which(sweep), keep);
    let (ledger, records) = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    if done.is_err() && ledger.runs() > 0 {
        let (runs, path) = (ledger.runs(), ledger.path().display());
        errln!(
            "uc-bench: {runs} runs are in {path}; run the same command with --resume to continue"
        );
    }
    done?;
    records.into_iter().try_for_each(|record| sweep.add(record))
}
