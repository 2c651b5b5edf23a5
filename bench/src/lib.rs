//! `uc-bench`'s commands, as a library so that tests can use its parts.

#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate uc_program;

pub mod arms;
pub mod batch;
pub mod compare;
pub mod demo;
pub mod merge;
pub mod packetdrill;
pub mod records;
pub mod reproduce;
pub mod run;
pub mod traces;
pub mod verify;
mod whole;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use uc_program::manual;

/// Undercurrent's experiments: in the simulator, on real kernels and with virtual machines.
#[derive(Parser)]
#[command(
    name = "uc-bench",
    version,
    propagate_version = true,
    max_term_width = 100
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Demo),
    Run(run::Run),
    Merge(merge::Merge),
    Compare(compare::Compare),
    Reproduce(reproduce::Reproduce),
    Verify(verify::Verify),
    Packetdrill(packetdrill::Packetdrill),
    #[command(hide = true)]
    Manual(manual::Manual),
    /// Run as the first process inside a VM guest of `uc-bench run --on vm`
    #[command(hide = true)]
    Machine,
}

impl Arguments {
    /// Executes the command; returns false, for exit status 1, after a negative answer.
    ///
    /// # Errors
    /// The format `{:#}` prints an error in one line.
    pub fn execute(self) -> Result<bool> {
        match self.command {
            Command::Demo(demo) => demo.execute(),
            Command::Run(run) => run.execute(),
            Command::Merge(merge) => merge.execute(),
            Command::Compare(compare) => compare.execute(),
            Command::Reproduce(reproduce) => reproduce.execute(),
            Command::Verify(verify) => verify.execute(),
            Command::Packetdrill(packetdrill) => packetdrill.execute(),
            Command::Manual(manual) => manual.execute(Arguments::command()),
            Command::Machine => Ok(uc_lab::vm::agent::main().map(|()| true)?),
        }
    }
}
