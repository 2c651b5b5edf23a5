//! `uc`'s commands, as a library so that tests can use its parts.

#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate uc_program;

pub mod agent;
pub mod attach;
pub mod check;
pub mod confirm;
pub mod couple;
pub mod coupling;
pub mod detach;
pub mod dupack;
pub mod explain;
pub mod flows;
pub mod given;
pub mod guest;
pub mod handover;
pub mod hold;
pub mod law;
pub mod laws;
mod least_timeout;
mod moved;
pub mod options;
mod pace;
pub mod parameters;
pub mod ports;
pub mod seen;
pub mod split;
pub mod status;
mod tasks;
pub mod top;
mod truth;
pub mod tune;
pub mod watch;

use clap::{CommandFactory, Parser, Subcommand};
use uc_program::manual;

use crate::moved::Moved;

/// Virtualized congestion control for Linux hosts: one law on the network under every guest's TCP.
#[derive(Parser)]
#[command(name = "uc", version, propagate_version = true, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Agent(agent::Agent),
    Check(check::Check),
    Law(law::Law),
    Attach(given::Given<attach::Attach>),
    Detach(detach::Detach),
    Handover(handover::Handover),
    Flows(flows::Flows),
    Status(status::Status),
    Confirm(confirm::Confirm),
    Explain(explain::Explain),
    Top(top::Top),
    Guest(guest::Guest),
    Couple(couple::Couple),
    Split(split::Split),
    Tune(tune::Tune),
    Dupack(dupack::Dupack),
    Hold(hold::Hold),
    Watch(watch::Watch),
    #[command(hide = true)]
    Manual(manual::Manual),
    #[command(hide = true)]
    Demo(Moved),
    #[command(hide = true)]
    Run(Moved),
    #[command(hide = true)]
    Merge(Moved),
    #[command(hide = true)]
    Compare(Moved),
    #[command(hide = true)]
    Reproduce(Moved),
    #[command(hide = true)]
    Verify(Moved),
    #[command(hide = true)]
    Packetdrill(Moved),
}

impl Arguments {
    /// Executes the command; returns false, for exit status 1, after a negative answer.
    ///
    /// # Errors
    /// The format `{:#}` prints an error in one line.
    pub fn execute(self) -> anyhow::Result<bool> {
        match self.command {
            Command::Agent(agent) => agent.execute(),
            Command::Demo(moved) => moved.execute("demo"),
            Command::Run(moved) => moved.execute("run"),
            Command::Merge(moved) => moved.execute("merge"),
            Command::Compare(moved) => moved.execute("compare"),
            Command::Reproduce(moved) => moved.execute("reproduce"),
            Command::Verify(moved) => moved.execute("verify"),
            Command::Packetdrill(moved) => moved.execute("packetdrill"),
            Command::Check(check) => check.execute(),
            Command::Law(law) => law.execute(),
            Command::Attach(attach) => attach.arguments.execute(&attach.options),
            Command::Detach(detach) => detach.execute(),
            Command::Handover(handover) => handover.execute(),
            Command::Flows(flows) => flows.execute(),
            Command::Status(status) => status.execute(),
            Command::Confirm(confirm) => confirm.execute(),
            Command::Explain(explain) => explain.execute(),
            Command::Top(top) => top.execute(),
            Command::Guest(guest) => guest.execute(),
            Command::Couple(couple) => couple.execute(),
            Command::Split(split) => split.execute(),
            Command::Tune(tune) => tune.execute(),
            Command::Dupack(dupack) => dupack.execute(),
            Command::Hold(hold) => hold.execute(),
            Command::Watch(watch) => watch.execute(),
            Command::Manual(manual) => manual.execute(Arguments::command()),
        }
    }
}
