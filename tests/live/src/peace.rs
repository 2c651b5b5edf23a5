//! Measurements on hosts whose processors are shared with other work.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Interval at which a thread on each processor wakes up, to find out whether the processor runs threads.
const TICK: Duration = Duration::from_millis(1);
/// Delay of a wake-up from which on the processor counts as taken away by other work. Twenty packets, a whole queue,
/// take as long on the links of the tests.
const HELD_UP: Duration = Duration::from_millis(20);
const TRIES: u32 = 4;

/// Runs the body of a test that measures rates, queues or times. If it fails and a processor was taken away meanwhile,
/// the measurement is void, and the body runs again, four times in all. Any other failure counts at once, and so does
/// that of the fourth run.
///
/// # Panics
/// As `body` does, after a line with the command that repeats the test.
pub fn in_peace(body: impl Fn()) {
    for attempt in 1..=TRIES {
        let machine = Machine::watch();
        let result = catch_unwind(AssertUnwindSafe(&body));
        let held_up = machine.held_up();
        drop(machine);
        let Err(failure) = result else { return };
        if held_up < HELD_UP || attempt == TRIES {
            println!("repeat with: {}", command());
            resume_unwind(failure);
        }
        let held_up_ms = held_up.as_millis();
        println!("failed while this machine held threads up for {held_up_ms} ms: once more");
    }
}

/// Returns the command that repeats the test of this thread, to be run at the root of the repository.
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

/// Measures how long this machine delays threads, by a thread on each processor that wakes up at intervals. One
/// processor may be taken away while the others run.
#[derive(Debug)]
pub struct Machine {
    stop: Arc<AtomicBool>,
    threads: Vec<(Arc<Ticks>, JoinHandle<()>)>,
}

/// The wake-ups of one thread.
#[derive(Debug)]
struct Ticks {
    began: Instant,
    /// Time of the last wake-up since `began`, in nanoseconds.
    last_ns: AtomicU64,
    /// Maximum delay of a wake-up, in nanoseconds.
    late_ns: AtomicU64,
}

impl Machine {
    /// Starts to measure.
    pub fn watch() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let own = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
        let processors = (0..CpuSet::count()).filter(|cpu| own.is_set(*cpu) == Ok(true));
        let on = |cpu| {
            let ticks = Arc::new(Ticks::new());
            let (stop, own) = (Arc::clone(&stop), Arc::clone(&ticks));
            (ticks, thread::spawn(move || own.tick(cpu, &stop)))
        };
        let threads = processors.map(on).collect();
        Self { stop, threads }
    }

    /// Returns a measurement that all callers share; it ends when the last of them drops it.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Machine>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let machine = Arc::new(Self::watch());
            *shared = Arc::downgrade(&machine);
            machine
        })
    }

    /// Returns the maximum delay of a wake-up since the measurement began, including one that is overdue now.
    pub fn held_up(&self) -> Duration {
        let each = self.threads.iter().map(|(ticks, _)| ticks.late());
        each.max().unwrap_or(Duration::MAX)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for (_, thread) in self.threads.drain(..) {
            // A tick that panicked has been late since.
            let _ended = thread.join();
        }
    }
}

impl Ticks {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            last_ns: AtomicU64::new(0),
            late_ns: AtomicU64::new(0),
        }
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn late(&self) -> Duration {
        let since_ns = self
            .now_ns()
            .saturating_sub(self.last_ns.load(Ordering::Relaxed));
        let due_ns = since_ns.saturating_sub(TICK.as_nanos() as u64);
        Duration::from_nanos(due_ns.max(self.late_ns.load(Ordering::Relaxed)))
    }

    /// Wakes up at intervals on processor `cpu` until `stop` is set.
    fn tick(&self, cpu: usize, stop: &AtomicBool) {
        let mut only = CpuSet::new();
        if only.set(cpu).is_ok() {
            // A processor that was taken away meanwhile leaves the thread on any other.
            let _ = sched_setaffinity(Pid::from_raw(0), &only);
        }
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(TICK);
            let late_ns = self.late().as_nanos() as u64;
            self.late_ns.store(late_ns, Ordering::Relaxed);
            self.last_ns.store(self.now_ns(), Ordering::Relaxed);
        }
    }
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
    fn a_tick_that_does_not_come_is_late() {
        let ticks = Ticks::new();
        thread::sleep(Duration::from_millis(30));
        assert!(ticks.late() >= Duration::from_millis(29), "{ticks:?}");
    }

    #[test]
    fn all_share_one_watch_that_ends_with_the_last_of_them() {
        let first = Machine::shared();
        let second = Machine::shared();
        assert!(Arc::ptr_eq(&first, &second));
        let stop = Arc::clone(&first.stop);
        drop(first);
        assert!(!stop.load(Ordering::Relaxed));
        drop(second);
        assert!(stop.load(Ordering::Relaxed));
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
