//! Makes runs for another process, which has read the experiment.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use uc_batch::{Head, Sweep, line_of, sim};

use crate::errors::raised;

/// The experiment that was read last, with the head that asked for it: a worker gets many parts of one experiment.
static LAST: Mutex<Option<(String, Arc<Sweep>)>> = Mutex::new(None);

/// Makes runs of the experiment of `head`, one after the other; `keys` has point, case and repetition of each. `laws`
/// is the core with laws from outside the repository; `None`: there are none. Returns the records as lines.
#[pyfunction]
pub(crate) fn run_part<'py>(
    py: Python<'py>,
    head: &str,
    laws: Option<Vec<u8>>,
    keys: Vec<(u32, String, u32)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let sweep = sweep_of(head, laws).map_err(|error| raised(&error))?;
    let mut lines = Vec::new();
    for key in keys {
        py.check_signals()?;
        let line = py.detach(|| made(&sweep, &key));
        lines.extend(line.map_err(|error| raised(&error))?);
    }
    Ok(PyBytes::new(py, &lines))
}

fn made(sweep: &Sweep, (point, case, run): &(u32, String, u32)) -> Result<Vec<u8>> {
    let task = sweep.task(*point, case, *run);
    let task = task.with_context(|| {
        format!("the experiment has no run {run} of case {case} at point {point}")
    })?;
    line_of(&sim::run(&task, &|_| (), &AtomicBool::new(false))?)
}

/// Returns the name of this machine, for errors.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "this machine".into(), |name| name.trim().into())
}

fn sweep_of(head: &str, laws: Option<Vec<u8>>) -> Result<Arc<Sweep>> {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, sweep)) = last.as_ref().filter(|(known, _)| known == head) {
        return Ok(Arc::clone(sweep));
    }
    let wanted: Head = serde_json::from_str(head)?;
    if let (Some(wanted), Some(bytes)) = (&wanted.request.laws, laws) {
        let loaded = wanted.load(bytes);
        loaded.with_context(|| {
            format!(
                "worker on {}: could not load the laws of your own that the sweep uses",
                host()
            )
        })?;
    }
    let own = Head::of(&wanted.request, None)?;
    if let Some(why) = wanted.refusal(&own) {
        bail!(
            "worker on {}: {why}; install the same wheel on every machine",
            host()
        );
    }
    let sweep = Arc::new(Sweep::new(wanted.request)?);
    *last = Some((head.to_owned(), Arc::clone(&sweep)));
    Ok(sweep)
}
