//! Two processes: the keeper, and the holder as its child. If either is killed, the other sends the
//! waiting handshakes at once.
//!
//! Both have descriptors of the programs, the ports' links and the socket, and waiting handshakes
//! are in the kernel. So when the holder dies, for any reason, the keeper sends everything and
//! starts another. When the keeper dies, the kernel signals the holder, which sends everything and
//! ends, and the ports are detached. Only if both are killed within the same few milliseconds are
//! waiting handshakes lost: the guests retransmit them after a second.

use std::io;
use std::time::Duration;

use libbpf_rs::MapCore;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getppid};

use crate::asking::Asker;
use crate::clock::now_ns;
use crate::error::WatchError;
use crate::holder::Holder;
use crate::inject::Injector;
use crate::programs::Programs;

/// Interval at which the keeper checks a living holder.
const LOOK_MS: u16 = 4;
/// Time after which the keeper sends what a silent holder holds.
const SILENT_NS: u64 = 20_000_000;
/// Interval at which finished entries are removed.
const SWEEP_NS: u64 = 1_000_000_000;
/// Minimum age of a holder: if it dies earlier, the next one starts after a pause, so that the
/// keeper does more than restart holders.
const YOUNG_NS: u64 = 100_000_000;

/// What a keeper does next. If several things are asked for, it does the last of them in this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Next {
    /// The holder goes on.
    GoOn,
    /// Ports came or went: another holder is started, which has their links.
    Renew,
    /// The holder ends, and then the keeper.
    End,
}

/// Further work of a keeper, which it does between two checks of its holder.
pub trait Duties {
    /// Called each time that the keeper checks its holder, about every 4 ms. Returns what the keeper does next.
    fn look(&mut self) -> Next {
        Next::GoOn
    }

    /// Called once a second. Returns what the keeper does next.
    fn each_second(&mut self) -> Next;
}

/// Supervises the process that holds handshakes.
#[derive(Debug)]
pub struct Keeper<'a> {
    programs: &'a Programs,
    injector: &'a Injector,
    asker: Option<&'a Asker>,
    signals: SignalFd,
}

impl<'a> Keeper<'a> {
    /// Creates a keeper. From here on SIGINT, SIGTERM and SIGHUP no longer end the calling process: [`Keeper::run`]
    /// ends in order.
    ///
    /// # Errors
    /// The kernel's refusal.
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
            asker: None,
            signals,
        })
    }

    /// Makes the holders ask a granter for first windows, if there is one.
    #[must_use]
    pub fn asking(mut self, asker: Option<&'a Asker>) -> Self {
        self.asker = asker;
        self
    }

    /// Keeps a holder running until a signal or `duties` ask for the end. The calling process must have no
    /// other thread. Returns how many holders there were; when it returns, no handshake waits any more.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn run(&self, duties: &mut dyn Duties) -> Result<u32, WatchError> {
        let holder = Holder::new(self.programs, self.injector).asking(self.asker);
        let mut holders = 0;
        let mut second_at_ns = 0;
        loop {
            let born_ns = now_ns();
            let child = self.start(&holder)?;
            holders += 1;
            let next = self.look_after(child, &holder, duties, &mut second_at_ns);
            // The holder may have been killed: the keeper completes its work.
            holder.release_all();
            if next == Next::End {
                holder.end()?;
                return Ok(holders);
            }
            if next == Next::GoOn && now_ns() - born_ns < YOUNG_NS {
                self.programs.be_alive(0)?;
                holder.release_all();
                std::thread::sleep(Duration::from_nanos(YOUNG_NS));
                holder.release_all();
            }
        }
    }

    /// Starts a holder in a child process; the child never returns from here.
    fn start(&self, holder: &Holder<'_>) -> Result<Pid, WatchError> {
        let keeper = nix::unistd::getpid();
        // SAFETY: this process has one thread, so the child's memory is whole.
        match unsafe { fork() } {
            Ok(ForkResult::Parent { child }) => Ok(child),
            Err(errno) => Err(WatchError::kernel(
                "start a process that holds the port's handshakes",
                io::Error::from(errno),
            )),
            Ok(ForkResult::Child) => {
                let code = match self.hold(holder, keeper) {
                    Ok(()) => 0,
                    Err(error) => {
                        eprintln!("uc: the holder: {error}");
                        1
                    }
                };
                // SAFETY: ends the process without the exit handlers that the keeper has
                // registered.
                unsafe { libc::_exit(code) }
            }
        }
    }

    /// Runs the worker that holds handshakes, in the child process.
    fn hold(&self, holder: &Holder<'_>, keeper: Pid) -> Result<(), WatchError> {
        prctl::set_pdeathsig(Signal::SIGTERM).map_err(|errno| {
            WatchError::kernel(
                "ask for a signal when the keeper ends",
                io::Error::from(errno),
            )
        })?;
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

    /// Waits until the child has ended. Returns why the child was asked to end; [`Next::GoOn`] if it was not asked.
    fn look_after(
        &self,
        child: Pid,
        holder: &Holder<'_>,
        duties: &mut dyn Duties,
        second_at_ns: &mut u64,
    ) -> Next {
        let mut next = Next::GoOn;
        loop {
            let mut wanted = match self.wants_end() {
                true => Next::End,
                false => duties.look(),
            };
            if now_ns() >= *second_at_ns {
                self.programs.sweep(now_ns());
                wanted = wanted.max(duties.each_second());
                *second_at_ns = now_ns() + SWEEP_NS;
            }
            if next == Next::GoOn && wanted != Next::GoOn {
                // Fails if it has ended already.
                let _gone = nix::sys::signal::kill(child, Signal::SIGTERM);
            }
            next = next.max(wanted);
            match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => {}
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_) => return next,
                Ok(_) => {}
            }
            if now_ns() > self.programs.alive_until_ns().saturating_add(SILENT_NS)
                && self.programs.maps.held.keys().next().is_some()
            {
                holder.release_all();
            }
            let mut wait = [PollFd::new(
                std::os::fd::AsFd::as_fd(&self.signals),
                PollFlags::POLLIN,
            )];
            let _woken = poll(&mut wait, PollTimeout::from(LOOK_MS));
        }
    }
}
