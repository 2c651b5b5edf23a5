//! Standard output and standard error. The standard library's `println!` panics where nothing can be
//! written, for instance into a pipe that nobody reads any more; `out!` and `outln!` end the process
//! with a status instead, `errln!` goes on, and clippy refuses the standard library's.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// Exit status after an error.
pub const ERROR: u8 = 2;
/// As a shell reports who was ended by SIGPIPE, which may be blocked.
const NOBODY_READS: u8 = 128 + 13;

/// Prints a line on standard output.
macro_rules! outln {
    () => {
        $crate::out::print(format_args!("\n"))
    };
    ($($text:tt)*) => {
        $crate::out::print(format_args!("{}\n", format_args!($($text)*)))
    };
}
/// Prints on standard output, without ending the line.
macro_rules! out {
    ($($text:tt)*) => {
        $crate::out::print(format_args!($($text)*))
    };
}
/// Prints a line on standard error.
macro_rules! errln {
    ($($text:tt)*) => {
        $crate::out::complain(format_args!($($text)*))
    };
}

/// Prints, or ends the process: whoever wants the output can't have it.
pub fn print(text: Arguments<'_>) {
    end_unless(io::stdout().lock().write_fmt(text));
}

/// Nothing is left in a buffer, where its loss would be no error.
pub fn flush() {
    end_unless(io::stdout().lock().flush());
}

/// A line on standard error. Where that can't be written to, there is nobody to be told.
pub fn complain(text: Arguments<'_>) {
    let _unheard = writeln!(io::stderr().lock(), "{text}");
}

/// Returns `uc`'s exit status when its output can't be written; a closed pipe is no error.
pub fn status_of(error: &io::Error) -> u8 {
    if error.kind() == ErrorKind::BrokenPipe {
        return NOBODY_READS;
    }
    complain(format_args!("uc: could not write the output: {error}"));
    ERROR
}

fn end_unless(written: io::Result<()>) {
    if let Err(error) = written {
        std::process::exit(status_of(&error).into());
    }
}
