//! Walks through the flow table at intervals, and sends guests the duplicate ACKs that the core finds due.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use uc_core::dupack::{Policy, Rounds, segment};
use uc_core::{Law, consts};
use uc_port::{FlowView, PortPlan, Programs, Source, now_ns};
use uc_service::commands::Key;
use uc_service::commands::dupack::{Counts, Done, PortSetup};

use crate::dupack::frame::frame;
use crate::dupack::wire::Wire;
use crate::error::HoldError;
use crate::work::Work;

/// Shortest time from one walk to the next.
const WALK_EVERY: Duration = Duration::from_millis(2);
/// Time to the next walk while no port is served.
const IDLE: Duration = Duration::from_millis(50);
/// Minimum ratio of the time until the next walk to a walk's processor time: at a large table the walks take at most a
/// tenth of a processor.
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

/// Sends duplicate ACKs at the ports. Dropping it ends the sending, and leaves nothing behind.
#[derive(Debug, Default)]
pub struct Sender {
    source: Source,
    programs: Option<Arc<Programs>>,
    /// Error, if the programs could not be opened when ports were added last.
    unreadable: Option<String>,
    ports: BTreeMap<u32, Port>,
    /// Flows that had a round; a flow that the walk does not meet is forgotten.
    flows: HashMap<Key, Given>,
}

impl Work for Sender {
    type Port = PortSetup;

    fn open(source: Source) -> Result<Self, HoldError> {
        Ok(Self {
            source,
            ..Self::default()
        })
    }

    /// Opens the ports' own programs: those that were loaded again since the last time have another flow table.
    fn refresh(&mut self) {
        match self.source.programs() {
            Ok(programs) => (self.programs, self.unreadable) = (programs, None),
            Err(error) => self.unreadable = Some(error.to_string()),
        }
    }

    fn has(&self, ifindex: u32) -> bool {
        self.ports.contains_key(&ifindex)
    }

    fn add(&mut self, port: &PortSetup) -> Result<(), HoldError> {
        if let Some(why) = self.unreadable.clone() {
            return Err(HoldError::Refused(why));
        }
        let open = opened(self.programs.as_deref(), port)?;
        self.ports.insert(port.ifindex, open);
        Ok(())
    }

    /// Removes the port if `now` is `None`. Otherwise changes its name and settings, and keeps what is known of its
    /// guests and flows.
    fn change(&mut self, before: &PortSetup, now: Option<&PortSetup>) -> Result<(), HoldError> {
        match now {
            None => drop(self.ports.remove(&before.ifindex)),
            Some(now) => {
                if let Some(port) = self.ports.get_mut(&now.ifindex) {
                    (port.name, port.policy) = (now.name.clone(), policy(now));
                }
            }
        }
        Ok(())
    }

    /// Walks through the flow table once, and sends the duplicate ACKs that are due. Returns the time until the next
    /// walk.
    fn step(&mut self) -> Result<Duration, HoldError> {
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

    fn done(
        &self,
        _ports: &[PortSetup],
        refused: BTreeMap<String, String>,
        flow: Option<Key>,
    ) -> Done {
        let counts = self.ports.values();
        Done {
            refused,
            counts: counts
                .map(|port| (port.name.clone(), port.counts))
                .collect(),
            flow: flow.and_then(|flow| self.flows.get(&flow).map(|given| given.counts)),
        }
    }
}

impl Sender {
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

/// Converts the settings of a port to the core's policy.
fn policy(port: &PortSetup) -> Policy {
    Policy::new(
        Duration::from_micros(port.least_us),
        port.short_tails_us.map(Duration::from_micros),
    )
}

/// Checks that duplicate ACKs can help at a port, and begins to learn its guests' addresses.
fn opened(programs: Option<&Programs>, port: &PortSetup) -> Result<Port, HoldError> {
    let name = &port.name;
    let plan = programs.map(|programs| programs.plan(port.ifindex));
    let Some(plan) = plan.transpose()?.flatten() else {
        return Err(HoldError::Refused(format!(
            "port {name} is not attached, so nothing times its flows; `uc attach {name} --no-sack \
             --no-timestamps` attaches it"
        )));
    };
    if !is_heard(&plan) {
        return Err(HoldError::Refused(format!(
            "port {name}: no rule removes SACK and timestamps from its flows, and guests that have \
             them ignore duplicate ACKs without SACK blocks and timestamps; attach it with \
             --no-sack --no-timestamps, or have an agent send them: dupack = true in its policy"
        )));
    }
    Ok(Port {
        name: name.clone(),
        policy: policy(port),
        wire: Wire::open(port.ifindex)?,
        counts: Counts::default(),
    })
}

/// Returns whether a rule of the port makes guests react to duplicate ACKs of the host: it translates, and removes
/// both SACK and timestamps.
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
