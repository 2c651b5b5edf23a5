//! Decides whether live tests may be skipped: tests that need root, a kernel feature or an
//! installed program.
//!
//! Names of live tests begin with `live_`. If the host can't run one, the test prints `SKIP(live): <need>` and passes,
//! and `scripts/test` counts those lines. With `CI=true` or `UC_LIVE=require` it fails instead, so that skipped tests
//! can't pass unnoticed. Tests that measure use [`in_peace`].

use std::fmt::Display;
use std::path::PathBuf;

pub mod command;
pub mod folder;
mod peace;
pub mod seccomp;

pub use peace::{Machine, in_peace};

/// Returns the value of `needed`. If it is an error, prints that the test is skipped for this reason, and returns
/// `None`.
///
/// # Panics
/// `needed` is an error, and live tests are required.
pub fn or_skip<T, E: Display>(needed: Result<T, E>) -> Option<T> {
    needed.map_err(skip).ok()
}

/// Prints that this test is skipped because it lacks `need`.
///
/// # Panics
/// Live tests are required.
pub fn skip(need: impl Display) {
    let variable = |name: &str| std::env::var(name).ok();
    assert!(
        !are_required(variable),
        "live tests are required here: {need}"
    );
    println!("SKIP(live): {need}");
}

/// Returns `true` if these programs are installed; otherwise prints that the test is skipped and which program is
/// missing.
///
/// # Panics
/// A program is missing, and live tests are required.
pub fn have(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !is_on_path(program));
    let missing = missing.map(|program| format!("`{program}` is not on PATH: install it"));
    or_skip(missing.map_or(Ok(()), Err)).is_some()
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .any(|folder| folder.join(program).is_file())
}

fn are_required(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is = |name, value| variable(name).as_deref() == Some(value);
    is("CI", "true") || is("UC_LIVE", "require")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_tests_are_required_only_in_ci_and_by_uc_live_require() {
        let required_by =
            |set: &str, to: &str| are_required(|name| (name == set).then(|| to.into()));
        assert!(required_by("CI", "true"));
        assert!(required_by("UC_LIVE", "require"));
        assert!(!required_by("CI", "false"));
        assert!(!required_by("UC_LIVE", "1"));
        assert!(!are_required(|_| None));
    }
}
