//! Measurements on machines whose processors others take as well.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the machine is asked whether it lets threads run.
const TICK: Duration = Duration::from_millis(1);
/// It does not where a thread wakes up so much too late: as long as twenty packets take on the links
/// of the tests, which is a queue of theirs.
const HELD_UP: Duration = Duration::from_millis(20);
const TRIES: u32 = 4;

/// Runs the body of a test that measures rates, queues or times. Where it fails while this machine
/// held threads up, nothing was learnt of what it measures, and it runs again. A failure in peace is
/// one at once, and so is the fourth in a row.
///
/// # Panics
/// As `body` does.
pub fn in_peace(body: impl Fn()) {
    for _ in 1..TRIES {
        let machine = Machine::watch();
        let result = catch_unwind(AssertUnwindSafe(&body));
        let held_up = machine.held_up();
        let Err(failure) = result else { return };
        if held_up < HELD_UP {
            resume_unwind(failure);
        }
        let held_up_ms = held_up.as_millis();
        println!("failed while this machine held threads up for {held_up_ms} ms: once more");
    }
    body();
}

/// A thread that would wake up at each tick.
struct Machine {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Machine {
    fn watch() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut latest = Duration::ZERO;
            while !stopped.load(Ordering::Relaxed) {
                let since = Instant::now();
                std::thread::sleep(TICK);
                latest = latest.max(since.elapsed().saturating_sub(TICK));
            }
            latest
        });
        Self { stop, thread }
    }

    /// How late the thread was at worst. What can't be told was late without end.
    fn held_up(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_passes_runs_once_and_what_always_fails_fails() {
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
}
