//! Makes runs on a backend, several at a time, with a progress bar.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use uc_batch::{Pool, Task, memory, tasks};
use uc_experiment::{Arm, Nanos, Point, RunRecord};
use uc_lab::vm::Templates;

use crate::arms::{self, Watch};
use crate::traces::Traces;

/// Parameters of a batch.
pub struct Batch {
    /// Backend of all runs.
    pub arm: Arm,
    /// Repetitions of every case at every point.
    pub repeat: u32,
    /// Number of concurrent runs.
    pub jobs: usize,
    /// Seed of the first repetition; the others count up from it.
    pub seed: u64,
    /// Set to cancel all runs; see [`uc_program::cancel_on_signal`].
    pub cancel: Arc<AtomicBool>,
    /// Time from which no further run begins.
    pub until: Option<Instant>,
    /// Where packets and flows of the runs go.
    pub traces: Traces,
}

impl Batch {
    /// Checks before the first run that the records fit into memory, and that the backend can do
    /// what every point asks for.
    ///
    /// # Errors
    /// What is impossible, and the remedy.
    pub fn check(&self, points: &[Point]) -> Result<()> {
        memory::check(points, self.repeat)?;
        arms::check(self.arm, points)
    }

    /// Runs everything. Records are ordered by point, case and repetition, whichever ended first.
    pub fn run(&self, points: &[Point]) -> Result<Vec<RunRecord>> {
        let records = Mutex::new(Vec::new());
        let tasks = tasks(points, self.seed, |_, _| (0..self.repeat).collect());
        self.run_each(&tasks, |record| {
            lock(&records).push(record);
            Ok(())
        })?;
        let mut records = records.into_inner().unwrap_or_else(PoisonError::into_inner);
        sort(&mut records, points);
        Ok(records)
    }

    /// Makes the runs, and those again whose network was late, with fewer at a time. `done` gets each record
    /// as soon as its run counts, and those that are late even alone ([`Pool::each_in_time`]).
    ///
    /// # Errors
    /// The first error of a run or of `done`; no further run has begun since.
    pub fn run_each(
        &self,
        tasks: &[Task<'_>],
        done: impl Fn(RunRecord) -> Result<()> + Sync,
    ) -> Result<()> {
        if tasks.is_empty() {
            return Ok(());
        }
        let bar = bar(tasks);
        let templates = Templates::new(arms::inside(self.arm, tasks)?);
        let pool = Pool {
            jobs: self.jobs,
            cancel: &self.cancel,
            until: self.until,
        };
        let run_one = |task: &Task<'_>| self.run_one(task, &bar, &templates);
        let again = |task: &Task<'_>, why: &str, jobs: usize| {
            bar.inc_length(task.experiment.duration.0);
            let (case, run) = (&task.case.name, task.run);
            bar.suspend(|| {
                errln!(
                    "uc-bench: case {case}, run {run}: {why}; again, with at most {jobs} at a time"
                );
            });
        };
        let done = pool.each_in_time(tasks, run_one, again, done);
        bar.finish_and_clear();
        done
    }

    fn run_one(
        &self,
        task: &Task<'_>,
        bar: &ProgressBar,
        templates: &Templates,
    ) -> Result<RunRecord> {
        let shown = Mutex::new(Nanos(0));
        let progress = |to: Nanos| {
            let mut shown = lock(&shown);
            bar.inc(to.0.saturating_sub(shown.0));
            *shown = to.max(*shown);
        };
        let watch = Watch {
            progress: &progress,
            cancel: &self.cancel,
            bar,
            templates,
            capture: self.traces.capture(task),
        };
        let record = arms::run(self.arm, task, &watch)?;
        self.traces.write_flows(task, &record)?;
        progress(task.experiment.duration);
        Ok(record)
    }
}

/// Sorts records by point, case in the order of the file, and repetition.
fn sort(records: &mut [RunRecord], points: &[Point]) {
    records.sort_by_cached_key(|record| {
        let mut points = points.iter().filter(|point| point.number == record.point);
        let mut cases = points
            .next()
            .into_iter()
            .flat_map(|at| &at.experiment.cases);
        let case = cases.position(|case| case.name == record.case);
        (record.point, case, record.run)
    });
}

/// Locks the mutex. A poisoned lock means that another thread panicked, which ends the process
/// anyway.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates one progress bar for all tasks, in nanoseconds of run time.
fn bar(tasks: &[Task<'_>]) -> ProgressBar {
    let durations = tasks.iter().map(|task| task.experiment.duration.0);
    let style = ProgressStyle::with_template("{msg} {bar:40} {percent:>3} %  {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let total_ns = durations.fold(0, u64::saturating_add);
    let bar = ProgressBar::new(total_ns).with_style(style);
    let name = tasks.first().map_or("", |task| &task.experiment.name);
    bar.set_message(format!("{name}: {} runs", tasks.len()));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}
