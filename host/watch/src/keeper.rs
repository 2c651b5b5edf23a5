//! Two processes: the keeper, and the holder as its child. Whichever of them is killed, what waits
//! is sent at once by the other.
//!
//! Both have the programs, the ports' links and the socket as descriptors of their own, and what
//! waits is in the kernel. So when the holder dies, however, the keeper sends everything and starts
//! another; when the keeper dies, the kernel tells the holder, which sends everything and ends, and
//! the ports are detached. Only if both are killed within the same few milliseconds does nobody
//! send what waited: the guests retransmit those handshakes after a second.

use std::io;
use std::time::Duration;

use libbpf_rs::MapCore;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getppid};

use crate::clock::now_ns;
use crate::error::WatchError;
use crate::holder::Holder;
use crate::inject::Injector;
use crate::programs::Programs;

/// How often the keeper looks after a holder that lives.
const LOOK_MS: u16 = 4;
/// What waits although its holder is silent for so long is the keeper's to send.
const SILENT_NS: u64 = 20_000_000;
/// How often what is over is cleared away.
const SWEEP_NS: u64 = 1_000_000_000;
/// A holder that dies younger than this is not started again at once, lest it does nothing else.
const YOUNG_NS: u64 = 100_000_000;

/// What is done every second, and when next.
struct EverySecond<'a> {
    at_ns: u64,
    is_over: &'a mut dyn FnMut() -> bool,
}

/// Looks after a holder.
#[derive(Debug)]
pub struct Keeper<'a> {
    programs: &'a Programs,
    injector: &'a Injector,
    signals: SignalFd,
}

impl<'a> Keeper<'a> {
    /// From here on the calling process takes SIGINT and SIGTERM as a wish to end.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn new(programs: &'a Programs, injector: &'a Injector) -> Result<Self, WatchError> {
        let mut mask = SigSet::empty();
        for signal in [
            Signal::SIGINT,
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGCHLD,
        ] {
            mask.add(signal);
        }
        let failed = |errno| WatchError::kernel("listen for signals", io::Error::from(errno));
        mask.thread_block().map_err(failed)?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&mask, flags).map_err(failed)?;
        Ok(Self {
            programs,
            injector,
            signals,
        })
    }

    /// Keeps a holder running until somebody wants an end: a signal, or `is_over`, which is asked
    /// every second. The calling process must have no other thread. Returns how many holders there
    /// were; when it returns, nothing waits any more.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn run(&self, is_over: &mut dyn FnMut() -> bool) -> Result<u32, WatchError> {
        let holder = Holder::new(self.programs, self.injector);
        let mut holders = 0;
        let mut every_second = EverySecond { at_ns: 0, is_over };
        loop {
            let born_ns = now_ns();
            let child = self.start(&holder)?;
            holders += 1;
            let ended = self.look_after(child, &holder, &mut every_second);
            // It may have been killed: what it had begun is nobody's now.
            holder.release_all();
            if ended {
                holder.end()?;
                return Ok(holders);
            }
            if now_ns() - born_ns < YOUNG_NS {
                self.programs.be_alive(0)?;
                holder.release_all();
                std::thread::sleep(Duration::from_nanos(YOUNG_NS));
                holder.release_all();
            }
        }
    }

    /// The child never returns from here.
    fn start(&self, holder: &Holder<'_>) -> Result<Pid, WatchError> {
        let keeper = nix::unistd::getpid();
        // SAFETY: this process has one thread, so the child's memory is whole.
        match unsafe { fork() } {
            Ok(ForkResult::Parent { child }) => Ok(child),
            Err(errno) => Err(WatchError::kernel("start a holder", io::Error::from(errno))),
            Ok(ForkResult::Child) => {
                let code = match self.hold(holder, keeper) {
                    Ok(()) => 0,
                    Err(error) => {
                        eprintln!("uc: the holder: {error}");
                        1
                    }
                };
                // SAFETY: ends the process without what the keeper has registered for its own end.
                unsafe { libc::_exit(code) }
            }
        }
    }

    /// The child's life.
    fn hold(&self, holder: &Holder<'_>, keeper: Pid) -> Result<(), WatchError> {
        prctl::set_pdeathsig(Signal::SIGTERM)
            .map_err(|errno| WatchError::kernel("outlive the keeper", io::Error::from(errno)))?;
        holder.run(&|| self.wants_end() || getppid() != keeper)
    }

    /// Returns whether a signal asked for the end; signals of children don't.
    fn wants_end(&self) -> bool {
        let mut wants = false;
        while let Ok(Some(signal)) = self.signals.read_signal() {
            wants |= signal.ssi_signo != Signal::SIGCHLD as u32;
        }
        wants
    }

    /// Until the child has died (false), or an end is wanted and the child has ended (true).
    fn look_after(
        &self,
        child: Pid,
        holder: &Holder<'_>,
        every_second: &mut EverySecond<'_>,
    ) -> bool {
        let (mut ending, mut over) = (false, false);
        loop {
            if (self.wants_end() || over) && !ending {
                ending = true;
                // It has ended already where this fails.
                let _gone = nix::sys::signal::kill(child, Signal::SIGTERM);
            }
            match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => {}
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_) => return ending,
                Ok(_) => {}
            }
            let now_ns = now_ns();
            if now_ns > self.programs.alive_until_ns().saturating_add(SILENT_NS)
                && self.programs.maps.held.keys().next().is_some()
            {
                holder.release_all();
            }
            if now_ns >= every_second.at_ns {
                self.programs.sweep(now_ns);
                over = (every_second.is_over)();
                every_second.at_ns = now_ns + SWEEP_NS;
            }
            let mut wait = [PollFd::new(
                std::os::fd::AsFd::as_fd(&self.signals),
                PollFlags::POLLIN,
            )];
            let _woken = poll(&mut wait, PollTimeout::from(LOOK_MS));
        }
    }
}
