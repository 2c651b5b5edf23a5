//! All repetitions of all cases, several at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use uc_experiment::{Case, Experiment, RunRecord};
use uc_lab::{LabError, Progress, Repetition, run_case};

use crate::live::LivePorts;

/// Which run of which case.
struct Task<'a> {
    case: &'a Case,
    repetition: Repetition,
}

/// How a batch is run.
pub struct Batch {
    /// Repetitions of every case.
    pub repeat: u32,
    /// Runs that go on at once.
    pub jobs: usize,
    /// Seed of the first repetition; the others count up from it.
    pub seed: u64,
}

impl Batch {
    /// Runs everything; the records come in the order of repetitions, then of cases.
    pub fn run(&self, experiment: &Experiment) -> Result<Vec<RunRecord>> {
        let tasks: Vec<Task<'_>> = (0..self.repeat)
            .flat_map(|run| {
                let seed = self.seed.wrapping_add(u64::from(run));
                experiment.cases.iter().map(move |case| Task {
                    case,
                    repetition: Repetition { run, seed },
                })
            })
            .collect();
        let cancel = cancel_on_signal()?;
        let bar = bar(experiment, tasks.len());
        let next = AtomicUsize::new(0);
        let failed = Mutex::new(None);
        let records: Vec<Mutex<Option<RunRecord>>> =
            tasks.iter().map(|_| Mutex::new(None)).collect();

        std::thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, tasks.len().max(1)) {
                scope.spawn(|| {
                    while let Some(index) = claim(&next, tasks.len()) {
                        match run_undisturbed(experiment, &tasks[index], &bar, &cancel) {
                            Ok(record) => *lock(&records[index]) = Some(record),
                            Err(error) => {
                                cancel.store(true, Ordering::Relaxed);
                                lock(&failed).get_or_insert(error);
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
        Ok(records
            .into_iter()
            .filter_map(|record| lock(&record).take())
            .collect())
    }
}

/// A poisoned lock means that another thread panicked, which ends the process anyway.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn claim(next: &AtomicUsize, count: usize) -> Option<usize> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    (index < count).then_some(index)
}

/// The emulated network may be this late before its packets' times mean nothing: about the round
/// trip of the slowest experiments. What decides is the network's clock, never the outcome.
const DISTURBED_NS: u64 = 50_000_000;
/// How often a disturbed run is repeated before the batch gives up.
const TRIES: u32 = 4;

/// One run that the machine left in peace. Another program, or a hypervisor that takes the CPU away,
/// can hold the emulated network up for seconds; such a run says nothing about TCP.
fn run_undisturbed(
    experiment: &Experiment,
    task: &Task<'_>,
    bar: &ProgressBar,
    cancel: &AtomicBool,
) -> Result<RunRecord> {
    for _ in 0..TRIES {
        let record = run_one(experiment, task, bar, cancel)?;
        let late_ns = record
            .counters
            .get("wire_late_max_ns")
            .copied()
            .unwrap_or(0);
        if late_ns <= DISTURBED_NS {
            return Ok(record);
        }
        let (case, run) = (&task.case.name, task.repetition.run);
        bar.suspend(|| {
            eprintln!(
                "uc: case {case}, run {run}: the emulated network was held up for {} ms; again",
                late_ns / 1_000_000
            );
        });
    }
    anyhow::bail!(
        "{}: {TRIES} times in a row this machine held the emulated network up; try when it is \
         quieter, or with fewer --jobs",
        experiment.name
    )
}

fn run_one(
    experiment: &Experiment,
    task: &Task<'_>,
    bar: &ProgressBar,
    cancel: &AtomicBool,
) -> Result<RunRecord> {
    let mut ports = LivePorts::default();
    let shown = Mutex::new(Duration::ZERO);
    let advance = |to: Duration| {
        let mut shown = lock(&shown);
        bar.inc(to.saturating_sub(*shown).as_millis() as u64);
        *shown = to.max(*shown);
    };
    let progress = |progress: Progress| {
        if let Progress::Running { elapsed, .. } = progress {
            advance(elapsed);
        }
    };
    let record = run_case(
        experiment,
        task.case,
        task.repetition,
        &mut ports,
        &progress,
        cancel,
    );
    let record = match record {
        Err(LabError::Cancelled) => Err(anyhow::anyhow!("cancelled; nothing is left behind")),
        other => other.with_context(|| {
            format!(
                "{}, case {}, seed {}",
                experiment.name, task.case.name, task.repetition.seed
            )
        }),
    }?;
    advance(Duration::from_nanos(experiment.duration.0));
    Ok(record)
}

/// Set by Ctrl-C or SIGTERM. Everything that a run makes is anonymous and goes with the process
/// even so; the flag only makes the end orderly.
fn cancel_on_signal() -> Result<Arc<AtomicBool>> {
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .context("could not take over Ctrl-C")?;
    Ok(cancel)
}

fn bar(experiment: &Experiment, tasks: usize) -> ProgressBar {
    let total_ms = experiment.duration.0 / 1_000_000 * tasks as u64;
    let style = ProgressStyle::with_template("{msg} {bar:40} {percent:>3} %  {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(total_ms).with_style(style);
    bar.set_message(format!("{}: {tasks} runs", experiment.name));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}
