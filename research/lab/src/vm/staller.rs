//! Stalls: takes a VM's CPU away and gives it back, as a host does that has fewer CPUs than guests.
//!
//! Only the thread that executes the guest's instructions is stopped, nothing else of QEMU:
//! arriving packets are queued by the backend as by any hypervisor's, and the guest's clocks go on,
//! so that its timers expire meanwhile. The thread is stopped as a debugger would (ptrace(2)): if
//! this process dies, the kernel releases the thread, and no process group is left frozen. Between
//! two stalls it is not traced at all.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::realtime::be_realtime;
use crate::turns::Turns;
use crate::vm::error::{VmError, resource};
use crate::vm::machine::Machine;

/// Time limit for a thread to stop.
const STOP_BOUND: Duration = Duration::from_secs(1);
/// Interval at which a sleep checks whether the staller is to end.
const LOOK: Duration = Duration::from_millis(20);

/// Counters of the stalls of one guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Number of stalls.
    pub count: u64,
    /// Total length of the stalls.
    pub frozen: Duration,
    /// Largest delay of the start or end of a stall.
    pub late_max: Duration,
}

impl Stalls {
    /// Returns the sums over several guests, by counter name.
    pub fn counters(all: &[Self]) -> BTreeMap<String, u64> {
        let late_max = all.iter().map(|stalls| stalls.late_max).max();
        let frozen = all.iter().map(|stalls| stalls.frozen).sum::<Duration>();
        BTreeMap::from([
            (
                "vm_stalls".into(),
                all.iter().map(|stalls| stalls.count).sum(),
            ),
            ("vm_stalled_ms".into(), frozen.as_millis() as u64),
            (
                "vm_stall_late_max_us".into(),
                late_max.unwrap_or_default().as_micros() as u64,
            ),
        ])
    }
}

/// The thread that stalls a guest's CPU, until this value is dropped or finished.
#[derive(Debug)]
pub struct Staller {
    node: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Stalls, VmError>>>,
}

impl Staller {
    /// Starts stalls at the given times after `epoch`.
    ///
    /// # Errors
    /// [`VmError::Stall`] when the VM has no CPU, or [`VmError::Resource`].
    pub fn start(machine: &Machine, turns: Turns, epoch: Instant) -> Result<Self, VmError> {
        let stop = Arc::new(AtomicBool::new(false));
        let life = Life {
            node: machine.node().into(),
            thread: Pid::from_raw(machine.processor()?),
            epoch,
            stop: Arc::clone(&stop),
        };
        let thread = thread::Builder::new()
            .name("uc-staller".into())
            .spawn(move || life.run(turns))
            .map_err(resource("start a thread"))?;
        Ok(Self {
            node: machine.node().into(),
            stop,
            thread: Some(thread),
        })
    }

    /// Returns whether the thread has ended early; [`Staller::finish`] gives the reason.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Gives the CPU back for good.
    ///
    /// # Errors
    /// The error that ended the thread early.
    pub fn finish(mut self) -> Result<Stalls, VmError> {
        self.join().unwrap_or_else(|| {
            Err(VmError::Stall {
                node: self.node.clone(),
                action: "given back",
                source: io::Error::other("its thread panicked"),
            })
        })
    }

    fn join(&mut self) -> Option<Result<Stalls, VmError>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Staller {
    fn drop(&mut self) {
        self.join();
    }
}

/// The state of a staller's thread. Only the thread that stopped another can release it.
struct Life {
    node: String,
    thread: Pid,
    epoch: Instant,
    stop: Arc<AtomicBool>,
}

impl Life {
    fn run(self, turns: Turns) -> Result<Stalls, VmError> {
        // Without the right to real-time priority stalls are less punctual, which is counted.
        be_realtime();
        let mut stalls = Stalls::default();
        for (from_ns, to_ns) in turns {
            let (from, to) = (self.at(from_ns), self.at(to_ns));
            // A stall that was missed altogether is not made up for.
            if Instant::now() > to {
                continue;
            }
            if !self.sleep_until(from) {
                break;
            }
            let taken = self.take()?;
            let wanted = self.sleep_until(to);
            self.give_back()?;
            let given = Instant::now();
            stalls.count += 1;
            stalls.frozen += given - taken;
            let late = taken.saturating_duration_since(from);
            stalls.late_max = stalls.late_max.max(late);
            if !wanted {
                break;
            }
            stalls.late_max = stalls.late_max.max(given.saturating_duration_since(to));
        }
        Ok(stalls)
    }

    fn at(&self, since_epoch_ns: u64) -> Instant {
        self.epoch + Duration::from_nanos(since_epoch_ns)
    }

    /// Sleeps until `due`; returns `false` when the staller is to end.
    fn sleep_until(&self, due: Instant) -> bool {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(LOOK));
        }
    }

    /// Stops the guest's thread, and returns the time at which it had stopped.
    fn take(&self) -> Result<Instant, VmError> {
        let failed = |errno: nix::Error| self.failed("taken away", errno.into());
        ptrace::seize(self.thread, ptrace::Options::PTRACE_O_EXITKILL).map_err(|errno| {
            let why = format!("{errno}; run it as root, or with CAP_SYS_PTRACE");
            match errno {
                nix::Error::EPERM => self.failed("taken away", io::Error::other(why)),
                other => failed(other),
            }
        })?;
        ptrace::interrupt(self.thread).map_err(failed)?;
        let start = Instant::now();
        let flags = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
        loop {
            match waitpid(self.thread, Some(flags)).map_err(failed)? {
                WaitStatus::PtraceEvent(..) => return Ok(Instant::now()),
                // A signal was pending: it is forwarded, and the stop comes after it.
                WaitStatus::Stopped(_, signal) => {
                    ptrace::cont(self.thread, signal).map_err(failed)?;
                }
                WaitStatus::StillAlive if start.elapsed() < STOP_BOUND => {
                    thread::sleep(Duration::from_micros(20));
                }
                WaitStatus::StillAlive => {
                    let why = "its thread did not stop within a second; run fewer VMs at once";
                    return Err(self.failed("taken away", io::Error::other(why)));
                }
                _ => {
                    let why = "its thread has ended: QEMU died";
                    return Err(self.failed("taken away", io::Error::other(why)));
                }
            }
        }
    }

    fn give_back(&self) -> Result<(), VmError> {
        let given = ptrace::detach(self.thread, None);
        given.map_err(|errno| self.failed("given back", errno.into()))
    }

    fn failed(&self, action: &'static str, source: io::Error) -> VmError {
        VmError::Stall {
            node: self.node.clone(),
            action,
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use uc_experiment::{Hypervisor, Nanos};

    use super::*;

    /// A child process that sleeps, and ends with the test.
    struct Busy(Child);

    impl Busy {
        fn start() -> Self {
            let mut command = Command::new("sleep");
            Self(command.arg("600").stdin(Stdio::null()).spawn().unwrap())
        }

        /// Returns the value of a line of its /proc/…/status.
        fn status(&self, key: &str) -> String {
            let text = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
            let value = text
                .lines()
                .find_map(|line| line.strip_prefix(key))
                .unwrap();
            value.trim_start_matches(':').trim().to_owned()
        }

        fn life(&self, stop: &Arc<AtomicBool>) -> Life {
            Life {
                node: "busy".into(),
                thread: Pid::from_raw(self.0.id() as i32),
                epoch: Instant::now(),
                stop: Arc::clone(stop),
            }
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            // A test may have ended it already.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn turns(vms: u32) -> Turns {
        let shared = Hypervisor {
            vms,
            slice: Nanos(20_000_000),
            ..Hypervisor::default()
        };
        Turns::new(&shared, "busy", 0, 1)
    }

    #[test]
    fn a_thread_stops_during_stalls_and_continues_untraced() {
        let (busy, stop) = (Busy::start(), Arc::new(AtomicBool::new(false)));
        let life = busy.life(&stop);
        let runner = thread::spawn(move || life.run(turns(4)));
        let start = Instant::now();
        while !busy.status("State").starts_with('t') {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "the thread never stopped"
            );
        }
        stop.store(true, Ordering::Relaxed);
        let stalls = runner.join().unwrap().unwrap();
        assert!(stalls.count >= 1, "{stalls:?}");
        assert_eq!(busy.status("TracerPid"), "0");
        assert!(
            !busy.status("State").starts_with('t'),
            "{}",
            busy.status("State")
        );
    }

    #[test]
    fn a_missing_thread_is_an_error_that_names_the_guest() {
        let stop = Arc::new(AtomicBool::new(false));
        let mut busy = Busy::start();
        let life = busy.life(&stop);
        busy.0.kill().unwrap();
        busy.0.wait().unwrap();
        let error = life.run(turns(2)).unwrap_err().to_string();
        assert!(
            error.contains("busy") && error.contains("taken away"),
            "{error}"
        );
    }
}
