//! The process that holds: it renews the heartbeat, takes what the programs hand over, and sends what is
//! due.
//!
//! While the heartbeat is fresh, packets of held flows go through the process. If the process is stopped or
//! gets no CPU, they pass once its last heartbeat is [`ALIVE_NS`] old. If it is killed, they pass once the
//! kernel has detached its programs. Packets that were in the process then are lost, and their senders
//! retransmit them.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::{RingBuffer, RingBufferBuilder};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use uc_hold::Settings;
use uc_port::now_ns;

use crate::counts::Counts;
use crate::error::HoldError;
use crate::laws::Laws;
use crate::port::Port;
use crate::programs::Programs;
use crate::turns::take_of_each;

/// Interval of the heartbeat, and the time for which one heartbeat is valid.
const BEAT_NS: u64 = 10_000_000;
const ALIVE_NS: u64 = 50_000_000;
/// Interval at which the ports are checked.
const CHECK_NS: u64 = 1_000_000_000;
/// Nice value of the process: before all ordinary ones, but not before the kernel's packet threads on
/// their processor for long, as a real-time priority would be.
const NICE: i32 = -20;

/// A port, and the ring from which it takes packets.
#[derive(Debug)]
struct Served {
    port: Rc<RefCell<Port>>,
    ring: RingBuffer<'static>,
}

/// The ports whose packets this process holds, and its programs. Dropping it detaches the programs.
#[derive(Debug)]
pub struct Holder {
    programs: Rc<Programs>,
    /// `None`: no data is kept.
    laws: Option<Rc<Laws>>,
    ports: Vec<Served>,
    beat_ns: u64,
    checked_ns: u64,
    counts: Counts,
}

impl Holder {
    /// Takes ports of the calling thread's network namespace.
    ///
    /// # Errors
    /// A precondition that does not hold, or the kernel's refusal; then nothing stays attached.
    pub fn start(names: &[String], settings: Settings) -> Result<Self, HoldError> {
        let programs = Rc::new(Programs::load()?);
        let laws = settings.buffer.map(|_| Laws::open().map(Rc::new));
        let laws = laws.transpose()?;
        let mut ports = Vec::new();
        for (at, name) in names.iter().enumerate() {
            if !names[..at].contains(name) {
                ports.push(Port::open(&programs, laws.as_ref(), name, settings)?);
            }
        }
        let ports = ports.into_iter().map(serve);
        let ports = ports.collect::<Result<Vec<Served>, HoldError>>()?;
        be_prompt();
        for Served { port, .. } in &ports {
            port.borrow_mut().attach()?;
        }
        let now = now_ns();
        programs.be_alive(ALIVE_NS)?;
        Ok(Self {
            programs,
            laws,
            ports,
            beat_ns: now,
            checked_ns: now,
            counts: Counts::default(),
        })
    }

    /// Waits for packets, at most until the next heartbeat, and does all that is due.
    ///
    /// # Errors
    /// The process cannot go on: [`HoldError::Behind`], [`HoldError::NoPorts`], or the kernel's refusal.
    /// [`Holder::finish`] then still releases what is held.
    pub fn step(&mut self) -> Result<(), HoldError> {
        let mut now = now_ns();
        if now >= self.beat_ns + ALIVE_NS {
            // Packets have passed meanwhile. Those that wait are older, so they leave now.
            self.counts.stalls += 1;
            self.release()?;
            now = now_ns();
        }
        if now >= self.beat_ns + BEAT_NS {
            self.programs.be_alive(ALIVE_NS)?;
            self.beat_ns = now;
            for Served { port, .. } in &self.ports {
                port.borrow_mut().sweep(now);
            }
        }
        let is_more = self.take()?;
        if now >= self.checked_ns + CHECK_NS {
            self.check()?;
            self.checked_ns = now;
        }
        if is_more {
            return Ok(());
        }
        let due = self.ports.iter();
        let due = due.filter_map(|served| served.port.borrow().next_at());
        let next = due.min().unwrap_or(u64::MAX).min(self.beat_ns + BEAT_NS);
        self.wait(next.saturating_sub(now_ns()));
        Ok(())
    }

    /// Takes some packets of each port, and sends what is due. Returns whether there may be more.
    fn take(&self) -> Result<bool, HoldError> {
        let is_more = take_of_each(&self.ports, |served, most| {
            let taken = served.ring.consume_raw_n(most);
            usize::try_from(taken).map_err(|_| {
                let error = std::io::Error::from_raw_os_error(-taken);
                HoldError::kernel("take packets from a ring", error)
            })
        })?;
        let now = now_ns();
        for Served { port, .. } in &self.ports {
            port.borrow_mut().send_due(now);
        }
        Ok(is_more)
    }

    /// Takes and sends all that has been handed over or is held.
    fn release(&self) -> Result<(), HoldError> {
        while self.take()? {}
        for Served { port, .. } in &self.ports {
            port.borrow_mut().release(now_ns());
        }
        Ok(())
    }

    /// Drops ports whose interfaces are gone, and finds the laws that are in force now.
    fn check(&mut self) -> Result<(), HoldError> {
        if let Some(laws) = &self.laws {
            laws.reopen();
        }
        let mut at = 0;
        while let Some(Served { port, .. }) = self.ports.get(at) {
            if port.borrow().check()? {
                at += 1;
            } else {
                port.borrow_mut().release(now_ns());
                self.counts += port.borrow().counts();
                port.borrow_mut().detach();
                self.ports.remove(at);
            }
        }
        match self.ports.is_empty() {
            true => Err(HoldError::NoPorts),
            false => Ok(()),
        }
    }

    /// Waits until the programs hand something over, but for at most `most_ns`.
    fn wait(&self, most_ns: u64) {
        // SAFETY: the descriptors belong to the rings, which outlive the borrows.
        let ready = |served: &Served| unsafe { BorrowedFd::borrow_raw(served.ring.epoll_fd()) };
        let ready: Vec<_> = self.ports.iter().map(ready).collect();
        let poll = ready.iter();
        let mut poll: Vec<_> = poll
            .map(|ready| PollFd::new(ready.as_fd(), PollFlags::POLLIN))
            .collect();
        let most = TimeSpec::from_duration(Duration::from_nanos(most_ns.min(BEAT_NS)));
        // A signal interrupts the wait. The caller checks everything anyway.
        let _woken = ppoll(&mut poll, Some(most), None);
    }

    /// Returns what was done since the start.
    ///
    /// # Errors
    /// The kernel's refusal to read a counter.
    pub fn counts(&self) -> Result<Counts, HoldError> {
        let mut all = self.counts;
        for Served { port, .. } in &self.ports {
            all += port.borrow().counts();
        }
        let passed = self.programs.passed()?;
        all.passed = passed.packets;
        all.syns_passed = passed.syns;
        Ok(all)
    }

    /// Makes packets pass from now on, sends all waiting ACKs in order, and detaches the programs. Returns
    /// what was done since the start.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn finish(self) -> Result<Counts, HoldError> {
        self.programs.be_alive(0)?;
        self.release()?;
        // A program on another CPU may have read the old state just before.
        std::thread::sleep(Duration::from_millis(1));
        self.release()?;
        self.counts()
    }
}

/// Takes what is handed over in a port's ring.
fn serve(port: Port) -> Result<Served, HoldError> {
    let failed = |error| HoldError::libbpf("listen for packets", &error);
    let port = Rc::new(RefCell::new(port));
    let receiver = Rc::clone(&port);
    let take = move |entry: &[u8]| {
        receiver.borrow_mut().receive(now_ns(), entry);
        0
    };
    let taken = port.borrow();
    let mut builder = RingBufferBuilder::new();
    builder.add(taken.ring(), take).map_err(failed)?;
    let ring = builder.build().map_err(failed)?;
    drop(taken);
    Ok(Served { port, ring })
}

/// Makes the kernel wake this process soon and exactly. Without the permission, nothing changes.
fn be_prompt() {
    // SAFETY: system calls with numbers, of the calling thread alone.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
}
