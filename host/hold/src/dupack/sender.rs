//! Walks through the flow table at intervals, and sends what the core says is due.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use uc_core::dupack::{Policy, Rounds, segment};
use uc_core::{Law, consts};
use uc_port::{FlowView, PortPlan, Programs, Source, now_ns};

use crate::dupack::frame::frame;
use crate::dupack::setup::{PortSetup, Setup};
use crate::dupack::status::{Counts, Done, Status};
use crate::dupack::wire::Wire;
use crate::error::HoldError;
use crate::status::Key;

/// Shortest time from one walk to the next.
const WALK_EVERY: Duration = Duration::from_millis(2);
/// Time to the next walk while no port is served.
const IDLE: Duration = Duration::from_millis(50);
/// A walk is followed by a pause of this many times its processor time, so a large table takes no more of
/// a processor.
const PAUSE_PER_WALK: u32 = 10;

/// A port at which duplicate ACKs are sent.
#[derive(Debug)]
struct Port {
    name: String,
    policy: Policy,
    wire: Wire,
    counts: Counts,
}

/// Rounds and counters of one flow's duplicate ACKs.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    rounds: Rounds,
    counts: Counts,
}

/// The ports, and what was done for their flows. Dropping it leaves nothing behind.
#[derive(Debug, Default)]
pub struct Sender {
    setup: Setup,
    source: Source,
    programs: Option<Arc<Programs>>,
    ports: BTreeMap<u32, Port>,
    refused: BTreeMap<String, HoldError>,
    /// Flows that had a round; a flow that the walk does not meet is forgotten.
    flows: HashMap<Key, Given>,
}

impl Sender {
    /// Creates a sender for ports whose programs are those of `source`; it has no ports yet.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            ..Self::default()
        }
    }

    /// Sends duplicate ACKs as this setup says, from now on. Ports that stay keep what is known of their
    /// guests and flows.
    pub fn change(&mut self, setup: Setup) {
        let of = |ifindex: u32| setup.ports.iter().find(|port| port.ifindex == ifindex);
        self.ports.retain(|ifindex, _| of(*ifindex).is_some());
        for (ifindex, port) in &mut self.ports {
            if let Some(own) = of(*ifindex) {
                (port.name, port.policy) = (own.name.clone(), own.policy());
            }
        }
        self.setup = setup;
        self.open();
    }

    /// Opens the ports of the setup at which none are sent yet, and notes why some can't be.
    pub fn open(&mut self) {
        self.refused.clear();
        let is_closed = |port: &&PortSetup| !self.ports.contains_key(&port.ifindex);
        let closed: Vec<PortSetup> = self.setup.ports.iter().filter(is_closed).cloned().collect();
        if closed.is_empty() {
            return;
        }
        // Programs that were loaded again since the last time have another table.
        match self.source.programs() {
            Ok(programs) => {
                for port in closed {
                    match opened(programs.as_deref(), &port) {
                        Ok(open) => drop(self.ports.insert(port.ifindex, open)),
                        Err(error) => drop(self.refused.insert(port.name, error)),
                    }
                }
                self.programs = programs;
            }
            Err(error) => {
                let why = error.to_string();
                let refuse =
                    |port: PortSetup| (port.name, HoldError::Programs { why: why.clone() });
                self.refused.extend(closed.into_iter().map(refuse));
            }
        }
    }

    /// Returns whether ports of the setup are refused.
    pub fn is_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Takes out why a port of the setup is refused, if one is.
    pub fn take_refusal(&mut self) -> Option<HoldError> {
        self.refused.pop_first().map(|(_, error)| error)
    }

    /// Returns what was done so far, and for this flow.
    pub fn status(&self, flow: Option<Key>) -> Status {
        let refused = self.refused.iter();
        let counts = self.ports.values();
        let done = Done {
            refused: refused
                .map(|(port, error)| (port.clone(), error.to_string()))
                .collect(),
            counts: counts
                .map(|port| (port.name.clone(), port.counts))
                .collect(),
            flow: flow.and_then(|flow| self.flows.get(&flow).map(|given| given.counts)),
        };
        Status::own(self.setup.clone(), done)
    }

    /// Walks through the flow table once. Returns the time until the next walk.
    ///
    /// # Errors
    /// The kernel's refusal to read the table.
    pub fn walk(&mut self) -> Result<Duration, HoldError> {
        let began = processor_time();
        self.ports.values_mut().for_each(|port| port.wire.learn());
        let Some(programs) = self.programs.as_ref().filter(|_| !self.ports.is_empty()) else {
            self.flows.clear();
            return Ok(IDLE);
        };
        let now_ns = now_ns();
        let mut met = HashMap::new();
        let mut due = Vec::new();
        let (ports, flows) = (&self.ports, &self.flows);
        programs.each_flow(|flow| {
            let key = (flow.ifindex, flow.guest, flow.remote);
            let Some(port) = ports.get(&flow.ifindex) else {
                return;
            };
            let before = flows.get(&key).copied();
            let mut own = before.unwrap_or_default();
            let count = own.rounds.take(&port.policy, &flow.state, now_ns);
            if count > 0 {
                due.push((flow, count));
            }
            if count > 0 || before.is_some() {
                met.insert(key, own);
            }
        })?;
        self.flows = met;
        for (flow, count) in due {
            self.send(&flow, count);
        }
        // Not by the clock: a machine that holds this process up during a walk must not prolong the pause.
        let took = processor_time().saturating_sub(began);
        Ok(WALK_EVERY.max(took * PAUSE_PER_WALK))
    }

    /// Sends a flow's duplicate ACKs to its guest.
    fn send(&mut self, flow: &FlowView, count: u32) {
        let Some(port) = self.ports.get_mut(&flow.ifindex) else {
            return;
        };
        let link = port.wire.link(flow.guest.ip());
        let ack = segment(&flow.state);
        let frame = link.and_then(|link| frame(link, flow.remote, flow.guest, &ack));
        let done = match frame {
            Some(bytes) => Counts {
                rounds: 1,
                duplicate_acks: (0..count).filter(|_| port.wire.send(&bytes)).count() as u64,
                unknown_guests: 0,
            },
            None => Counts {
                unknown_guests: 1,
                ..Counts::default()
            },
        };
        port.counts += done;
        if let Some(given) = self.flows.get_mut(&(flow.ifindex, flow.guest, flow.remote)) {
            given.counts += done;
        }
    }
}

/// Checks that duplicate ACKs can help at a port, and begins to learn its guests' addresses.
fn opened(programs: Option<&Programs>, port: &PortSetup) -> Result<Port, HoldError> {
    let name = || port.name.clone();
    let plan = programs.map(|programs| programs.plan(port.ifindex));
    let Some(plan) = plan.transpose()?.flatten() else {
        return Err(HoldError::NotAttached { name: name() });
    };
    if !is_heard(&plan) {
        return Err(HoldError::Deaf { name: name() });
    }
    Ok(Port {
        name: name(),
        policy: port.policy(),
        wire: Wire::open(port.ifindex)?,
        counts: Counts::default(),
    })
}

/// Returns whether a rule of the port makes guests listen to duplicate ACKs of the host.
fn is_heard(plan: &PortPlan) -> bool {
    let removed = consts::WITHHELD_SACK | consts::WITHHELD_TIMESTAMPS;
    plan.rules.iter().any(|rule| {
        let modes = u32::from(rule.policy.modes);
        Law::of(&rule.policy) != Law::PASS
            && modes & consts::MODE_OBSERVE == 0
            && modes & removed == removed
    })
}

/// Returns the processor time of this thread.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uc_core::Policy as LawPolicy;

    #[test]
    fn only_ports_whose_flows_lose_sack_and_timestamps_are_heard() {
        let heard = |law: u32, modes: u32| {
            let policy = LawPolicy {
                modes: modes as u8,
                ..LawPolicy::new(law, consts::PROFILE_LINUX)
            };
            is_heard(&PortPlan::of_all(policy, None))
        };
        let both = consts::WITHHELD_SACK | consts::WITHHELD_TIMESTAMPS;
        assert!(heard(consts::LAW_ECN, both));
        assert!(heard(consts::LAW_DELAY, both | consts::WITHHELD_WSCALE));
        assert!(!heard(consts::LAW_ECN, consts::WITHHELD_SACK));
        assert!(!heard(consts::LAW_ECN, consts::WITHHELD_TIMESTAMPS));
        assert!(!heard(consts::LAW_ECN, both | consts::MODE_OBSERVE));
        assert!(!heard(consts::LAW_PASS, both));
        assert!(!is_heard(&PortPlan::default()));
    }
}
