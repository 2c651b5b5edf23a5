//! Runs `uc` and `uc-bench`.

use std::path::{Path, PathBuf};
use std::process::Command;

use uc_lab::vm::Programs;
pub use uc_live::command::*;

/// Path of this build's `uc`.
pub const UC: &str = env!("CARGO_BIN_EXE_uc");

/// Returns a path under which every user may run `uc`.
pub fn for_everybody() -> PathBuf {
    uc_live::command::for_everybody(Path::new(UC))
}

/// Returns `uc` as a user without any capability, whoever runs the tests.
pub fn uc_unprivileged() -> Command {
    uc_live::command::unprivileged(Path::new(UC))
}

/// Returns the path of this build's `uc-bench`.
pub fn bench() -> PathBuf {
    uc_live::command::program("uc-bench")
}

/// Returns the programs of virtual machines: `uc-bench` as their first process, and `uc`.
pub fn inside() -> Programs {
    Programs::only(bench()).with(UC)
}
