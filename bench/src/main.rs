//! `uc-bench`: Undercurrent's program for experiments. Exit status 0: done, or the answer is positive; 1: a negative
//! answer; 2: an error, which is one line on standard error.

use std::process::ExitCode;

use uc_bench::Arguments;

fn main() -> ExitCode {
    uc_program::run(Arguments::execute)
}
