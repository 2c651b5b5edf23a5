//! Makes runs, several at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::Result;
use uc_experiment::RunRecord;

use crate::task::Task;

/// The threads that make runs at the same time, and when they stop.
pub struct Pool<'a> {
    /// Number of runs at the same time.
    pub jobs: usize,
    /// Set to cancel all runs, by the caller or after an error.
    pub cancel: &'a AtomicBool,
    /// Time from which no further run begins; `None`: no limit.
    pub until: Option<Instant>,
}

impl Pool<'_> {
    /// Makes the runs by `run_one`. `done` gets each record as soon as its run has ended.
    ///
    /// # Errors
    /// The first error of a run or of `done`; no further run has begun since.
    pub fn each(
        &self,
        tasks: &[Task<'_>],
        run_one: impl Fn(&Task<'_>) -> Result<RunRecord> + Sync,
        done: impl Fn(RunRecord) -> Result<()> + Sync,
    ) -> Result<()> {
        let next = AtomicUsize::new(0);
        let failed = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, tasks.len().max(1)) {
                scope.spawn(|| {
                    while let Some(task) = self.claim(&next, tasks) {
                        if let Err(error) = run_one(task).and_then(&done) {
                            // Before the others stop because of it and report that they were
                            // cancelled.
                            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                            failed.get_or_insert(error);
                            self.cancel.store(true, Ordering::Relaxed);
                            return;
                        }
                    }
                });
            }
        });
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(()), Err)
    }

    /// Returns the next task, unless there is none or it is too late for one.
    fn claim<'a>(&self, next: &AtomicUsize, tasks: &'a [Task<'a>]) -> Option<&'a Task<'a>> {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        if is_late {
            return None;
        }
        tasks.get(next.fetch_add(1, Ordering::Relaxed))
    }
}
