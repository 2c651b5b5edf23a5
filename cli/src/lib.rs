//! `uc`'s commands, as a library so that tests can use its parts.

#![warn(clippy::print_stdout, clippy::print_stderr)]

// First, because the other modules print by its macros.
#[macro_use]
pub mod out;

pub mod host;
pub mod manual;
pub mod research;

use clap::{CommandFactory, Parser, Subcommand};

use crate::host::{
    agent, check, confirm, couple, dupack, explain, flows, full, given, guest, hold, law, ports,
    split, status, top, tune, watch,
};
use crate::research::{compare, demo, merge, packetdrill, reproduce, run, verify};

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
    Demo(demo::Demo),
    Run(run::Run),
    Merge(merge::Merge),
    Compare(compare::Compare),
    Reproduce(reproduce::Reproduce),
    Verify(verify::Verify),
    Packetdrill(packetdrill::Packetdrill),
    Check(check::Check),
    Law(law::Law),
    Attach(given::Given<ports::Attach>),
    Detach(ports::Detach),
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
    /// The first process inside a guest of `uc run --on vm`
    #[command(hide = true)]
    Machine,
}

impl Arguments {
    /// Executes the command; returns false for a negative answer.
    ///
    /// # Errors
    /// One line when printed with `{:#}`.
    pub fn execute(self) -> anyhow::Result<bool> {
        match self.command {
            Command::Agent(agent) => full::agent(agent),
            Command::Demo(demo) => demo.execute(),
            Command::Run(run) => run.execute(),
            Command::Merge(merge) => merge.execute(),
            Command::Compare(compare) => compare.execute(),
            Command::Reproduce(reproduce) => reproduce.execute(),
            Command::Verify(verify) => verify.execute(),
            Command::Packetdrill(packetdrill) => packetdrill.execute(),
            Command::Check(check) => check.execute(),
            Command::Law(law) => full::law(law.build()),
            Command::Attach(attach) => attach.arguments.execute(&attach.options),
            Command::Detach(detach) => detach.execute(),
            Command::Flows(flows) => flows.execute(),
            Command::Status(status) => status.execute(),
            Command::Confirm(confirm) => confirm.execute(),
            Command::Explain(explain) => explain.execute(),
            Command::Top(top) => full::top(top),
            Command::Guest(guest) => guest.execute(),
            Command::Couple(couple) => couple.execute(),
            Command::Split(split) => split.execute(),
            Command::Tune(tune) => tune.execute(),
            Command::Dupack(dupack) => dupack.execute(),
            Command::Hold(hold) => hold.execute(),
            Command::Watch(watch) => watch.execute(),
            Command::Manual(manual) => manual.execute(Arguments::command()),
            Command::Machine => Ok(uc_vm::agent::main().map(|()| true)?),
        }
    }
}
