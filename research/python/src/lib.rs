//! The Python package `undercurrent`: experiments in the simulator, whose results are tables. Python decides where runs
//! are made. Which runs there are, their records and their verdicts come from `uc-batch`, as for `uc-bench run`.

mod errors;
mod result;
mod sweep;
mod worker;

/// What the package's Python files build on.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::errors::{ExperimentError, UndercurrentError};
    #[pymodule_export]
    use crate::result::Finished;
    #[pymodule_export]
    use crate::sweep::Sweep;
    #[pymodule_export]
    use crate::worker::run_part;

    /// Commit from which the package was built.
    #[pymodule_export]
    const COMMIT: &str = uc_batch::outputs::COMMIT;
}
