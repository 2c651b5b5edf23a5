//! `uc`: Undercurrent's program. Exit status 0: done, or everything holds; 1: a negative answer;
//! 2: an error, in one line on standard error.

use std::process::ExitCode;

use clap::Parser;
use uc_cli::Arguments;

fn main() -> ExitCode {
    restore_broken_pipe();
    match Arguments::parse().execute() {
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
