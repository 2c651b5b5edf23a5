//! Applications of flows: they write, wait and send requests.
//!
//! An application acts only on a [`Notice`]: its time has come, a handshake is complete, the bytes
//! that it waits for have arrived, or a connection is closed.

mod epochs;
mod exchange;
mod messages;
mod transfers;
mod web;

use uc_experiment::Completion;
use uc_net::Nanos;
use uc_tcp::Totals;

use crate::error::SimError;
use crate::hosts::{Hosts, Notice, Side, Slot};
use crate::hypervisor::Counts;
use crate::scenario::{Application, FlowPlan, Scenario};

use exchange::{Barrier, Dialogue};
use messages::Channels;
use web::Arrivals;

/// The state of an application between two notices.
#[derive(Debug)]
enum State {
    Bulk,
    /// Number of receivers whose transfer has begun.
    Transfers(usize),
    /// Number of transfers that have begun.
    Epochs(usize),
    Dialogue(Dialogue),
    Web(Arrivals),
    Messages(Channels),
}

/// A flow of the record.
#[derive(Debug)]
pub struct Flow {
    plan: FlowPlan,
    state: State,
    started: bool,
    stopped: bool,
    /// Open connections, each with the number of the completion that it serves.
    open: Vec<(Slot, usize)>,
    completions: Vec<Completion>,
    /// Counters of the closed connections.
    retired: Retired,
}

/// Sums over closed connections.
#[derive(Clone, Debug, Default)]
pub struct Retired {
    /// Counters of the guest's ends.
    pub guest: Totals,
    /// Payload delivered to the receiving application, in bytes.
    pub delivered_bytes: u64,
    /// Gaps between ACKs, in bins as in the record.
    pub ack_gaps: Vec<u32>,
    /// Segments by the reason code of the guest's port, and of the receiver's.
    pub port_counts: Vec<u64>,
    /// Segments by the reason code of the receiver's port.
    pub receiver_port_counts: Vec<u64>,
    /// Data segments received of which every byte had arrived before.
    pub needless_segments: u64,
    /// Effects of stalls on the guest's ends.
    pub stalls: Counts,
}

impl Flow {
    fn new(plan: &FlowPlan, state: State) -> Flow {
        Flow {
            plan: plan.clone(),
            state,
            started: false,
            stopped: false,
            open: Vec::new(),
            completions: Vec::new(),
            retired: Retired::default(),
        }
    }

    /// Returns the transfers so far, in order of their start.
    pub fn completions(&self) -> &[Completion] {
        &self.completions
    }

    /// Iterates over the open connections, the youngest last.
    pub fn open(&self) -> impl DoubleEndedIterator<Item = Slot> + '_ {
        self.open.iter().map(|(slot, _)| *slot)
    }

    /// Returns the sums over the closed connections.
    pub fn retired(&self) -> &Retired {
        &self.retired
    }

    /// Returns the flow's plan.
    pub fn plan(&self) -> &FlowPlan {
        &self.plan
    }

    /// Returns whether the flow has begun.
    pub fn has_started(&self) -> bool {
        self.started
    }

    /// Returns whether a bulk flow was ended before the run was.
    pub fn has_stopped(&self) -> bool {
        self.stopped
    }

    fn begin_completion(&mut self, now: Nanos, bytes: u64) -> usize {
        self.completions.push(Completion {
            started_ns: now.0,
            finished_ns: None,
            bytes,
        });
        self.completions.len() - 1
    }

    /// Assigns a transfer that begins now to the youngest connection.
    fn serve(&mut self, now: Nanos, bytes: u64) {
        let completion = self.begin_completion(now, bytes);
        if let Some((_, serves)) = self.open.last_mut() {
            *serves = completion;
        }
    }

    fn complete(&mut self, number: usize, now: Nanos) {
        if let Some(completion) = self.completions.get_mut(number) {
            completion.finished_ns = Some(now.0);
        }
    }

    fn completion_of(&self, slot: Slot) -> usize {
        let found = self.open.iter().find(|(open, _)| *open == slot);
        found.map_or(usize::MAX, |(_, completion)| *completion)
    }
}

/// The applications of all flows of a run.
#[derive(Debug)]
pub struct Applications {
    flows: Vec<Flow>,
    barriers: Vec<Barrier>,
}

impl Applications {
    /// Creates the applications of a scenario; each is woken at its flow's start.
    pub fn new(scenario: &Scenario, hosts: &mut Hosts) -> Applications {
        let mut barriers: Vec<Barrier> = Vec::new();
        let flows = scenario.flows.iter().enumerate().map(|(number, plan)| {
            hosts.wake(number, plan.start);
            let state = match &plan.application {
                Application::Bulk => State::Bulk,
                Application::Transfer { .. } => State::Transfers(0),
                Application::Epochs(_) => State::Epochs(0),
                Application::Exchange(exchange) => {
                    if let Some(barrier) = exchange.barrier {
                        barriers.resize_with(barriers.len().max(barrier + 1), Barrier::default);
                        barriers[barrier].members.push(number);
                    }
                    State::Dialogue(Dialogue::default())
                }
                Application::Web { .. } => State::Web(Arrivals::new(scenario.seed, &plan.name)),
                Application::Messages { .. } => {
                    State::Messages(Channels::new(scenario.seed, &plan.name))
                }
            };
            Flow::new(plan, state)
        });
        let flows = flows.collect();
        Applications { flows, barriers }
    }

    /// Returns the flows, in the order of the scenario.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Delivers a notice to the application concerned.
    ///
    /// # Errors
    /// [`SimError::TooManyConnections`].
    pub fn tell(&mut self, notice: Notice, hosts: &mut Hosts) -> Result<(), SimError> {
        match notice {
            Notice::Wake(flow) => self.wake(flow, hosts),
            Notice::Established(slot, side) => {
                let flow = hosts.flow(slot);
                if matches!(self.flows[flow].state, State::Dialogue(_)) {
                    self.dialogue_established(flow, slot, side, hosts);
                }
                Ok(())
            }
            Notice::Reached(slot, side) => {
                let flow = hosts.flow(slot);
                match self.flows[flow].state {
                    State::Dialogue(_) => self.dialogue_reached(flow, slot, side, hosts),
                    State::Messages(_) => self.message_reached(flow, slot, hosts),
                    State::Epochs(_) => return self.epoch_reached(flow, slot, side, hosts),
                    State::Bulk | State::Transfers(_) | State::Web(_) => {
                        return self.transferred(flow, slot, hosts);
                    }
                }
                Ok(())
            }
            Notice::Closed(slot) => {
                self.retire(hosts.flow(slot), slot, hosts);
                Ok(())
            }
        }
    }

    fn wake(&mut self, number: usize, hosts: &mut Hosts) -> Result<(), SimError> {
        let flow = &mut self.flows[number];
        let is_first = !std::mem::replace(&mut flow.started, true);
        match (&flow.plan.application, is_first) {
            (Application::Epochs(_), _) => self.next_epoch(number, hosts),
            (Application::Web { .. }, _) => self.web_arrival(number, is_first, hosts),
            (Application::Messages { .. }, true) => self.messages_open(number, hosts),
            (Application::Messages { .. }, false) => {
                self.next_message(number, hosts);
                Ok(())
            }
            (Application::Bulk, true) => self.bulk(number, hosts),
            (Application::Bulk, false) => {
                self.stop_bulk(number, hosts);
                Ok(())
            }
            (Application::Transfer { .. }, true) => self.transfers(number, hosts),
            (Application::Transfer { .. }, false) => Ok(()),
            (Application::Exchange(_), true) => {
                self.open(number, 0, hosts)?;
                Ok(())
            }
            (Application::Exchange(_), false) => {
                self.dialogue_ask(number, hosts);
                Ok(())
            }
        }
    }

    /// Opens a connection from the guest to one of a flow's receivers, by its index. The connection
    /// serves no transfer yet.
    fn open(
        &mut self,
        number: usize,
        receiver: usize,
        hosts: &mut Hosts,
    ) -> Result<Slot, SimError> {
        self.open_from(Side::Guest, number, receiver, hosts)
    }

    /// Opens a connection from the given side to one of a flow's receivers, by its index.
    fn open_from(
        &mut self,
        opener: Side,
        number: usize,
        receiver: usize,
        hosts: &mut Hosts,
    ) -> Result<Slot, SimError> {
        let flow = &mut self.flows[number];
        let slot = hosts.open(opener, number, &flow.plan, flow.plan.receivers[receiver])?;
        flow.open.push((slot, usize::MAX));
        Ok(slot)
    }

    /// Adds the counters of a closed connection to the sums, and frees its slot.
    fn retire(&mut self, number: usize, slot: Slot, hosts: &mut Hosts) {
        let flow = &mut self.flows[number];
        let Some(place) = flow.open.iter().position(|(open, _)| *open == slot) else {
            return;
        };
        flow.open.remove(place);
        flow.retired.add(hosts, slot);
        hosts.release(slot);
    }
}

impl Retired {
    /// Adds what a connection counted.
    pub fn add(&mut self, hosts: &Hosts, slot: Slot) {
        let guest = hosts.end(slot, Side::Guest);
        let receiver = hosts.end(slot, Side::Receiver);
        add_totals(&mut self.guest, guest.connection.totals());
        self.delivered_bytes += receiver.connection.totals().delivered_bytes;
        self.needless_segments += receiver.connection.totals().needless_received;
        if let Some(instruments) = &guest.instruments {
            add_each(&mut self.ack_gaps, instruments.gaps.bins().iter().copied());
        }
        if let Some(resident) = &guest.resident {
            self.stalls.add(resident.counts());
        }
        if let Some(port) = &guest.port {
            add_each(&mut self.port_counts, port.counts().map(|(_, count)| count));
        }
        if let Some(port) = &receiver.port {
            let counts = port.counts().map(|(_, count)| count);
            add_each(&mut self.receiver_port_counts, counts);
        }
    }
}

fn add_each<T: Default + Copy + std::ops::AddAssign>(
    sums: &mut Vec<T>,
    values: impl Iterator<Item = T>,
) {
    for (place, value) in values.enumerate() {
        if place == sums.len() {
            sums.push(T::default());
        }
        sums[place] += value;
    }
}

/// Adds what another connection counted.
pub fn add_totals(sum: &mut Totals, more: &Totals) {
    sum.delivered_bytes += more.delivered_bytes;
    sum.acknowledged_bytes += more.acknowledged_bytes;
    sum.sent_bytes += more.sent_bytes;
    sum.retransmitted_bytes += more.retransmitted_bytes;
    sum.retransmits += more.retransmits;
    sum.timeouts += more.timeouts;
    sum.spurious_timeouts += more.spurious_timeouts;
    sum.backoffs += more.backoffs;
    sum.fast_recoveries += more.fast_recoveries;
    sum.ecn_cuts += more.ecn_cuts;
    sum.duplicate_acks += more.duplicate_acks;
    sum.ce_received += more.ce_received;
}
