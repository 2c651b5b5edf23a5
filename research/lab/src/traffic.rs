//! The flows that guests open: one listener at each receiver, one connection per flow. A flow carries as
//! much data as TCP takes, blocks on request, or messages.
//!
//! Every socket lingers for zero seconds: when it is closed, also by the kernel after SIGKILL, the
//! connection is reset instead of being finished in the background, where its retransmissions
//! would keep the namespace alive for minutes.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use uc_experiment::Completion;
use uc_net::Nanos;
use uc_net::random::Stream;

use crate::error::LabError;
use crate::event::Event;
use crate::flow::FiveTuple;
use crate::incast::{Asking, Rounds};
use crate::messages::Messenger;
use crate::names::{GUEST_PORT_FIRST, SERVER_PORT};
use crate::netns::Namespace;
use crate::part::Part;
use crate::pattern::Pattern;
use crate::plan::{Plan, Server};
use crate::receiver;
use crate::sender::Bulk;
use crate::socket;
use crate::transfer_times::TransferTimes;
use crate::wiring::Wiring;

/// Maximum random offset of a flow's start; the order is drawn from the seed.
const STAGGER_US: u64 = 100_000;
/// Interval at which a wait checks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// One flow of the case.
#[derive(Debug)]
pub struct Flow {
    /// Index of its guest in the plan.
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
    stop: Arc<AtomicBool>,
    receiver: receiver::Handle,
    senders: Vec<JoinHandle<()>>,
    events: Receiver<Event>,
    rounds: Arc<Rounds>,
    /// Senders of messages, until the run's clock starts, with their ends of the channel.
    waiting: Vec<(Messenger, Sender<Event>)>,
    started: Nanos,
}

/// Returns the connections of a plan, in the order of the record: group by group, guest by guest.
pub fn tuples(plan: &Plan) -> Vec<FiveTuple> {
    let of_guest = |guest: &crate::plan::Guest| {
        let address = guest.address;
        let server = SocketAddr::new(plan.server_of(guest).address, SERVER_PORT);
        (0..guest.opened_flows() as u16).map(move |flow| {
            FiveTuple::tcp(SocketAddr::new(address, GUEST_PORT_FIRST + flow), server)
        })
    };
    plan.guests.iter().flat_map(of_guest).collect()
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
        let flows = open_flows(plan, wiring)?;
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
        let receivers = receivers.collect();
        let rounds = Arc::default();
        let receiver = receive(plan, wiring, receivers, &pattern, &stop, &sender, &rounds)?;
        let mut traffic = Self {
            flows,
            stop,
            receiver,
            senders: Vec::new(),
            events,
            rounds,
            waiting: Vec::new(),
            started: Nanos::ZERO,
        };
        traffic.start_senders(plan, seed, &pattern, &sender)?;
        Ok(traffic)
    }

    fn start_senders(
        &mut self,
        plan: &Plan,
        seed: u64,
        pattern: &Arc<Pattern>,
        events: &Sender<Event>,
    ) -> Result<(), LabError> {
        for (flow, wait) in self.flows.iter().zip(waits(plan, seed)) {
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
                let name = format!("{}[{}]/sizes", flow.part.group, flow.index);
                let messenger = Messenger {
                    messages: messages.clone(),
                    sizes: Stream::new(seed, &name),
                    wait,
                    socket,
                    server: flow.tuple.destination,
                    guest,
                    pattern,
                    times: Arc::clone(&flow.times),
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
    /// [`LabError::Resource`] without a thread.
    pub fn begin(&mut self, started: Nanos) -> Result<(), LabError> {
        self.started = started;
        for (messenger, events) in std::mem::take(&mut self.waiting) {
            let guest = messenger.guest.clone();
            self.senders
                .push(spawn(&guest, move || messenger.run(started, &events))?);
        }
        Ok(())
    }

    /// Returns the messages and transfers of each flow; times count from the start of the clock.
    pub fn completions(&self) -> Vec<Vec<Completion>> {
        let of_flow = |flow: &Flow| flow.times.completions(self.started);
        self.flows.iter().map(of_flow).collect()
    }

    /// Returns the flows, in the order of the record.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
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

    /// Checks that every flow goes on.
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
    receivers: Vec<receiver::Expected>,
    pattern: &Arc<Pattern>,
    stop: &Arc<AtomicBool>,
    events: &Sender<Event>,
    rounds: &Arc<Rounds>,
) -> Result<receiver::Handle, LabError> {
    let listen = |(server, namespace): (&Server, &Namespace)| {
        let address = SocketAddr::new(server.address, SERVER_PORT);
        let stack = &server.stack.congestion_control;
        let control = wiring.congestion.kernel_name(stack);
        namespace.enter(|| socket::listen(&server.label, address, receivers.len(), control))?
    };
    let listeners = plan.servers.iter().zip(&wiring.servers).map(listen);
    let listeners = listeners.collect::<Result<_, _>>()?;
    let (pattern, stop) = (Arc::clone(pattern), Arc::clone(stop));
    let receivers = (receivers, asking(plan, rounds));
    receiver::Handle::start(listeners, receivers, pattern, stop, events.clone())
}

/// Returns the requesting sides, one for each incast group.
fn asking(plan: &Plan, rounds: &Arc<Rounds>) -> Vec<Asking> {
    let mut asking = Vec::new();
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    let mut number = 0;
    for part in plan.guests.iter().flat_map(|guest| &guest.parts) {
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
/// group's `start`, or within `start_spread` where that is longer; of transfers in epochs, their times.
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
        let spread_us = STAGGER_US.max(part.start_spread.0 / 1000);
        waits.extend(
            (0..part.flows)
                .map(|_| duration(part.start) + Duration::from_micros(random.below(spread_us))),
        );
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

/// Creates one socket per flow, bound in the guest's namespace.
fn open_flows(plan: &Plan, wiring: &Wiring) -> Result<Vec<Flow>, LabError> {
    let mut tuples = tuples(plan).into_iter();
    let mut flows = Vec::with_capacity(plan.flow_count());
    for (number, (guest, namespace)) in plan.guests.iter().zip(&wiring.guests).enumerate() {
        let congestion_control = wiring.congestion.of_guest(guest);
        if guest.parts.iter().any(|part| part.stop.is_some()) {
            // Unsent data would otherwise be sent for seconds after a flow's end.
            namespace.set_sysctls(&[("net.ipv4.tcp_notsent_lowat", "65536".into())])?;
        }
        for part in &guest.parts {
            for flow in 0..part.flows {
                let Some(tuple) = tuples.next() else { break };
                let socket = namespace
                    .enter(|| socket::sender(&guest.label, tuple.source, congestion_control))??;
                flows.push(Flow {
                    guest: number,
                    index: part.first + flow,
                    part: part.clone(),
                    tuple,
                    socket,
                    delivered_bytes: Arc::default(),
                    times: Arc::default(),
                });
            }
        }
    }
    wiring.congestion.weigh(plan, &wiring.guests)?;
    Ok(flows)
}
