//! `uc`: Undercurrent's program. Exit status 0: done, or everything holds; 1: a negative answer;
//! 2: an error, in one line on standard error.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use uc_cli::{demo, ports, run};

/// Virtualized congestion control for Linux hosts: one law on the network under every guest's TCP.
#[derive(Parser)]
#[command(name = "uc", version, propagate_version = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Demo),
    Run(run::Run),
    Attach(ports::Attach),
    Detach(ports::Detach),
    Flows(ports::Flows),
}

fn main() -> ExitCode {
    restore_broken_pipe();
    let answer = match Arguments::parse().command {
        Command::Demo(demo) => demo.execute(),
        Command::Run(run) => run.execute(),
        Command::Attach(attach) => attach.execute(),
        Command::Detach(detach) => detach.execute(),
        Command::Flows(flows) => flows.execute(),
    };
    match answer {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("uc: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// `uc flows | head` ends quietly: Rust ignores SIGPIPE and would panic on the failed write.
fn restore_broken_pipe() {
    // SAFETY: called before any thread exists; installs the default action for one signal.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
