//! Runs programs in turn and reports the processor time and the memory of each, against the first.
//!
//! `cargo run --release -p uc-port --example pairs -- TITLE NAME 'COMMAND …' NAME 'COMMAND …' …`
//!
//! A command is words separated by spaces; its output is discarded.

use std::error::Error;
use std::process::{Command, Stdio};

use uc_port::cost::Report;

/// Number of times that each program is run.
const ROUNDS: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let title = arguments
        .next()
        .ok_or("the first argument is missing: a title")?;
    let words: Vec<String> = arguments.collect();
    let mut programs = Vec::new();
    for pair in words.chunks(2) {
        let [name, command] = pair else {
            return Err(format!("the command after the name {} is missing", pair[0]).into());
        };
        programs.push((name, command, Vec::new(), Vec::new()));
    }
    for _ in 0..ROUNDS {
        for (_, command, times, sizes) in &mut programs {
            let (seconds, megabytes) = run(command)?;
            times.push(seconds);
            sizes.push(megabytes);
        }
    }
    let (base, rest) = programs.split_first().ok_or(
        "the arguments are a title, then pairs of NAME and COMMAND; give at least one pair",
    )?;
    let mut report = Report::new(title.leak());
    for (name, _, times, sizes) in rest {
        report.add(
            (&format!("processor, {name}"), times),
            "s",
            (base.0, &base.2),
        );
        report.add((&format!("memory, {name}"), sizes), "MB", (base.0, &base.3));
    }
    Ok(report.finish()?)
}

/// Runs a command to its end. Returns its processor time in seconds and its largest memory in MB.
fn run(command: &str) -> Result<(f64, f64), Box<dyn Error>> {
    let mut words = command.split(' ');
    let mut program = Command::new(words.next().unwrap_or_default());
    let child = program.args(words).stdout(Stdio::null()).spawn();
    let child = child.map_err(|error| format!("{command}: {error}"))?;
    let mut status = 0;
    // SAFETY: all zeroes are a valid struct of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values; nobody else waits for this child.
    let ended = unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut usage) };
    if ended < 0 || status != 0 {
        return Err(format!("{command} failed").into());
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let spent = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    Ok((spent, usage.ru_maxrss as f64 / 1024.0))
}
