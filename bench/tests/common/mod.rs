//! Common parts of the tests of `uc-bench`.
#![allow(dead_code, reason = "every test program uses its own part")]

pub mod browser;

use std::path::Path;
use std::process::Command;

/// Path of this build's `uc-bench`.
pub const UC_BENCH: &str = env!("CARGO_BIN_EXE_uc-bench");
/// A small experiment that holds in the simulator and on real kernels.
pub const TINY: &str = include_str!("tiny.toml");

/// Returns a command that runs `uc-bench` as a user without any capability, whoever runs the tests.
pub fn unprivileged() -> Command {
    uc_live::command::unprivileged(Path::new(UC_BENCH))
}

/// Returns `true` if this machine can run live tests; else prints why not.
pub fn live() -> bool {
    uc_live::or_skip(uc_lab::need::check()).is_some()
}

/// Returns `true` if this machine can run live tests whose guests are VMs with these kernels.
pub fn live_vm(series: &[&str]) -> bool {
    live() && uc_live::or_skip(uc_lab::vm::check(series.iter().copied())).is_some()
}
