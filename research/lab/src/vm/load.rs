//! The flows of a case whose senders are VMs: started, watched and counted over their control
//! channels, received on this host.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use uc_experiment::{FlowSample, Nanos};

use crate::load::{Counted, GoOn, Running};
use crate::turns::Turns;
use crate::vm::coupling::{self, Coupling};
use crate::vm::error::VmError;
use crate::vm::machine::{Machine, PATIENCE};
use crate::vm::message::{Answer, FlowEvent, Order, Request};
use crate::vm::staller::{Staller, Stalls};
use crate::{LabError, Load, Plan, Reception, Sighting, clock, tcp_counters, traffic};

/// Interval at which VMs are asked whether their flows are connected.
const LOOK: Duration = Duration::from_millis(20);
/// Counters of a guest's TCP (/proc/net/snmp and netstat), with their names in a record.
const COUNTERS: [(&str, &str); 8] = [
    ("Tcp_RetransSegs", "segments_sent_again"),
    ("TcpExt_TCPTimeouts", "timeouts"),
    ("TcpExt_TCPSpuriousRTOs", "spurious_timeouts"),
    ("TcpExt_TCPLossUndo", "loss_undone"),
    ("TcpExt_TCPFullUndo", "recoveries_undone"),
    ("TcpExt_TCPLossProbes", "tail_loss_probes"),
    ("TcpExt_TCPFastRetrans", "fast_retransmits"),
    ("TcpExt_TCPSlowStartRetrans", "slow_start_retransmits"),
];

/// Counters of a guest's PVTCP module, if it is loaded, with their names in a record.
const PVTCP: [(&str, &str); 6] = [
    ("Pvtcp_spikes", "pvtcp_spikes"),
    ("Pvtcp_deferred", "pvtcp_deferred"),
    ("Pvtcp_awaited", "pvtcp_awaited"),
    ("Pvtcp_in_vain", "pvtcp_in_vain"),
    ("Pvtcp_filtered", "pvtcp_filtered"),
    ("Pvtcp_missed", "pvtcp_missed"),
];

/// The VMs and their flows. The stallers are dropped first: a frozen VM can't end.
pub struct Senders<'a> {
    stallers: Vec<Staller>,
    plan: &'a Plan,
    machines: Vec<Machine>,
    reception: Reception,
    before: Vec<BTreeMap<String, u64>>,
    waited_before: Vec<Duration>,
    seed: u64,
    coupling: Option<Coupling>,
}

impl<'a> Senders<'a> {
    /// Starts every flow, in an order drawn from the seed.
    pub fn start(
        plan: &'a Plan,
        machines: Vec<Machine>,
        reception: Reception,
        seed: u64,
        go_on: GoOn<'_>,
    ) -> Result<Self, VmError> {
        let mut senders = Self {
            stallers: Vec::new(),
            plan,
            machines,
            reception,
            before: Vec::new(),
            waited_before: Vec::new(),
            seed,
            coupling: None,
        };
        senders.before = senders.counters(go_on)?;
        let waits = traffic::waits(plan, seed);
        let mut orders: Vec<Vec<Order>> = vec![Vec::new(); plan.guests.len()];
        for (flow, wait) in senders.reception.flows().iter().zip(waits) {
            orders[flow.running.guest].push(Order {
                from: flow.running.tuple.source,
                to: flow.running.tuple.destination,
                congestion_control: coupling::kernel_name(&plan.guests[flow.running.guest])
                    .to_owned(),
                wait_us: wait.as_micros() as u64,
                block_bytes: plan.guests[flow.running.guest]
                    .incast
                    .map(|it| it.block_bytes),
            });
        }
        for (machine, orders) in senders.machines.iter_mut().zip(orders) {
            machine.tell(&Request::Send(orders))?;
        }
        for machine in &mut senders.machines {
            match machine.hear_while(PATIENCE, go_on)? {
                Answer::Done => {}
                other => return Err(machine.unexpected(&other)),
            }
        }
        Ok(senders)
    }

    /// Keeps a coupling for as long as the flows send.
    pub fn coupled_by(mut self, coupling: Option<Coupling>) -> Self {
        self.coupling = coupling;
        self
    }

    /// Asks all VMs at once, and returns their answers in the plan's order.
    fn ask_all(&mut self, request: &Request, go_on: GoOn<'_>) -> Result<Vec<Answer>, VmError> {
        for machine in &mut self.machines {
            machine.tell(request)?;
        }
        let machines = self.machines.iter_mut();
        machines
            .map(|machine| machine.hear_while(PATIENCE, go_on))
            .collect()
    }

    fn counters(&mut self, go_on: GoOn<'_>) -> Result<Vec<BTreeMap<String, u64>>, VmError> {
        let answers = self.ask_all(&Request::Counters, go_on)?.into_iter();
        let counters = answers
            .zip(&self.machines)
            .map(|(answer, machine)| match answer {
                Answer::Counters(counters) => Ok(counters),
                other => Err(machine.unexpected(&other)),
            });
        counters.collect()
    }

    /// Returns the number of connections among the events, and the sum of their retransmitted SYNs.
    fn take(machine: &Machine, events: Vec<FlowEvent>) -> Result<(usize, u64), VmError> {
        let (mut connected, mut again) = (0, 0);
        for event in events {
            match event {
                FlowEvent::Connected { retransmits } => {
                    connected += 1;
                    again += u64::from(retransmits);
                }
                FlowEvent::Failed(detail) => {
                    return Err(VmError::Inside {
                        node: machine.node().into(),
                        detail,
                    });
                }
            }
        }
        Ok((connected, again))
    }

    /// Starts the stalls of the guests' CPUs, where the plan has any.
    fn freeze(&mut self) -> Result<(), VmError> {
        self.waited_before = self.waited()?;
        let epoch = Instant::now();
        let guests = self.plan.guests.iter().zip(&self.machines);
        for (guest, machine) in guests {
            let shared = guest.hypervisor.as_ref().filter(|found| found.stalls());
            if let Some(hypervisor) = shared {
                let turns = Turns::new(hypervisor, &guest.group, guest.index, self.seed);
                self.stallers.push(Staller::start(machine, turns, epoch)?);
            }
        }
        Ok(())
    }

    fn waited(&self) -> Result<Vec<Duration>, VmError> {
        self.machines.iter().map(Machine::waited).collect()
    }

    /// Returns the longest time that a guest waited for this host's CPU since all were connected.
    fn waited_max(&self) -> Result<Duration, VmError> {
        let pairs = self.waited()?.into_iter().zip(&self.waited_before);
        let waited = pairs.map(|(after, before)| after.saturating_sub(*before));
        Ok(waited.max().unwrap_or_default())
    }

    fn thaw(&mut self) -> Result<Vec<Stalls>, VmError> {
        self.stallers.drain(..).map(Staller::finish).collect()
    }

    /// Returns the guests' counters since their flows were started, summed by group and name.
    fn counted(&self, after: &[BTreeMap<String, u64>]) -> BTreeMap<String, u64> {
        let mut found = BTreeMap::new();
        for (number, guest) in self.plan.guests.iter().enumerate() {
            let has = |key: &str| after.get(number).is_some_and(|all| all.contains_key(key));
            let pvtcp = PVTCP.into_iter().filter(|(key, _)| has(key));
            for (key, name) in COUNTERS.into_iter().chain(pvtcp) {
                let count = self.since(after, number, key);
                *found
                    .entry(format!("vm_{}_{name}", guest.group))
                    .or_insert(0) += count;
            }
        }
        found
    }

    fn since(&self, after: &[BTreeMap<String, u64>], guest: usize, key: &str) -> u64 {
        let of = |all: &[BTreeMap<String, u64>]| {
            let counters = all.get(guest);
            counters
                .and_then(|counters| counters.get(key))
                .copied()
                .unwrap_or(0)
        };
        of(after).saturating_sub(of(&self.before))
    }

    /// Returns the timeouts of each flow: all of a guest's if it has one flow, `None` if it has
    /// several.
    fn timeouts(&self, after: &[BTreeMap<String, u64>]) -> Vec<Option<u32>> {
        let of_flow = |flow: &crate::reception::Expected| {
            let count = self.since(after, flow.running.guest, tcp_counters::TIMEOUTS);
            let alone = self.plan.guests[flow.running.guest].flows == 1;
            alone.then(|| u32::try_from(count).unwrap_or(u32::MAX))
        };
        self.reception.flows().iter().map(of_flow).collect()
    }
}

impl Load for Senders<'_> {
    fn flows(&self) -> Vec<Running> {
        let flows = self.reception.flows().iter();
        flows.map(|flow| flow.running.clone()).collect()
    }

    fn wait_connected(&mut self, go_on: GoOn<'_>) -> Result<u64, LabError> {
        let mut missing = self.plan.flow_count();
        let mut retransmits = 0;
        while missing > 0 {
            go_on()?;
            self.reception.check()?;
            let answers = self.ask_all(&Request::Events, go_on)?;
            for (machine, answer) in self.machines.iter().zip(answers) {
                let Answer::Events(events) = answer else {
                    return Err(machine.unexpected(&answer).into());
                };
                let (connected, again) = Self::take(machine, events)?;
                missing = missing.saturating_sub(connected);
                retransmits += again;
            }
            std::thread::sleep(LOOK);
        }
        self.freeze()?;
        Ok(retransmits)
    }

    /// Does nothing: flows of machines are bulk flows and blocks, which start before the clock.
    fn begin(&mut self, _: Nanos) -> Result<(), LabError> {
        Ok(())
    }

    fn check(&mut self) -> Result<(), LabError> {
        self.reception.check()?;
        if self.stallers.iter().any(Staller::has_ended) {
            self.thaw()?;
        }
        Ok(())
    }

    /// Samples all guests. All are asked at once and answer when they can: a stalled guest answers
    /// after its stall. The sample's time is that of the answer, and the delivered bytes are read
    /// then.
    fn sample(&mut self) -> Result<Vec<Sighting>, LabError> {
        for machine in &mut self.machines {
            machine.tell(&Request::Sample)?;
        }
        let mut flows = self.reception.flows().iter();
        let mut all = Vec::with_capacity(flows.len());
        for machine in &mut self.machines {
            let answer = machine.hear(PATIENCE)?;
            let Answer::Samples { sightings, events } = answer else {
                return Err(machine.unexpected(&answer).into());
            };
            Self::take(machine, events)?;
            // In this order: zip takes from its left side first, and would discard that item.
            for (seen, flow) in sightings.into_iter().zip(flows.by_ref()) {
                all.push(Sighting {
                    at: clock::now(),
                    sample: FlowSample {
                        delivered_bytes: flow.delivered_bytes(),
                        ..seen.sample
                    },
                    negotiated_ecn: seen.negotiated_ecn,
                });
            }
        }
        Ok(all)
    }

    fn finish(&mut self) -> Result<Counted, LabError> {
        let stalls = self.thaw()?;
        let waited_ms = self.waited_max()?.as_millis() as u64;
        let after = self.counters(&|| Ok(()))?;
        for machine in &mut self.machines {
            machine.check_unharmed()?;
        }
        let mut counters = self.counted(&after);
        counters.insert("vm_waited_max_ms".into(), waited_ms);
        counters.extend(self.reception.counters());
        if let Some(coupling) = &self.coupling {
            counters.insert("vm_coupled".into(), coupling.coupled());
        }
        if !stalls.is_empty() {
            counters.extend(Stalls::counters(&stalls));
        }
        Ok(Counted {
            counters,
            timeouts: self.timeouts(&after),
            ..Counted::default()
        })
    }
}
