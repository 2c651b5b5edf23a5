//! An experiment on its way to the verdicts, for Python.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use uc_batch::{Head, Laws, Pool, Request, records_of, sim};
use uc_experiment::{Arm, Evaluation, RunRecord};

use crate::errors::raised;
use crate::result::Finished;

/// Time between two checks for Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(100);

/// An experiment, the runs that were made, and those that are wanted.
#[pyclass(module = "undercurrent._native")]
pub(crate) struct Sweep {
    sweep: Option<uc_batch::Sweep>,
    evaluation: Option<Evaluation>,
}

#[pymethods]
impl Sweep {
    /// Reads the experiment and checks that the simulator can run it.
    #[new]
    fn new(
        path: PathBuf,
        set: Vec<String>,
        case: Vec<String>,
        point: Vec<String>,
        repeat: Option<u32>,
        seed: u64,
        laws: Option<PathBuf>,
    ) -> PyResult<Self> {
        let read = || -> Result<uc_batch::Sweep> {
            let laws = laws.as_deref().map(Laws::read).transpose()?;
            let sweep = uc_batch::Sweep::new(Request {
                laws,
                set,
                case,
                point,
                repeat,
                seed,
                ..Request::of(&path)?
            })?;
            let suits = sweep.experiment.suits(Arm::Sim);
            suits.context("the Python package runs the simulator only; use `uc-bench run`")?;
            sweep.check_memory()?;
            sim::check(&sweep.points)?;
            Ok(sweep)
        };
        Ok(Self {
            sweep: Some(read().map_err(|error| raised(&error))?),
            evaluation: None,
        })
    }

    /// Returns what a worker needs to know about the experiment: the argument `head` of `run_part`.
    fn head(&self) -> PyResult<String> {
        let head = || -> Result<String> {
            let head = Head::of(&self.sweep()?.request, None)?;
            Ok(serde_json::to_string(&head)?)
        };
        head().map_err(|error| raised(&error))
    }

    /// Returns the core with the laws from outside the repository, which a worker needs in addition to `head`; `None`
    /// without such laws.
    fn laws<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let sweep = self.sweep().map_err(|error| raised(&error))?;
        let bytes = sweep.request.laws.as_ref().map(Laws::bytes).transpose();
        let bytes = bytes.map_err(|error| raised(&error))?;
        Ok(bytes.map(|bytes| PyBytes::new(py, &bytes)))
    }

    /// Returns the runs of this round that were not made: point, case and repetition of each.
    fn lacking(&self) -> PyResult<Vec<(u32, String, u32)>> {
        let sweep = self.sweep().map_err(|error| raised(&error))?;
        let tasks = sweep.lacking().into_iter();
        let keys = tasks.map(|task| (task.point, task.case.name.clone(), task.run));
        Ok(keys.collect())
    }

    /// Makes the runs that are lacking, by this many threads, and calls `ended` after each.
    fn run(&mut self, py: Python<'_>, workers: usize, ended: &Bound<'_, PyAny>) -> PyResult<()> {
        let sweep = self.sweep().map_err(|error| raised(&error))?;
        let records = made(sweep, workers, py, ended)?;
        let sweep = self.sweep_mut().map_err(|error| raised(&error))?;
        let added = records.into_iter().try_for_each(|record| sweep.add(record));
        added.map_err(|error| raised(&error))
    }

    /// Adds runs that `run_part` made, and returns their number.
    fn add(&mut self, lines: &[u8]) -> PyResult<usize> {
        let add = |sweep: &mut uc_batch::Sweep| -> Result<usize> {
            let records = records_of(lines)?;
            let count = records.len();
            records
                .into_iter()
                .try_for_each(|record| sweep.add(record))?;
            Ok(count)
        };
        let added = self.sweep_mut().and_then(add);
        added.map_err(|error| raised(&error))
    }

    /// Judges the runs. Returns true if they are enough; false if `lacking` returns further runs.
    fn judge(&mut self) -> PyResult<bool> {
        let judged = self.sweep_mut().and_then(|sweep| sweep.next(&|_| ()));
        self.evaluation = judged.map_err(|error| raised(&error))?;
        Ok(self.evaluation.is_some())
    }

    /// Returns the result. Afterwards the sweep has no runs.
    fn finish(&mut self) -> PyResult<Finished> {
        let both = self.evaluation.take().zip(self.sweep.take());
        let both = both.ok_or_else(|| {
            raised(&anyhow!(
                "`finish` needs the result of `judge`; call `judge` until it returns True"
            ))
        })?;
        Ok(Finished(both.1.finish(both.0)))
    }
}

impl Sweep {
    fn sweep(&self) -> Result<&uc_batch::Sweep> {
        self.sweep
            .as_ref()
            .context("the sweep is finished and has no more runs; make a new one")
    }

    fn sweep_mut(&mut self) -> Result<&mut uc_batch::Sweep> {
        self.sweep
            .as_mut()
            .context("the sweep is finished and has no more runs; make a new one")
    }
}

/// Makes the runs that are lacking. Other threads of Python run meanwhile, and Ctrl-C ends all runs.
fn made(
    sweep: &uc_batch::Sweep,
    workers: usize,
    py: Python<'_>,
    ended: &Bound<'_, PyAny>,
) -> PyResult<Vec<RunRecord>> {
    let cancel = &AtomicBool::new(false);
    let tasks = &sweep.lacking();
    let (to, from) = channel();
    let from = Mutex::new(from);
    std::thread::scope(|scope| {
        let pool = Pool {
            jobs: workers,
            cancel,
            until: None,
        };
        let making = scope.spawn(move || {
            let run = |task: &uc_batch::Task<'_>| sim::run(task, &|_| (), cancel);
            pool.each(tasks, run, |record| Ok(to.send(record)?))
        });
        let collected = collect(&from, py, ended);
        cancel.fetch_or(collected.is_err(), Ordering::Relaxed);
        let made = py.detach(|| making.join());
        let records = collected?;
        let made = made.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        made.map_err(|error| raised(&error))?;
        Ok(records)
    })
}

/// Collects records until the last sender is gone.
fn collect(
    from: &Mutex<Receiver<RunRecord>>,
    py: Python<'_>,
    ended: &Bound<'_, PyAny>,
) -> PyResult<Vec<RunRecord>> {
    let mut records = Vec::new();
    loop {
        let received = py.detach(|| {
            let from = from.lock().unwrap_or_else(PoisonError::into_inner);
            from.recv_timeout(PATIENCE)
        });
        py.check_signals()?;
        match received {
            Ok(record) => {
                records.push(record);
                ended.call1((1,))?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(records),
        }
    }
}
