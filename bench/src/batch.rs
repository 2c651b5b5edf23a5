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

/// What a batch of runs needs in addition to the experiment: backend, repetitions and limits.
pub struct Batch {
    /// Backend on which all runs are made.
    pub arm: Arm,
    /// Number of repetitions of every case at every point.
    pub repeat: u32,
    /// Number of runs at the same time.
    pub jobs: usize,
    /// Seed of repetition 0; each further repetition has the next number as its seed.
    pub seed: u64,
    /// Flag that cancels all runs when it is set; see [`uc_program::cancel_on_signal`].
    pub cancel: Arc<AtomicBool>,
    /// Time after which no further run begins; `None`: no limit.
    pub until: Option<Instant>,
    /// Folders for the packets and the flows of the runs.
    pub traces: Traces,
}

impl Batch {
    /// Checks before the first run that the records fit into memory, and that the backend can run every case at every
    /// point.
    ///
    /// # Errors
    /// What is impossible, and the remedy.
    pub fn check(&self, points: &[Point]) -> Result<()> {
        memory::check(points, self.repeat)?;
        arms::check(self.arm, points)
    }

    /// Makes all runs. The records are sorted by point, case and repetition.
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

    /// Makes the runs. Repeats those whose emulated network was late, with fewer at the same time. `done` gets each
    /// record as soon as its run counts; also the record of a run that is late even alone ([`Pool::each_in_time`]).
    ///
    /// # Errors
    /// The first error of a run or of `done`; no further run began after it.
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

/// Sorts records by point, then by case in the order of the file, then by repetition.
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

/// Creates one progress bar for all tasks. Its unit is nanoseconds of the runs' time.
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
