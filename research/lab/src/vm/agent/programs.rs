//! Programs that the host runs in the guest.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::vm::message::{Done, OUTPUT_BYTES_MAX, Ran};

/// Interval at which a running program is polled.
const LOOK: Duration = Duration::from_millis(5);

/// Runs a program to its end, or kills it at its time limit.
pub fn run(arguments: &[String], input: &str, seconds: u64) -> Done<Ran> {
    let mut child = command(arguments)?
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", arguments[0]))?;
    let stdout = child.stdout.take().map(reader);
    let stderr = child.stderr.take().map(reader);
    if let Some(mut pipe) = child.stdin.take() {
        // A program that doesn't read its input reports itself what it misses.
        let _ = pipe.write_all(input.as_bytes());
    }
    let status = wait(&mut child, Duration::from_secs(seconds))?;
    Ok(Ran {
        status,
        stdout: text_of(stdout),
        stderr: text_of(stderr),
    })
}

/// Starts a program that runs on; its output goes to the console.
pub fn start(arguments: &[String]) -> Done<()> {
    let console = || {
        let file = std::fs::OpenOptions::new().write(true).open("/dev/console");
        file.map_err(|error| format!("/dev/console: {error}"))
    };
    let child = command(arguments)?
        .stdin(Stdio::null())
        .stdout(console()?)
        .stderr(console()?)
        .spawn()
        .map_err(|error| format!("{}: {error}", arguments[0]))?;
    // The VM ends with its first process, so no process need wait for the program.
    drop(child);
    Ok(())
}

fn command(arguments: &[String]) -> Done<Command> {
    let (program, rest) = arguments
        .split_first()
        .ok_or("the request names no program to run")?;
    let mut command = Command::new(program);
    command.args(rest);
    Ok(command)
}

fn wait(child: &mut Child, limit: Duration) -> Done<Option<i32>> {
    let start = Instant::now();
    loop {
        let ended = child.try_wait().map_err(|error| error.to_string())?;
        if let Some(status) = ended {
            return Ok(status.code());
        }
        if start.elapsed() > limit {
            child.kill().map_err(|error| error.to_string())?;
        }
        thread::sleep(LOOK);
    }
}

/// Reads all output, so that the program never blocks on it, and keeps its first [`OUTPUT_BYTES_MAX`] bytes.
fn reader(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            let room = OUTPUT_BYTES_MAX.saturating_sub(kept.len());
            kept.extend_from_slice(&buffer[..count.min(room)]);
        }
        kept
    })
}

fn text_of(reader: Option<JoinHandle<Vec<u8>>>) -> String {
    let bytes = reader.and_then(|reader| reader.join().ok());
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn run_passes_input_and_returns_output_and_status() {
        let ran = run(&words(&["sh", "-c", "cat; echo no >&2; exit 3"]), "yes", 10).unwrap();
        assert_eq!(
            (ran.status, &ran.stdout[..], &ran.stderr[..]),
            (Some(3), "yes", "no\n")
        );
    }

    #[test]
    fn a_program_beyond_its_limit_is_killed_and_a_missing_one_is_named() {
        let ran = run(&words(&["sleep", "600"]), "", 0).unwrap();
        assert_eq!(ran.status, None);
        let error = run(&words(&["/no/such/program"]), "", 1).unwrap_err();
        assert!(error.contains("/no/such/program"), "{error}");
        assert!(run(&[], "", 1).is_err());
    }
}
