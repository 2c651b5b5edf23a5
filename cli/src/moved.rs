//! Commands that have moved to `uc-bench`: `uc` starts `uc-bench` with the same arguments.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use uc_program::BENCH;

/// Start the command of `uc-bench` with the same name
#[derive(Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Moved {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Moved {
    /// Replaces this process by `uc-bench COMMAND` with the arguments; does not return.
    ///
    /// # Errors
    /// `uc-bench` is not found or can't be started.
    pub fn execute(self, command: &str) -> Result<bool> {
        let path = BENCH
            .find()
            .with_context(|| format!("`uc {command}` is now `uc-bench {command}`"))?;
        let failed = Command::new(&path).arg(command).args(self.arguments).exec();
        Err(failed).with_context(|| format!("could not start {}", path.display()))
    }
}
