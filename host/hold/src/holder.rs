//! The process of `uc hold`: it renews the heartbeat, takes the packets that the programs hand over, and sends packets
//! when they are due.
//!
//! While the heartbeat is fresh, packets of held flows go through the process. If the process is stopped or gets no
//! CPU, they pass once its last heartbeat is [`ALIVE_NS`] old. If it is killed, they pass once the kernel has detached
//! its programs. Packets that were in the process then are lost, and their senders retransmit them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::{RingBuffer, RingBufferBuilder};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use uc_port::{Source, now_ns};
use uc_service::commands::Key;
use uc_service::commands::hold::{Done, HeldFlow, PortSetup};

use crate::counts::Counts;
use crate::error::HoldError;
use crate::flow::Flow;
use crate::laws::Laws;
use crate::port::Port;
use crate::programs::Programs;
use crate::round_robin::take_of_each;
use crate::setup::settings;
use crate::work::Work;

/// Interval of the heartbeat; next line: time for which one heartbeat is valid.
const BEAT_NS: u64 = 10_000_000;
const ALIVE_NS: u64 = 50_000_000;
/// Number of packets that are taken at once from the ring of a port, when the process stops holding its packets.
const TAKEN_AT_ONCE: usize = 64;
/// Interval at which the ports are checked.
const CHECK_NS: u64 = 1_000_000_000;
/// Nice value of the process: before all ordinary ones, but not before the kernel's packet threads on
/// their processor for long, as a real-time priority would be.
const NICE: i32 = -20;
/// Counters of the process, not of a port.
const OF_PROCESS: [&str; 3] = ["passed", "syns_passed", "stalls"];

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
    /// Finds the ports' own programs.
    source: Source,
    /// Laws of the port's flows, for keeping data; `None`: no data is kept.
    laws: Option<Rc<Laws>>,
    ports: Vec<Served>,
    beat_ns: u64,
    checked_ns: u64,
    counts: Counts,
}

impl Holder {
    /// Starts to hold packets of these ports, in the calling thread's network namespace.
    ///
    /// # Errors
    /// A precondition that does not hold, or the kernel's refusal; then nothing stays attached.
    pub fn start(ports: &[PortSetup]) -> Result<Self, HoldError> {
        let mut holder = Self::new(Source::Pins)?;
        for port in ports {
            holder.add(port)?;
        }
        holder.beat()?;
        Ok(holder)
    }

    fn new(source: Source) -> Result<Self, HoldError> {
        let programs = Rc::new(Programs::load()?);
        be_prompt();
        let now = now_ns();
        Ok(Self {
            programs,
            source,
            laws: None,
            ports: Vec::new(),
            beat_ns: now,
            checked_ns: now,
            counts: Counts::default(),
        })
    }

    /// Returns the laws of the ports' flows, read from the programs that are pinned now.
    fn laws(&mut self) -> Result<Rc<Laws>, HoldError> {
        if let Some(laws) = &self.laws {
            laws.reopen();
            return Ok(Rc::clone(laws));
        }
        let laws = Rc::new(Laws::open(self.source.clone())?);
        self.laws = Some(Rc::clone(&laws));
        Ok(laws)
    }

    /// Stops holding a port's packets, if the process holds them: new packets pass, waiting ACKs are sent in order,
    /// and copies of data are dropped.
    fn remove(&mut self, ifindex: u32) -> Result<(), HoldError> {
        let is_it = |served: &Served| served.port.borrow().ifindex() == ifindex;
        let Some(at) = self.ports.iter().position(is_it) else {
            return Ok(());
        };
        self.programs.pass_at(ifindex);
        let served = self.ports.remove(at);
        while take_from(&served, TAKEN_AT_ONCE)? >= TAKEN_AT_ONCE {}
        served.port.borrow_mut().release(now_ns());
        self.counts += served.port.borrow().counts();
        self.programs.forget_port(ifindex);
        Ok(())
    }

    /// Renews the heartbeat: for [`ALIVE_NS`] from now, the programs hand packets over.
    fn beat(&mut self) -> Result<(), HoldError> {
        self.programs.be_alive(ALIVE_NS)?;
        self.beat_ns = now_ns();
        Ok(())
    }

    /// Takes some packets of each port, and sends packets that are due. Returns whether more packets may wait in a
    /// ring.
    fn take(&self) -> Result<bool, HoldError> {
        let is_more = take_of_each(&self.ports, take_from)?;
        let now = now_ns();
        for Served { port, .. } in &self.ports {
            port.borrow_mut().send_due(now);
        }
        Ok(is_more)
    }

    /// Takes all packets that the programs have handed over, sends the waiting ACKs, and drops the copies of data.
    fn release(&self) -> Result<(), HoldError> {
        while self.take()? {}
        for Served { port, .. } in &self.ports {
            port.borrow_mut().release(now_ns());
        }
        Ok(())
    }

    /// Stops holding ports whose interfaces are gone or that can't be held any more, and opens the laws of the
    /// programs that are pinned now.
    fn check(&mut self) -> Result<(), HoldError> {
        if let Some(laws) = &self.laws {
            laws.reopen();
        }
        let (mut at, mut failed) = (0, None);
        while let Some(Served { port, .. }) = self.ports.get(at) {
            let ifindex = port.borrow().ifindex();
            let is_there = port.borrow().check();
            match is_there {
                Ok(true) => at += 1,
                Ok(false) => self.remove(ifindex)?,
                Err(error) => {
                    self.remove(ifindex)?;
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) => Err(error),
            None if self.ports.is_empty() => Err(HoldError::NoPorts),
            None => Ok(()),
        }
    }

    /// Waits until the programs hand something over, but at most `most_ns` and one interval of the heartbeat.
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

    /// Returns the counters of all ports and of the process since its start.
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

    /// Returns the counters of a port since the process holds its packets; `None` if it does not hold them.
    fn counts_at(&self, ifindex: u32) -> Option<Counts> {
        self.port(ifindex).map(|port| port.borrow().counts())
    }

    /// Returns what is held of a flow; `None`: its packets pass.
    fn held(&self, (ifindex, guest, remote): Key) -> Option<HeldFlow> {
        let port = self.port(ifindex)?.borrow();
        port.held(&Flow::of(ifindex, guest, remote))
    }

    fn port(&self, ifindex: u32) -> Option<&RefCell<Port>> {
        let mut ports = self.ports.iter().map(|served| &*served.port);
        ports.find(|port| port.borrow().ifindex() == ifindex)
    }
}

impl Work for Holder {
    type Port = PortSetup;

    fn open(source: Source) -> Result<Self, HoldError> {
        let mut holder = Self::new(source)?;
        holder.beat()?;
        Ok(holder)
    }

    fn has(&self, ifindex: u32) -> bool {
        self.port(ifindex).is_some()
    }

    fn add(&mut self, port: &PortSetup) -> Result<(), HoldError> {
        let settings = settings(port);
        let laws = settings.buffer.map(|_| self.laws()).transpose()?;
        let port = Port::open(&self.programs, laws.as_ref(), &port.name, settings)?;
        let ifindex = port.ifindex();
        let served = serve(port)?;
        if let Err(error) = served.port.borrow_mut().attach() {
            self.programs.forget_port(ifindex);
            return Err(error);
        }
        self.ports.push(served);
        Ok(())
    }

    /// Stops holding the port's packets unless the new settings hold the same: waiting ACKs are sent and copies of
    /// data dropped, and if the port is added again, only connections that begin from then on are held.
    fn change(&mut self, before: &PortSetup, now: Option<&PortSetup>) -> Result<(), HoldError> {
        match now.is_some_and(|now| now.holds_as(before)) {
            true => Ok(()),
            false => self.remove(before.ifindex),
        }
    }

    /// Waits for packets, at most until the next heartbeat, and does all that is due. Returns 0, since it waits
    /// itself.
    fn step(&mut self) -> Result<Duration, HoldError> {
        let mut now = now_ns();
        if now >= self.beat_ns + ALIVE_NS {
            // Packets have passed meanwhile. Those that wait are older, so they leave now.
            self.counts.stalls += 1;
            self.release()?;
            now = now_ns();
        }
        if now >= self.beat_ns + BEAT_NS {
            self.beat()?;
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
            return Ok(Duration::ZERO);
        }
        let due = self.ports.iter();
        let due = due.filter_map(|served| served.port.borrow().next_at());
        let next = due.min().unwrap_or(u64::MAX).min(self.beat_ns + BEAT_NS);
        self.wait(next.saturating_sub(now_ns()));
        Ok(Duration::ZERO)
    }

    fn done(
        &self,
        ports: &[PortSetup],
        refused: BTreeMap<String, String>,
        flow: Option<Key>,
    ) -> Done {
        let counts = ports.iter().filter_map(|port| {
            let counts = self.counts_at(port.ifindex)?;
            let of_port = counts
                .named()
                .filter(|(name, _)| !OF_PROCESS.contains(name));
            let of_port = of_port.map(|(name, count)| (name.to_owned(), count));
            Some((port.name.clone(), of_port.collect()))
        });
        // A counter that can't be read is shown as 0.
        let all = self.counts().unwrap_or_default();
        Done {
            refused,
            counts: counts.collect(),
            passed: all.passed,
            stalls: all.stalls,
            flow: flow.and_then(|flow| self.held(flow)),
        }
    }

    /// Makes packets pass from now on, and sends all waiting ACKs in order.
    fn finish(&mut self) -> Result<(), HoldError> {
        self.programs.be_alive(0)?;
        self.release()?;
        // A program on another CPU may have read the old state just before.
        std::thread::sleep(Duration::from_millis(1));
        self.release()
    }
}

/// Takes at most `most` packets of a port; returns how many it took.
fn take_from(served: &Served, most: usize) -> Result<usize, HoldError> {
    let taken = served.ring.consume_raw_n(most);
    usize::try_from(taken).map_err(|_| {
        let error = std::io::Error::from_raw_os_error(-taken);
        HoldError::kernel("read packets from a port's ring buffer", error)
    })
}

/// Creates the reader of a port's ring, which hands each packet to the port.
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
