//! The flows that guests open: one listener at each receiver, one connection per flow. A flow carries as
//! much data as TCP takes, blocks on request, or messages.
//!
//! Every socket lingers for zero seconds: when it is closed, also by the kernel after SIGKILL, the
//! connection is reset instead of being finished in the background, where its retransmissions
//! would keep the namespace alive for minutes.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use uc_experiment::Completion;
use uc_net::Nanos;
use uc_net::random::Stream;

use crate::arriving::{Arriving, Source};
use crate::error::LabError;
use crate::event::Event;
use crate::flow::{Connections, FiveTuple, tuples};
use crate::incast::{Asking, Rounds};
use crate::load::Running;
use crate::messages::{Channel, Messenger};
use crate::names::SERVER_PORT;
use crate::netns::Namespace;
use crate::opener::Opener;
use crate::part::Part;
use crate::pattern::Pattern;
use crate::plan::{Plan, Server};
use crate::receiver;
use crate::sender::Bulk;
use crate::socket;
use crate::stack;
use crate::transfer_times::TransferTimes;
use crate::transfers::ArrivingFlow;
use crate::wiring::Wiring;

/// Maximum random offset of a flow's start; the order is drawn from the seed.
const STAGGER_US: u64 = 100_000;
/// Interval at which a wait calls `go_on`, which may end it.
const LOOK: Duration = Duration::from_millis(20);

/// One flow of the case.
#[derive(Debug)]
pub struct Flow {
    /// Index of the flow's guest in the plan.
    pub guest: usize,
    /// Number of the flow in its group: guest by guest, then flow by flow.
    pub index: u32,
    /// Group of the flow, and its times.
    pub part: Part,
    /// Connection in the guest's direction.
    pub tuple: FiveTuple,
    /// Socket of the sender.
    pub socket: TcpStream,
    delivered_bytes: Arc<AtomicU64>,
    times: Arc<TransferTimes>,
    wait: Duration,
}

impl Flow {
    /// Returns the payload delivered to the receiving application so far.
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes.load(Ordering::Relaxed)
    }
}

/// The running traffic of one case. Dropping it stops and joins every thread.
#[derive(Debug)]
pub struct Traffic {
    flows: Vec<Flow>,
    arriving: Vec<ArrivingFlow>,
    stop: Arc<AtomicBool>,
    receiver: receiver::Handle,
    senders: Vec<JoinHandle<()>>,
    events: Receiver<Event>,
    rounds: Arc<Rounds>,
    /// Senders of messages that wait for the start of the run's clock, each with its end of the channel of events.
    waiting: Vec<(Messenger, Sender<Event>)>,
    /// Senders of transfers at random times, with the numbers of their guests, likewise.
    openers: Vec<(usize, Opener, Sender<Event>)>,
    started: Nanos,
}

impl Traffic {
    /// Opens the listeners and starts one sender per flow.
    ///
    /// # Errors
    /// [`LabError::Socket`], a missing congestion control, or [`LabError::Resource`], naming the
    /// guest or the receiver.
    pub fn start(plan: &Plan, wiring: &Wiring, seed: u64) -> Result<Self, LabError> {
        let (sender, events) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let pattern = Arc::new(Pattern::default());
        let (flows, arriving) = open_flows(plan, wiring, seed)?;
        let receivers = flows.iter().map(|flow| receiver::Expected {
            from: flow.tuple.source,
            guest: plan.guests[flow.guest].label.clone(),
            may_end: flow.part.may_end(),
            delivered_bytes: Arc::clone(&flow.delivered_bytes),
            times: flow
                .part
                .messages
                .is_some()
                .then(|| Arc::clone(&flow.times)),
        });
        let source = |flow: &ArrivingFlow| {
            let guest = plan.guests[flow.running.guest].label.clone();
            let transfers = Arc::clone(&flow.transfers);
            (flow.running.tuple.source, Source { guest, transfers })
        };
        let sources = arriving.iter().map(source).collect();
        let sources = Arriving::new(sources, Connections::of(plan));
        let receivers = (receivers.collect(), sources);
        let rounds = Arc::default();
        let receiver = receive(plan, wiring, receivers, &pattern, &stop, &sender, &rounds)?;
        let mut traffic = Self {
            flows,
            arriving,
            stop,
            receiver,
            senders: Vec::new(),
            events,
            rounds,
            waiting: Vec::new(),
            openers: Vec::new(),
            started: Nanos::ZERO,
        };
        traffic.start_senders(plan, seed, &pattern, &sender)?;
        let opener = |flow: &ArrivingFlow| {
            let (number, tuple) = (flow.running.guest, flow.running.tuple);
            let guest = &plan.guests[number];
            let opener = Opener {
                transfers: Arc::clone(&flow.transfers),
                from: tuple.source,
                stride: guest.flows as u16,
                server: tuple.destination,
                control: wiring.congestion.of_guest(guest).to_owned(),
                guest: guest.label.clone(),
                pattern: Arc::clone(&pattern),
                stop: Arc::clone(&traffic.stop),
            };
            (number, opener, sender.clone())
        };
        traffic.openers = traffic.arriving.iter().map(opener).collect();
        Ok(traffic)
    }

    fn start_senders(
        &mut self,
        plan: &Plan,
        seed: u64,
        pattern: &Arc<Pattern>,
        events: &Sender<Event>,
    ) -> Result<(), LabError> {
        for flow in &self.flows {
            let wait = flow.wait;
            let guest = plan.guests[flow.guest].label.clone();
            let failed = |action| {
                let node = guest.clone();
                move |source| LabError::Socket {
                    node,
                    action,
                    source,
                }
            };
            let socket = flow.socket.try_clone();
            let socket = socket.map_err(failed("duplicating a socket"))?;
            let (pattern, stop) = (Arc::clone(pattern), Arc::clone(&self.stop));
            let events = events.clone();
            if let Some(messages) = &flow.part.messages {
                let channel = Channel {
                    socket,
                    server: flow.tuple.destination,
                    times: Arc::clone(&flow.times),
                    written_bytes: 0,
                };
                // The connections of a flow of the file are adjacent.
                if flow.index % flow.part.servers.len() as u32 > 0
                    && let Some((messenger, _)) = self.waiting.last_mut()
                {
                    messenger.add(channel);
                    continue;
                }
                // as in the simulator, named by the flow of the file, which may have several connections
                let number = flow.index / flow.part.servers.len() as u32;
                let stream =
                    |what| Stream::new(seed, &format!("{}[{number}]/{what}", flow.part.group));
                let messenger = Messenger {
                    messages: messages.clone(),
                    sizes: stream("sizes"),
                    receivers: stream("receivers"),
                    wait,
                    channels: Arc::new(Mutex::new([channel].into())),
                    guest,
                    pattern,
                    stop,
                };
                self.waiting.push((messenger, events));
                continue;
            }
            let bulk = Bulk {
                wait,
                block_bytes: plan.guests[flow.guest].incast.map(|it| it.block_bytes),
                last: flow.part.stop.map(duration),
                socket,
                server: flow.tuple.destination,
                guest: guest.clone(),
                pattern,
                stop,
            };
            self.senders.push(spawn(&guest, move || bulk.run(&events))?);
        }
        Ok(())
    }

    /// Starts the flows that begin with the run's clock, which started at `started`: those of
    /// messages and transfers.
    ///
    /// # Errors
    /// [`LabError::Resource`] when a thread can't be started.
    pub fn begin(&mut self, started: Nanos, wiring: &Wiring) -> Result<(), LabError> {
        self.started = started;
        for (messenger, events) in std::mem::take(&mut self.waiting) {
            for sender in messenger.senders() {
                let (guest, events) = (sender.guest.clone(), events.clone());
                self.senders
                    .push(spawn(&guest, move || sender.run(started, &events))?);
            }
        }
        for (number, opener, events) in std::mem::take(&mut self.openers) {
            let guest = opener.guest.clone();
            // A thread begins in the namespace of the thread that starts it.
            let start = || spawn(&guest, move || opener.run(started, &events));
            self.senders.push(wiring.guests[number].enter(start)??);
        }
        Ok(())
    }

    /// Returns the messages and transfers of each flow, then those of each with arrivals; times count from
    /// the start of the clock.
    pub fn completions(&self) -> Vec<Vec<Completion>> {
        let of_flow = |flow: &Flow| flow.times.completions(self.started);
        let of_arriving = |flow: &ArrivingFlow| flow.transfers.completions(self.started);
        let arriving = self.arriving.iter().map(of_arriving);
        self.flows.iter().map(of_flow).chain(arriving).collect()
    }

    /// Returns the flows with one connection each, in the order of the record.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Returns the flows whose transfers arrive at random times, in the order of the record.
    pub fn arriving(&self) -> &[ArrivingFlow] {
        &self.arriving
    }

    /// Returns the counters of the incast rounds.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        self.rounds.counters()
    }

    /// Waits until every bulk and incast flow that starts with the run is connected, and returns the
    /// number of retransmitted SYNs. These flows send as soon as they are connected. `go_on` is called about every
    /// 20 ms.
    ///
    /// # Errors
    /// The guest that could not connect, any other failure of a thread,
    /// and the error of `go_on`.
    pub fn wait_connected(
        &self,
        go_on: impl Fn() -> Result<(), LabError>,
    ) -> Result<u64, LabError> {
        let is_first = |flow: &&Flow| flow.part.start.0 == 0 && flow.part.messages.is_none();
        let mut missing = self.flows.iter().filter(is_first).count();
        let mut retransmits = 0;
        while missing > 0 {
            go_on()?;
            match self.events.recv_timeout(LOOK) {
                Ok(Event::Connected {
                    retransmits: of_flow,
                }) => {
                    missing -= 1;
                    retransmits += u64::from(of_flow);
                }
                Ok(Event::Failed(error)) => return Err(error),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(threads_gone()),
            }
        }
        Ok(retransmits)
    }

    /// Checks that no flow has failed.
    ///
    /// # Errors
    /// The first failure of a flow: [`LabError::Ended`], or a corrupt stream.
    pub fn check(&self) -> Result<(), LabError> {
        loop {
            match self.events.try_recv() {
                Ok(Event::Connected { .. }) => {}
                Ok(Event::Failed(error)) => return Err(error),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(threads_gone()),
            }
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for flow in &self.flows {
            // Wakes a thread that waits in connect or write. An error means that none waits.
            let _ = flow.socket.shutdown(Shutdown::Both);
        }
        for sender in self.senders.drain(..) {
            // The panic hook has already printed a sender's panic.
            let _ = sender.join();
        }
        self.receiver.stop();
    }
}

/// Starts the thread of a guest's sender.
fn spawn(guest: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, LabError> {
    let named = thread::Builder::new().name(format!("uc-{guest}"));
    let failed = |source| LabError::resource("start a thread", source);
    named.spawn(run).map_err(failed)
}

fn duration(time: uc_experiment::Nanos) -> Duration {
    Duration::from_nanos(time.0)
}

/// Starts the receivers' side of the flows.
pub(crate) fn receive(
    plan: &Plan,
    wiring: &Wiring,
    (receivers, arriving): (Vec<receiver::Expected>, Arriving),
    pattern: &Arc<Pattern>,
    stop: &Arc<AtomicBool>,
    events: &Sender<Event>,
    rounds: &Arc<Rounds>,
) -> Result<receiver::Handle, LabError> {
    let listen = |(server, namespace): (&Server, &Namespace)| {
        let address = SocketAddr::new(server.address, SERVER_PORT);
        let stack = &server.stack.congestion_control;
        let control = wiring.congestion.kernel_name(stack);
        let flows = receivers.len() + arriving.count();
        namespace.enter(|| socket::listen(&server.label, address, flows, control))?
    };
    let listeners = plan.servers.iter().zip(&wiring.servers).map(listen);
    let listeners = listeners.collect::<Result<_, _>>()?;
    let (pattern, stop) = (Arc::clone(pattern), Arc::clone(stop));
    let receivers = (receivers, asking(plan, rounds), arriving);
    let window_bytes = stack::buffer_bytes(&plan.servers[0].stack);
    receiver::Handle::start(
        listeners,
        receivers,
        window_bytes,
        pattern,
        stop,
        events.clone(),
    )
}

/// Returns the requesting sides, one for each incast group.
fn asking(plan: &Plan, rounds: &Arc<Rounds>) -> Vec<Asking> {
    let mut asking = Vec::new();
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    let mut number = 0;
    for part in plan.guests.iter().flat_map(|guest| &guest.parts) {
        if part.arrivals.is_some() {
            continue;
        }
        let flows = number..number + part.flows as usize;
        number = flows.end;
        match groups.iter_mut().find(|(name, _)| *name == part.group) {
            Some((_, all)) => all.extend(flows),
            None => groups.push((&part.group, flows.collect())),
        }
    }
    for (name, flows) in groups {
        let guest = plan.guests.iter().find(|guest| guest.group == name);
        if let Some(incast) = guest.and_then(|guest| guest.incast) {
            asking.push(Asking::new(incast, flows, Arc::clone(rounds)));
        }
    }
    asking
}

/// Draws the start time of each flow, in the record's order: at random within 100 ms after its
/// group's `start`, or within `start_spread` where that is longer; of transfers in epochs, their times; of
/// arrivals, as in the simulator.
pub fn waits(plan: &Plan, seed: u64) -> Vec<Duration> {
    let mut random = Stream::new(seed, "traffic/start");
    let mut epochs_random = Stream::new(seed, "traffic/epochs");
    let parts: Vec<_> = plan.guests.iter().flat_map(|guest| &guest.parts).collect();
    let mut epochs_times: BTreeMap<&str, std::vec::IntoIter<Nanos>> = BTreeMap::new();
    let mut waits = Vec::with_capacity(plan.flow_count());
    for part in &parts {
        if let Some(epochs) = &part.epochs {
            let times = epochs_times.entry(&part.group).or_insert_with(|| {
                let of_group = parts.iter().filter(|other| other.group == part.group);
                let transfers: u32 = of_group.map(|part| part.flows).sum();
                let flows = (transfers / epochs.rounds) as usize;
                epochs.draw(&mut epochs_random, flows).concat().into_iter()
            });
            waits.extend(times.take(part.flows as usize).map(duration));
            continue;
        }
        if part.arrivals.is_some() {
            let start = |_| duration(part.start + Nanos(random.below(part.start_spread.0)));
            waits.extend((0..part.flows).map(start));
            continue;
        }
        let spread_us = STAGGER_US.max(part.start_spread.0 / 1000);
        let connections = part.servers.len();
        waits.extend((0..part.flows as usize / connections).flat_map(|_| {
            let wait = duration(part.start) + Duration::from_micros(random.below(spread_us));
            std::iter::repeat_n(wait, connections)
        }));
    }
    waits
}

pub(crate) fn threads_gone() -> LabError {
    let source = io::Error::other("its thread ended without a report");
    LabError::Ended {
        guest: "every flow".into(),
        source,
    }
}

/// Creates one socket per flow, bound in the guest's namespace, and draws the transfers of flows with
/// arrivals.
fn open_flows(
    plan: &Plan,
    wiring: &Wiring,
    seed: u64,
) -> Result<(Vec<Flow>, Vec<ArrivingFlow>), LabError> {
    let mut tuples = tuples(plan).into_iter().zip(waits(plan, seed));
    let (mut flows, mut arriving) = (Vec::with_capacity(plan.flow_count()), Vec::new());
    for (number, (guest, namespace)) in plan.guests.iter().zip(&wiring.guests).enumerate() {
        let congestion_control = wiring.congestion.of_guest(guest);
        if guest.parts.iter().any(|part| part.stop.is_some()) {
            // Unsent data would otherwise be sent for seconds after a flow's end.
            namespace.set_sysctls(&[("net.ipv4.tcp_notsent_lowat", "65536".into())])?;
        }
        for part in &guest.parts {
            for flow in 0..part.flows {
                let Some((tuple, wait)) = tuples.next() else {
                    break;
                };
                let index = part.first + flow;
                if let Some(arrivals) = &part.arrivals {
                    let running = Running {
                        guest: number,
                        group: part.group.clone(),
                        index,
                        tuple,
                    };
                    let start = Nanos(wait.as_nanos() as u64);
                    let drawn = ArrivingFlow::draw(running, guest, arrivals, seed, start)?;
                    arriving.push(drawn);
                    continue;
                }
                let socket = namespace
                    .enter(|| socket::sender(&guest.label, tuple.source, congestion_control))??;
                flows.push(Flow {
                    guest: number,
                    index,
                    part: part.clone(),
                    tuple,
                    socket,
                    delivered_bytes: Arc::default(),
                    times: Arc::default(),
                    wait,
                });
            }
        }
    }
    wiring.congestion.weigh(plan, &wiring.guests)?;
    Ok((flows, arriving))
}
