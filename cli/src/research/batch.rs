//! Runs all repetitions of all cases at all points, several at a time.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use uc_experiment::{Arm, Evaluation, Experiment, Nanos, Outcome, Point, RunRecord, continuation};
use uc_vm::Templates;

use crate::research::arms::{self, Task, Watch};
use crate::research::memory;

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
        self.run_tasks(self.tasks(points, |_, _| 0..self.repeat))
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
            let tasks = self.tasks(points, runs_of);
            let undecided = evaluation.with(Outcome::Undecided).count();
            told(&format!(
                "undecided so far: {undecided}; {} more runs",
                tasks.len()
            ));
            let new = self.run_tasks(tasks)?;
            records.extend(new);
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
    }

    fn run_tasks(&self, tasks: Vec<(Place, Task<'_>)>) -> Result<Vec<RunRecord>> {
        let cancel = &*self.cancel;
        let bar = bar(&tasks);
        let templates = Templates::new(this_program());
        let next = AtomicUsize::new(0);
        let failed = Mutex::new(None);
        let records: Vec<Mutex<Option<RunRecord>>> =
            tasks.iter().map(|_| Mutex::new(None)).collect();

        std::thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, tasks.len().max(1)) {
                scope.spawn(|| {
                    while let Some(index) = claim(&next, tasks.len()) {
                        match self.run_one(&tasks[index].1, &bar, &templates, cancel) {
                            Ok(record) => *lock(&records[index]) = Some(record),
                            Err(error) => {
                                // Before the others stop because of it and report that they were
                                // cancelled.
                                lock(&failed).get_or_insert(error);
                                cancel.store(true, Ordering::Relaxed);
                                return;
                            }
                        }
                    }
                });
            }
        });
        bar.finish_and_clear();
        if let Some(error) = lock(&failed).take() {
            return Err(error);
        }
        let mut placed: Vec<(Place, RunRecord)> = tasks
            .iter()
            .zip(records)
            .filter_map(|((place, _), record)| Some((*place, lock(&record).take()?)))
            .collect();
        placed.sort_by_key(|(place, _)| *place);
        Ok(placed.into_iter().map(|(_, record)| record).collect())
    }

    /// Returns the tasks repetition by repetition, so that a temporary disturbance of a live batch
    /// affects all cases alike. `runs_of` names the repetitions of a point and a case.
    fn tasks<'a>(
        &self,
        points: &'a [Point],
        runs_of: impl Fn(u32, &str) -> Range<u32>,
    ) -> Vec<(Place, Task<'a>)> {
        let mut tasks = Vec::new();
        for point in points {
            for (number, case) in point.experiment.cases.iter().enumerate() {
                for run in runs_of(point.number, &case.name) {
                    let task = Task {
                        experiment: &point.experiment,
                        point: point.number,
                        case,
                        run,
                        seed: self.seed.wrapping_add(u64::from(run)),
                    };
                    tasks.push(((point.number, number, run), task));
                }
            }
        }
        tasks.sort_by_key(|((point, case, run), _)| (*run, *point, *case));
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

/// A record's place among the others: point, case, repetition.
type Place = (u32, usize, u32);

/// Locks the mutex. A poisoned lock means that another thread panicked, which ends the process
/// anyway.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn claim(next: &AtomicUsize, count: usize) -> Option<usize> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    (index < count).then_some(index)
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
fn bar(tasks: &[(Place, Task<'_>)]) -> ProgressBar {
    let durations = tasks.iter().map(|(_, task)| task.experiment.duration.0);
    let style = ProgressStyle::with_template("{msg} {bar:40} {percent:>3} %  {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let total_ns = durations.fold(0, u64::saturating_add);
    let bar = ProgressBar::new(total_ns).with_style(style);
    let name = tasks.first().map_or("", |(_, task)| &task.experiment.name);
    bar.set_message(format!("{name}: {} runs", tasks.len()));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}
