//! The result of an experiment for Python: tables as CSV, from which the package makes Arrow tables.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use uc_batch::circumstances;
use uc_batch::outputs::Folder;
use uc_report::{Error, Report};

use crate::errors::raised;

/// An experiment all of whose runs were made and judged.
#[pyclass(frozen, module = "undercurrent._native")]
pub(crate) struct Finished(pub(crate) uc_batch::Finished);

#[pymethods]
impl Finished {
    /// Returns whether every expectation holds, or differs with a reason.
    fn holds(&self) -> bool {
        self.0.evaluation.passes()
    }

    /// Returns the axes of the sweep, in the order of the file.
    fn axes(&self) -> Vec<String> {
        let sweeps = self.0.experiment.sweeps.iter();
        sweeps.map(|sweep| sweep.name.clone()).collect()
    }

    /// Returns the object of results.json.
    fn json(&self) -> PyResult<String> {
        self.made(uc_report::json::json)
    }

    /// Returns the table that `uc-bench run` prints.
    fn table(&self) -> PyResult<String> {
        self.made(|report| Ok(uc_report::table::table(report)))
    }

    /// Returns the table flows.csv.
    fn flows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.csv(py, |report, text| uc_report::csv::flows(report, text))
    }

    /// Returns the table verdicts.csv.
    fn verdicts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.csv(py, |report, text| uc_report::csv::verdicts(report, text))
    }

    /// Returns the samples of all flows.
    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.csv(py, |report, text| uc_report::samples::flows(report, text))
    }

    /// Writes all files of `uc-bench run` into a folder, and returns the page's path.
    fn write(&self, folder: PathBuf) -> PyResult<PathBuf> {
        let write = |folder| self.0.write(folder, circumstances::of_program());
        let written = Folder::make(folder).and_then(write);
        written.map_err(|error| raised(&error))
    }
}

impl Finished {
    fn made<T>(&self, make: impl FnOnce(&Report<'_>) -> Result<T, Error>) -> PyResult<T> {
        let meta = self.0.meta();
        make(&self.0.report(&meta)).map_err(|error| raised(&error.into()))
    }

    fn csv<'py>(
        &self,
        py: Python<'py>,
        make: impl FnOnce(&Report<'_>, &mut Vec<u8>) -> Result<(), Error>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut text = Vec::new();
        self.made(|report| make(report, &mut text))?;
        Ok(PyBytes::new(py, &text))
    }
}
