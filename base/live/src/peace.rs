//! Measurements on hosts whose processors are shared with other work.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// How often each processor is asked whether it lets threads run.
const TICK: Duration = Duration::from_millis(1);
/// Delay of a thread's wake-up from which a measurement is void: twenty packets take as long on the
/// links of the tests, which is as much as their queues hold.
const HELD_UP: Duration = Duration::from_millis(20);
const TRIES: u32 = 4;

/// Runs the body of a test that measures rates, queues or times. If it fails while the host held
/// threads up, the measurement is void, and the body runs again. Other failures count at once, and
/// so does the fourth in a row.
///
/// # Panics
/// As `body` does, after a line with the command that repeats the test.
pub fn in_peace(body: impl Fn()) {
    for attempt in 1..=TRIES {
        let machine = Machine::watch();
        let result = catch_unwind(AssertUnwindSafe(&body));
        let held_up = machine.held_up();
        let Err(failure) = result else { return };
        if held_up < HELD_UP || attempt == TRIES {
            println!("repeat with: {}", command());
            resume_unwind(failure);
        }
        let held_up_ms = held_up.as_millis();
        println!("failed while this machine held threads up for {held_up_ms} ms: once more");
    }
}

/// The command that repeats the test of this thread, from the root of the tree.
fn command() -> String {
    let program = std::env::args().next().unwrap_or_default();
    let file = Path::new(&program).file_name().unwrap_or_default();
    let file = file.to_string_lossy();
    // without cargo's hash
    let target = file.rsplit_once('-').map_or(&*file, |(target, _)| target);
    // A thread that a test made has no name: then all tests of the program.
    let thread = thread::current();
    let test = thread.name().map(|test| format!(" -- --exact {test}"));
    format!("cargo test --test {target}{}", test.unwrap_or_default())
}

/// A thread on each processor that would wake up at each tick: one processor may be held up while
/// the others run.
struct Machine {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Duration>>,
}

impl Machine {
    fn watch() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let own = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
        let processors = (0..CpuSet::count()).filter(|cpu| own.is_set(*cpu) == Ok(true));
        let on = |cpu| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || latest_tick(cpu, &stop))
        };
        let threads = processors.map(on).collect();
        Self { stop, threads }
    }

    /// Stops the threads and returns their longest delay; [`Duration::MAX`] if it is unknown.
    fn held_up(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let each = self.threads.into_iter();
        let each = each.map(|thread| thread.join().unwrap_or(Duration::MAX));
        each.max().unwrap_or(Duration::MAX)
    }
}

/// Sleeps on one processor until `stop` is set. Returns this thread's longest delay after a tick.
fn latest_tick(cpu: usize, stop: &AtomicBool) -> Duration {
    let mut only = CpuSet::new();
    if only.set(cpu).is_ok() {
        // A processor that was taken away meanwhile leaves the thread on any other.
        let _ = sched_setaffinity(Pid::from_raw(0), &only);
    }
    let mut latest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let since = Instant::now();
        thread::sleep(TICK);
        latest = latest.max(since.elapsed().saturating_sub(TICK));
    }
    latest
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn passing_body_runs_once_and_failing_body_fails() {
        let runs = Cell::new(0);
        in_peace(|| runs.set(runs.get() + 1));
        assert_eq!(runs.get(), 1);
        runs.set(0);
        let failing = || {
            runs.set(runs.get() + 1);
            panic!("as it should");
        };
        assert!(catch_unwind(AssertUnwindSafe(|| in_peace(failing))).is_err());
        assert!((1..=TRIES).contains(&runs.get()), "{} runs", runs.get());
    }

    #[test]
    fn every_processor_is_watched_and_the_command_names_this_test() {
        let machine = Machine::watch();
        // A quota leaves fewer than there are.
        let processors = thread::available_parallelism().unwrap().get();
        assert!(machine.threads.len() >= processors);
        assert!(machine.held_up() < Duration::MAX);
        let command = command();
        assert!(
            command.starts_with("cargo test --test uc_live"),
            "{command}"
        );
        let own = "the_command_names_this_test";
        assert!(command.ends_with(own), "{command}");
    }
}
