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

/// Interval of the heartbeat, and the time for which one heartbeat is valid.
const BEAT_NS: u64 = 10_000_000;
const ALIVE_NS: u64 = 50_000_000;
/// Interval at which the ports are checked, and ended flows are removed from the programs' map.
const SWEEP_NS: u64 = 1_000_000_000;
/// Number of packets that are taken at once before due packets are sent.
const PACKETS_AT_ONCE: usize = 64;
/// Nice value of the process: it has priority over all ordinary processes. With a real-time priority it
/// could keep the kernel's packet threads from their CPU for long.
const NICE: i32 = -20;

type Shared = Rc<RefCell<Port>>;

/// The ports whose packets this process holds, and its programs. Dropping it detaches the programs.
#[derive(Debug)]
pub struct Holder {
    programs: Rc<Programs>,
    ports: Vec<Shared>,
    ring: RingBuffer<'static>,
    beat_ns: u64,
    swept_ns: u64,
    counts: Counts,
}

impl Holder {
    /// Takes ports of the calling thread's network namespace.
    ///
    /// # Errors
    /// A precondition that does not hold, or the kernel's refusal; then nothing stays attached.
    pub fn start(names: &[String], settings: Settings) -> Result<Self, HoldError> {
        let programs = Rc::new(Programs::load()?);
        let laws = Rc::new(Laws::open()?);
        let mut ports: Vec<Shared> = Vec::new();
        for (at, name) in names.iter().enumerate() {
            if !names[..at].contains(name) {
                let port = Port::open(&programs, &laws, name, settings)?;
                ports.push(Rc::new(RefCell::new(port)));
            }
        }
        let failed = |error| HoldError::libbpf("listen for packets", &error);
        let mut builder = RingBufferBuilder::new();
        let rings = ports
            .iter()
            .map(|port| programs.add_ring(port.borrow().ifindex(), settings.bytes_max))
            .collect::<Result<Vec<_>, _>>()?;
        for (port, ring) in ports.iter().zip(&rings) {
            let port = Rc::clone(port);
            let take = move |entry: &[u8]| {
                port.borrow_mut().receive(now_ns(), entry);
                0
            };
            builder.add(ring, take).map_err(failed)?;
        }
        let ring = builder.build().map_err(failed)?;
        be_prompt();
        // The marks first: the gate knows the process's frames by them.
        programs.be_alive(0)?;
        for port in &ports {
            port.borrow_mut().attach()?;
        }
        let now = now_ns();
        programs.be_alive(ALIVE_NS)?;
        Ok(Self {
            programs,
            ports,
            ring,
            beat_ns: now,
            swept_ns: now,
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
        }
        let is_more = self.take(PACKETS_AT_ONCE)?;
        if now >= self.swept_ns + SWEEP_NS {
            self.sweep()?;
            self.swept_ns = now;
        }
        if is_more {
            return Ok(());
        }
        let due = self.ports.iter().filter_map(|port| port.borrow().next_at());
        let next = due.min().unwrap_or(u64::MAX).min(self.beat_ns + BEAT_NS);
        self.wait(next.saturating_sub(now_ns()));
        Ok(())
    }

    /// Takes up to `most` packets from the rings, and sends what is due. Returns whether there may be more.
    fn take(&self, most: usize) -> Result<bool, HoldError> {
        let taken = self.ring.consume_raw_n(most);
        if taken < 0 {
            let error = std::io::Error::from_raw_os_error(-taken);
            return Err(HoldError::kernel("take packets from a ring", error));
        }
        let now = now_ns();
        for port in &self.ports {
            port.borrow_mut().send_due(now);
        }
        Ok(taken as usize >= most)
    }

    /// Takes and sends all that has been handed over or is held.
    fn release(&self) -> Result<(), HoldError> {
        while self.take(PACKETS_AT_ONCE)? {}
        for port in &self.ports {
            port.borrow_mut().release(now_ns());
        }
        Ok(())
    }

    /// Drops ports whose interfaces are gone, and removes ended flows from the programs' map.
    fn sweep(&mut self) -> Result<(), HoldError> {
        let mut left = Vec::new();
        for port in &self.ports {
            if port.borrow().check()? {
                port.borrow_mut().sweep();
                left.push(Rc::clone(port));
            } else {
                self.counts += port.borrow().counts();
                port.borrow_mut().detach();
            }
        }
        self.ports = left;
        match self.ports.is_empty() {
            true => Err(HoldError::NoPorts),
            false => Ok(()),
        }
    }

    /// Waits until the programs hand something over, but for at most `most_ns`.
    fn wait(&self, most_ns: u64) {
        // SAFETY: the descriptor belongs to the ring buffer, which outlives the borrow.
        let ready = unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) };
        let mut poll = [PollFd::new(ready.as_fd(), PollFlags::POLLIN)];
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
        for port in &self.ports {
            all += port.borrow().counts();
        }
        all.passed = self.programs.passed()?;
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

/// Asks the kernel for precise wake-ups and for a high priority. Without permission, the priority stays.
fn be_prompt() {
    // SAFETY: system calls with numbers, of the calling thread alone.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
}
