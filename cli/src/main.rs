//! `uc`: Undercurrent's program for hosts and guests. Exit status 0: done, or everything holds; 1: a
//! negative answer; 2: an error, in one line on standard error.

use std::process::ExitCode;

use uc_cli::Arguments;

fn main() -> ExitCode {
    uc_program::run(Arguments::execute)
}
