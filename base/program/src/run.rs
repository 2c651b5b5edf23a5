//! A program from its command line to its exit status.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::out;

/// Parses the command line and executes it. Returns status 0 if `execute` returns true, 1 if it returns
/// false, and 2 after an error, which is printed in one line.
pub fn run<Arguments: Parser>(execute: impl FnOnce(Arguments) -> Result<bool>) -> ExitCode {
    restore_broken_pipe();
    out::name(Arguments::command().get_name());
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(said) => return say(&said),
    };
    let done = execute(arguments);
    out::flush();
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            out::warn(format_args!("{}", in_one_line(&error)));
            ExitCode::from(out::ERROR)
        }
    }
}

/// Prints help, the version, or an error of the command line; returns the exit status.
fn say(said: &clap::Error) -> ExitCode {
    let code = u8::try_from(said.exit_code()).unwrap_or(out::ERROR);
    match said.print() {
        Err(error) if !said.use_stderr() => ExitCode::from(out::status_of(&error)),
        _ => {
            out::flush();
            ExitCode::from(code)
        }
    }
}

/// Formats the error and its causes in one line without repetition: many errors include their
/// cause.
fn in_one_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text += ": ";
        }
        text += &cause;
    }
    text.replace('\n', " ")
}

/// Restores SIGPIPE's default action, so that `uc flows | head` ends quietly: Rust ignores the
/// signal and would panic on the failed write.
fn restore_broken_pipe() {
    // SAFETY: called before any thread exists; installs the default action for one signal.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
