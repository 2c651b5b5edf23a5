//! `uc`'s commands, as a library so that tests can use its parts.

pub mod arms;
pub mod batch;
pub mod couple;
pub mod coupling;
pub mod demo;
pub mod flows;
pub mod guest;
pub mod live;
mod live_starts;
pub mod memory;
pub mod outputs;
pub mod parameters;
pub mod points;
pub mod ports;
pub mod run;
pub mod verify;
pub mod watch;

use clap::{Parser, Subcommand};

/// Virtualized congestion control for Linux hosts: one law on the network under every guest's TCP.
#[derive(Parser)]
#[command(name = "uc", version, propagate_version = true, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Demo),
    Run(run::Run),
    Verify(verify::Verify),
    Attach(ports::Attach),
    Detach(ports::Detach),
    Flows(flows::Flows),
    Guest(guest::Guest),
    Couple(couple::Couple),
    Watch(watch::Watch),
    /// What runs inside a guest of `uc run --on vm`, as its first process
    #[command(hide = true)]
    Machine,
}

impl Arguments {
    /// Does what they say; the answer may be negative.
    ///
    /// # Errors
    /// In one line when printed with `{:#}`.
    pub fn execute(self) -> anyhow::Result<bool> {
        match self.command {
            Command::Demo(demo) => demo.execute(),
            Command::Run(run) => run.execute(),
            Command::Verify(verify) => verify.execute(),
            Command::Attach(attach) => attach.execute(),
            Command::Detach(detach) => detach.execute(),
            Command::Flows(flows) => flows.execute(),
            Command::Guest(guest) => guest.execute(),
            Command::Couple(couple) => couple.execute(),
            Command::Watch(watch) => watch.execute(),
            Command::Machine => Ok(uc_vm::agent::main().map(|()| true)?),
        }
    }
}
