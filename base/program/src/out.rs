//! Standard output and standard error. The standard library's `println!` panics if nothing can be
//! written, for instance into a closed pipe. `out!` and `outln!` end the process with a status
//! instead, `errln!` goes on, and clippy refuses the standard library's macros.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// Exit status of a command that ended with an error.
pub const ERROR: u8 = 2;
/// Exit status that a shell reports for a process ended by SIGPIPE, which may be blocked here.
const NOBODY_READS: u8 = 128 + 13;

static NAME: OnceLock<String> = OnceLock::new();

/// Prints a line on standard output, and ends the program if nobody reads it.
#[macro_export]
macro_rules! outln {
    () => {
        $crate::out::print(format_args!("\n"))
    };
    ($($text:tt)*) => {
        $crate::out::print(format_args!("{}\n", format_args!($($text)*)))
    };
}
/// Prints on standard output, without ending the line.
#[macro_export]
macro_rules! out {
    ($($text:tt)*) => {
        $crate::out::print(format_args!($($text)*))
    };
}
/// Prints a line on standard error, and goes on if that fails.
#[macro_export]
macro_rules! errln {
    ($($text:tt)*) => {
        $crate::out::complain(format_args!($($text)*))
    };
}

/// Sets the program's name, with which [`warn`] begins its lines. Only the first call counts.
pub fn name(name: &str) {
    NAME.get_or_init(|| name.to_owned());
}

/// Prints to standard output. Ends the process if that fails, for example at a closed pipe.
pub fn print(text: Arguments<'_>) {
    end_unless(io::stdout().lock().write_fmt(text));
}

/// Flushes standard output, so that a loss of buffered output is an error.
pub fn flush() {
    end_unless(io::stdout().lock().flush());
}

/// Prints a line on standard error; a failure can't be reported and is ignored.
pub fn complain(text: Arguments<'_>) {
    let _unheard = writeln!(io::stderr().lock(), "{text}");
}

/// Prints a line on standard error that begins with the program's name.
pub fn warn(text: Arguments<'_>) {
    let name = NAME.get().map_or("uc", String::as_str);
    complain(format_args!("{name}: {text}"));
}

/// Returns the exit status when output can't be written; a closed pipe is no error.
pub fn status_of(error: &io::Error) -> u8 {
    if error.kind() == ErrorKind::BrokenPipe {
        return NOBODY_READS;
    }
    warn(format_args!("could not write the output: {error}"));
    ERROR
}

fn end_unless(written: io::Result<()>) {
    if let Err(error) = written {
        std::process::exit(status_of(&error).into());
    }
}
