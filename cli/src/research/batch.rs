//! Runs all repetitions of all cases at all points, several at a time.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use uc_batch::{Task, memory};
use uc_experiment::{Arm, Evaluation, Experiment, Nanos, Outcome, Point, RunRecord, continuation};
use uc_vm::Templates;

use crate::research::arms::{self, Watch};

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
    /// Set to cancel all runs; see [`cancel_on_signal`].
    pub cancel: Arc<AtomicBool>,
    /// Time from which no further run begins.
    pub until: Option<Instant>,
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
        self.collect(points, |_, _| (0..self.repeat).collect())
    }

    /// Runs the experiment, and then the repetitions that its undecided expectations need, up to
    /// the file's `repeat_max`. Returns all records, ordered as those of [`Batch::run`], and the
    /// evaluation. `told` gets a sentence before each further round.
    ///
    /// # Errors
    /// A run failed.
    pub fn run_until_decided(
        &self,
        experiment: &Experiment,
        points: &[Point],
        told: impl Fn(&str),
    ) -> Result<(Vec<RunRecord>, Evaluation)> {
        let mut records = self.run(points)?;
        loop {
            let evaluation = uc_experiment::evaluate(experiment, &records, self.arm)?;
            let more = continuation(experiment, &evaluation, self.arm);
            if more.is_empty() {
                return Ok((records, evaluation));
            }
            let runs_of = |point: u32, case: &str| {
                let of_case = |record: &&RunRecord| record.point == point && record.case == case;
                let had = records.iter().filter(of_case).count() as u32;
                let wanted = more.get(&(point, case.to_owned()));
                had..wanted.copied().unwrap_or(had).max(had)
            };
            if let Err(error) = memory::check_each(points, |point, case| runs_of(point, case).end) {
                told(&format!("no more repetitions: {error}"));
                return Ok((records, evaluation));
            }
            let undecided = evaluation.with(Outcome::Undecided).count();
            let places = points.iter().flat_map(|point| {
                let cases = point.experiment.cases.iter();
                cases.map(|case| runs_of(point.number, &case.name).len())
            });
            let runs: usize = places.sum();
            told(&format!("undecided so far: {undecided}; {runs} more runs"));
            let new = self.collect(points, |point, case| runs_of(point, case).collect())?;
            records.extend(new);
            sort(&mut records, points);
        }
    }

    /// Runs the repetitions that `runs_of` a point and a case names; returns the records in order.
    fn collect(
        &self,
        points: &[Point],
        runs_of: impl Fn(u32, &str) -> Vec<u32>,
    ) -> Result<Vec<RunRecord>> {
        let records = Mutex::new(Vec::new());
        let keep = |record| {
            lock(&records).push(record);
            Ok(())
        };
        self.run_each(points, runs_of, keep)?;
        let mut records = records.into_inner().unwrap_or_else(PoisonError::into_inner);
        sort(&mut records, points);
        Ok(records)
    }

    /// Runs the repetitions that `runs_of` a point and a case names. `done` gets each record as soon
    /// as its run has ended.
    ///
    /// # Errors
    /// The first error of a run or of `done`; no further run has begun since.
    pub fn run_each(
        &self,
        points: &[Point],
        runs_of: impl Fn(u32, &str) -> Vec<u32>,
        done: impl Fn(RunRecord) -> Result<()> + Sync,
    ) -> Result<()> {
        let tasks = self.tasks(points, runs_of);
        let cancel = &*self.cancel;
        let bar = bar(&tasks);
        let templates = Templates::new(this_program());
        let next = AtomicUsize::new(0);
        let failed = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, tasks.len().max(1)) {
                scope.spawn(|| {
                    while let Some(task) = self.claim(&next, &tasks) {
                        let ran = self.run_one(task, &bar, &templates, cancel);
                        if let Err(error) = ran.and_then(&done) {
                            // Before the others stop because of it and report that they were
                            // cancelled.
                            lock(&failed).get_or_insert(error);
                            cancel.store(true, Ordering::Relaxed);
                            return;
                        }
                    }
                });
            }
        });
        bar.finish_and_clear();
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

    /// Returns the tasks repetition by repetition, so that a temporary disturbance of a live batch
    /// affects all cases alike. `runs_of` names the repetitions of a point and a case.
    fn tasks<'a>(
        &self,
        points: &'a [Point],
        runs_of: impl Fn(u32, &str) -> Vec<u32>,
    ) -> Vec<Task<'a>> {
        let mut tasks = Vec::new();
        for point in points {
            for case in &point.experiment.cases {
                for run in runs_of(point.number, &case.name) {
                    tasks.push(Task {
                        experiment: &point.experiment,
                        point: point.number,
                        case,
                        run,
                        seed: self.seed.wrapping_add(u64::from(run)),
                    });
                }
            }
        }
        // Stable: the points and cases of a repetition keep their order.
        tasks.sort_by_key(|task| task.run);
        tasks
    }

    fn run_one(
        &self,
        task: &Task<'_>,
        bar: &ProgressBar,
        templates: &Templates,
        cancel: &AtomicBool,
    ) -> Result<RunRecord> {
        let shown = Mutex::new(Nanos(0));
        let progress = |to: Nanos| {
            let mut shown = lock(&shown);
            bar.inc(to.0.saturating_sub(shown.0));
            *shown = to.max(*shown);
        };
        let watch = Watch {
            progress: &progress,
            cancel,
            bar,
            templates,
        };
        let record = arms::run(self.arm, task, &watch)?;
        progress(task.experiment.duration);
        Ok(record)
    }
}

/// Returns the path of the running program, which VMs run inside; valid even if its file was
/// replaced.
fn this_program() -> PathBuf {
    PathBuf::from(format!("/proc/{}/exe", std::process::id()))
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

/// Returns a flag that Ctrl-C or SIGTERM sets. Everything that a run creates is anonymous and ends
/// with the process; the flag also lets the results' folder be removed, so it must be set up before
/// the folder.
///
/// # Errors
/// The signals have another handler already.
pub fn cancel_on_signal() -> Result<Arc<AtomicBool>> {
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .context("could not take over Ctrl-C")?;
    Ok(cancel)
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
