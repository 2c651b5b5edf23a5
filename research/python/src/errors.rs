//! Errors as Python's exceptions, with the place in the experiment's file.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::{PyErr, create_exception};
use uc_experiment::Error;

create_exception!(
    undercurrent,
    UndercurrentError,
    PyException,
    "An experiment can't be run; the text says what is wrong, where, and the remedy."
);
create_exception!(
    undercurrent,
    ExperimentError,
    UndercurrentError,
    "A fault of the experiment's file or of an override; `file`, `line` and `column` say where."
);

/// Converts an error. One of the experiment's file becomes an `ExperimentError`.
pub(crate) fn raised(error: &anyhow::Error) -> PyErr {
    let text = format!("{error:#}");
    let of_file = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Error>());
    let Some(of_file) = of_file else {
        return UndercurrentError::new_err(text);
    };
    let raised = ExperimentError::new_err(text);
    let (file, line, column) = place_of(of_file);
    Python::attach(|py| {
        let value = raised.value(py);
        let set = value.setattr("file", file);
        let set = set.and_then(|()| value.setattr("line", line));
        let set = set.and_then(|()| value.setattr("column", column));
        set.err()
    })
    .unwrap_or(raised)
}

/// Returns file, line and column of an error; `None` for each that the error does not have.
fn place_of(error: &Error) -> (Option<String>, Option<u32>, Option<u32>) {
    let place = match error {
        Error::Read { path, .. } => return (Some(path.display().to_string()), None, None),
        Error::Parse { place, .. } | Error::Invalid { place, .. } => place,
        Error::Set { .. } | Error::Case { .. } => return (None, None, None),
    };
    let mut parts = place.rsplitn(3, ':');
    let numbers = [parts.next(), parts.next()].map(|part| part.and_then(|it| it.parse().ok()));
    match (numbers, parts.next()) {
        ([Some(column), Some(line)], Some(file)) => {
            (Some(file.to_owned()), Some(line), Some(column))
        }
        _ => (Some(place.clone()), None, None),
    }
}
