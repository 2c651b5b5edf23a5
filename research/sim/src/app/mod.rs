//! Applications of flows: they write, wait and send requests.
//!
//! An application acts only on a [`Notice`]: its time has come, a handshake is complete, the bytes
//! that it waits for have arrived, or a connection is closed.

mod epochs;
mod exchange;
mod flow;
mod messages;
mod progress;
mod transfers;
mod web;

use uc_experiment::Arrivals;

use crate::error::SimError;
use crate::hosts::{Hosts, Notice, Side, Slot};
use crate::scenario::{Application, Scenario};

pub use flow::{Flow, Retired, add_totals};
use progress::{Barrier, Channels, Dialogue, State};

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
                Application::Transfer { .. } | Application::List(_) => State::Transfers(0),
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

    /// Returns the flows, to take their events.
    pub fn flows_mut(&mut self) -> &mut [Flow] {
        &mut self.flows
    }

    /// Delivers a notice to the application concerned.
    ///
    /// # Errors
    /// Too many connections are open.
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
            (Application::List(_), _) => self.next_listed(number, hosts),
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
        flow.events.extend(hosts.take_events(slot));
        hosts.release(slot);
    }
}
