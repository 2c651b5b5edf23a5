//! The loop of the emulator's thread: read, inject, advance, write, sleep.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use uc_experiment::{LinkTotals, QueueSample};
use uc_net::{DropReason, FlowCounts, HostId, LinkId, Nanos, Network, Packet, Sink};

use crate::ack_gaps::AckGaps;
use crate::clock;
use crate::emulation::Emulation;
use crate::error::LabError;
use crate::flow::{FiveTuple, FlowTable};
use crate::frame::{Frame, Pool};
use crate::lateness::Lateness;
use crate::realtime::{Rest, be_realtime};
use crate::stalled::Stalled;
use crate::tap::{FRAME_BYTES_MAX, Tap};
use crate::wire_setup::WireSetup;

const STOP: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
/// Maximum number of frames read from one tap before due frames are written.
const READ_BATCH: usize = 64;
/// Time to the next event below which the thread polls: sleeping would cost more than it saves (a timer and two context
/// switches).
const SPIN_NS: u64 = 10_000;

/// The emulator's results of one run.
#[derive(Debug, Default)]
pub struct WireReport {
    /// Drops and marks of each counted flow, both directions together; flows without any are
    /// absent.
    pub flows: HashMap<FiveTuple, FlowCounts>,
    /// Gaps between the packets that each counted flow's receiver sent back, by the flow; times are
    /// CLOCK_MONOTONIC.
    pub ack_gaps: HashMap<FiveTuple, AckGaps>,
    /// Samples of the first bottleneck's queue; times are CLOCK_MONOTONIC.
    pub queue: Vec<QueueSample>,
    /// Totals of every link, by name.
    pub links: BTreeMap<String, LinkTotals>,
    /// Names of the links with the experiment's queue.
    pub bottlenecks: Vec<String>,
    /// Lateness and faults, by name, each `wire_…`.
    pub counters: BTreeMap<String, u64>,
}

/// The state of the emulator's thread.
pub(crate) struct Relay<'a> {
    network: Network<Frame>,
    emulation: &'a Emulation,
    exits: Exits,
    hosts: HashMap<[u8; 6], HostId>,
    flows: FlowTable,
    counted: Vec<FiveTuple>,
    pool: Pool,
    poll: Epoll,
    timer: TimerFd,
    armed: Nanos,
    sample: Nanos,
    next_sample: Nanos,
    queue: Vec<QueueSample>,
    unknown_destinations: u64,
}

/// The taps where frames leave the network.
struct Exits {
    /// Tap of each host; the index is the host's number in the network.
    taps: Vec<Tap>,
    lateness: Lateness,
    /// Gaps between the ACK frames of each counted flow, keyed by the number of the flow's reverse direction.
    ack_gaps: HashMap<u32, AckGaps>,
    refused_frames: u64,
    /// Frames dropped by any queue although their ECN field was ECT or CE.
    dropped_ect_frames: u64,
    failure: Option<LabError>,
    /// Stalls of the only server, if it has any.
    stalled: Option<Stalled>,
    /// Whether the only server is stalled now.
    stands: bool,
}

impl Exits {
    /// Returns the host number of the server that may stall: in a star, its tap is the last.
    fn server(&self) -> usize {
        self.taps.len().saturating_sub(1)
    }

    fn write(&mut self, host: usize, frame: &Frame) {
        match self.taps[host].write(frame.bytes()) {
            Ok(true) => {}
            Ok(false) => self.refused_frames += 1,
            Err(error) => self.failure = Some(error),
        }
    }
}

impl Sink<Frame> for Exits {
    fn deliver(&mut self, due: Nanos, host: HostId, frame: Frame) {
        // The kernel behind the tap handles the frame within the call, up to its answer, so the
        // clock is read before.
        self.lateness.add(clock::now().since(due).0);
        if let Some(gaps) = self.ack_gaps.get_mut(&frame.flow()) {
            gaps.acknowledged(due);
        }
        let host = host.0 as usize;
        let server = self.server();
        match &mut self.stalled {
            Some(stalled) if self.stands && host == server => stalled.arrive(frame),
            _ => self.write(host, &frame),
        }
    }

    fn dropped(&mut self, _: Nanos, _: LinkId, frame: &Frame, reason: DropReason) {
        // A random loss says nothing of whether the queue marks what it could drop.
        let by_queue = reason != DropReason::Fault;
        self.dropped_ect_frames += u64::from(by_queue && frame.ecn().can_be_marked());
    }
}

impl<'a> Relay<'a> {
    pub fn new(
        setup: WireSetup,
        emulation: &'a Emulation,
        stop: &EventFd,
    ) -> Result<Self, LabError> {
        let taps = in_network_order(setup.taps, &emulation.hosts);
        let poll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|errno| LabError::resource("make an event queue", errno.into()))?;
        let timer = TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC,
        )
        .map_err(|errno| LabError::resource("make a timer", errno.into()))?;
        watch(&poll, &taps, &timer, stop)
            .map_err(|errno| LabError::resource("watch its taps", errno.into()))?;
        let mut flows = FlowTable::new(setup.connections);
        let mut ack_gaps = HashMap::new();
        for &tuple in &setup.flows {
            flows.number(tuple);
            ack_gaps.insert(flows.number(tuple.reversed()), AckGaps::default());
        }
        let hosts = setup
            .addresses
            .iter()
            .map(|&(mac, host)| (mac, emulation.hosts[host]));
        Ok(Self {
            network: Network::new(&emulation.topology, setup.seed)?,
            emulation,
            hosts: hosts.collect(),
            exits: Exits {
                taps,
                lateness: Lateness::default(),
                ack_gaps,
                refused_frames: 0,
                dropped_ect_frames: 0,
                failure: None,
                stalled: setup
                    .receiver_hypervisor
                    .filter(|found| found.stalls())
                    .map(|found| Stalled::new(&found, setup.seed, clock::now())),
                stands: false,
            },
            flows,
            counted: setup.flows,
            pool: Pool::default(),
            poll,
            timer,
            armed: Nanos::MAX,
            sample: Nanos((setup.sample.as_nanos() as u64).max(1)),
            next_sample: clock::now(),
            queue: Vec::new(),
            unknown_destinations: 0,
        })
    }

    /// Runs until the stop event.
    pub fn run(mut self) -> Result<WireReport, LabError> {
        let realtime = be_realtime();
        let mut buffer = vec![0; FRAME_BYTES_MAX];
        let mut events = [EpollEvent::empty(); 64];
        let mut rest = Rest::since(clock::now());
        loop {
            // without that priority the kernel lets others run anyway
            let now = if realtime { rest.take() } else { clock::now() };
            self.wake(now)?;
            self.network.advance(now, &mut self.exits);
            if let Some(error) = self.exits.failure.take() {
                return Err(error);
            }
            self.sample_queue(now);
            let timeout = self.arm(now)?;
            let waits_from = clock::now();
            let count = match self.poll.wait(&mut events, timeout) {
                Ok(count) => count,
                Err(nix::Error::EINTR) => 0,
                Err(errno) => {
                    return Err(LabError::resource(
                        "wait for frames on the emulator's taps (epoll)",
                        errno.into(),
                    ));
                }
            };
            if timeout == EpollTimeout::NONE {
                rest.slept(waits_from, clock::now());
            }
            for event in &events[..count] {
                match event.data() {
                    STOP => return Ok(self.report(realtime)),
                    // Edge-triggered: nothing to read. The next iteration advances.
                    TIMER => self.armed = Nanos::MAX,
                    tap => self.read(tap as usize, &mut buffer)?,
                }
            }
        }
    }

    /// Updates whether the server is stalled. When a stall ends, waiting frames go first, in both
    /// directions.
    fn wake(&mut self, now: Nanos) -> Result<(), LabError> {
        let Some(stalled) = &mut self.exits.stalled else {
            return Ok(());
        };
        self.exits.stands = stalled.stands(now);
        if self.exits.stands {
            return Ok(());
        }
        let server = self.exits.server();
        while let Some(bytes) = self.exits.stalled.as_mut().and_then(Stalled::said) {
            self.inject(HostId(server as u32), &bytes)?;
        }
        while let Some(frame) = self.exits.stalled.as_mut().and_then(Stalled::wake) {
            self.exits.write(server, &frame);
        }
        Ok(())
    }

    /// Sets the timer to the next due time. Returns the timeout of the wait for frames: zero if that time is so near
    /// that the next iteration may as well poll, else none.
    fn arm(&mut self, now: Nanos) -> Result<EpollTimeout, LabError> {
        let due = self
            .network
            .next_event()
            .unwrap_or(Nanos::MAX)
            .min(self.next_sample);
        let waking = self.exits.stalled.as_ref().and_then(Stalled::next);
        let due = due.min(waking.unwrap_or(Nanos::MAX));
        if due.since(now).0 < SPIN_NS {
            return Ok(EpollTimeout::ZERO);
        }
        if due != self.armed {
            let at = TimeSpec::from_duration(Duration::from_nanos(due.0));
            self.timer
                .set(
                    Expiration::OneShot(at),
                    TimerSetTimeFlags::TFD_TIMER_ABSTIME,
                )
                .map_err(|errno| LabError::resource("set its timer", errno.into()))?;
            self.armed = due;
        }
        Ok(EpollTimeout::NONE)
    }

    fn read(&mut self, tap: usize, buffer: &mut [u8]) -> Result<(), LabError> {
        for _ in 0..READ_BATCH {
            let Some(length) = self.exits.taps[tap].read(buffer)? else {
                return Ok(());
            };
            let server = self.exits.server();
            match &mut self.exits.stalled {
                Some(stalled) if self.exits.stands && tap == server => {
                    stalled.send(&buffer[..length]);
                }
                _ => self.inject(HostId(tap as u32), &buffer[..length])?,
            }
        }
        Ok(())
    }

    /// Injects a frame, as a switch that knows every address: a frame to an unknown address is
    /// dropped.
    fn inject(&mut self, from: HostId, bytes: &[u8]) -> Result<(), LabError> {
        let now = clock::now();
        let flow = self.flows.number_of_frame(bytes);
        let frame = self.pool.frame(bytes, flow);
        if frame.is_group() {
            return Ok(self.network.inject_broadcast(now, from, &frame)?);
        }
        let to = frame
            .destination()
            .and_then(|mac| self.hosts.get(&mac).copied());
        match to.filter(|&to| to != from) {
            Some(to) => self.network.inject(now, from, to, frame)?,
            None => self.unknown_destinations += 1,
        }
        Ok(())
    }

    fn sample_queue(&mut self, now: Nanos) {
        if now < self.next_sample {
            return;
        }
        // A late sample does not delay the next ones, and missed samples are not made up.
        self.next_sample = Nanos((now.0 / self.sample.0 + 1).saturating_mul(self.sample.0));
        let first = self.emulation.bottlenecks.first();
        if let Some(report) = first.and_then(|&link| self.network.link(link)) {
            self.queue.push(QueueSample {
                at_ns: now.0,
                backlog_bytes: report.backlog.bytes,
                backlog_packets: u32::try_from(report.backlog.packets).unwrap_or(u32::MAX),
                average_bytes: report.average_bytes,
            });
        }
    }

    fn report(mut self, realtime: bool) -> WireReport {
        let mut counters = self.exits.lateness.counters();
        counters.insert("wire_realtime_priority".into(), u64::from(realtime));
        counters.insert("wire_refused_frames".into(), self.exits.refused_frames);
        counters.insert(
            "wire_dropped_ect_frames".into(),
            self.exits.dropped_ect_frames,
        );
        let stalled = self.exits.stalled.iter().flat_map(Stalled::counters);
        counters.extend(stalled);
        counters.insert(
            "wire_unknown_destinations".into(),
            self.unknown_destinations,
        );
        let flows = self.counted.iter().map(|&tuple| {
            let numbers = [tuple, tuple.reversed()].map(|tuple| self.flows.number(tuple));
            let mut both = FlowCounts::default();
            for counts in numbers
                .iter()
                .filter_map(|number| self.network.flows().get(number))
            {
                both.dropped_packets += counts.dropped_packets;
                both.marked_packets += counts.marked_packets;
            }
            (tuple, both)
        });
        let flows = flows.collect();
        let mut ack_gaps = HashMap::new();
        for &tuple in &self.counted {
            let back = self.flows.number(tuple.reversed());
            ack_gaps.extend(self.exits.ack_gaps.remove(&back).map(|gaps| (tuple, gaps)));
        }
        let plans = self.emulation.topology.links();
        let bottlenecks = self.emulation.bottlenecks.iter();
        let bottlenecks = bottlenecks.map(|link| plans[link.0 as usize].name.clone());
        let mut links = BTreeMap::new();
        for (number, plan) in plans.iter().enumerate() {
            if let Some(report) = self.network.link(LinkId(number as u32)) {
                links.insert(
                    plan.name.clone(),
                    LinkTotals {
                        packets: report.stats.sent_packets,
                        bytes: report.stats.sent_bytes,
                        dropped_packets: report.stats.dropped_packets(),
                        marked_packets: report.stats.marked_packets,
                    },
                );
            }
        }
        WireReport {
            flows,
            ack_gaps,
            queue: self.queue,
            links,
            bottlenecks: bottlenecks.collect(),
            counters,
        }
    }
}

/// Sorts the taps of the plan's hosts by the hosts' numbers in the network.
fn in_network_order(taps: Vec<Tap>, hosts: &[HostId]) -> Vec<Tap> {
    let mut numbered: Vec<(HostId, Tap)> = hosts.iter().copied().zip(taps).collect();
    numbered.sort_by_key(|(host, _)| *host);
    numbered.into_iter().map(|(_, tap)| tap).collect()
}

fn watch(poll: &Epoll, taps: &[Tap], timer: &TimerFd, stop: &EventFd) -> nix::Result<()> {
    for (number, tap) in taps.iter().enumerate() {
        poll.add(tap, EpollEvent::new(EpollFlags::EPOLLIN, number as u64))?;
    }
    poll.add(
        timer,
        EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, TIMER),
    )?;
    poll.add(stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP))
}
