//! Conversion of one case of an experiment into a scenario: hosts, TCP settings, port policies and
//! start times.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use uc_core::watch::StartPolicy;
use uc_core::{Policy, consts, dupack};
use uc_experiment::layout::{Layout, layout};
use uc_experiment::{
    Case, Dupack, Experiment, Guests, Hypervisor, Law, Parameters, Profile, Stack, StartLaw,
};
use uc_law::policy;
use uc_net::random::Stream;
use uc_net::{BitsPerSec, HostId, LinkId, Nanos, Node, Topology};

use crate::consolidation::{Consolidator, Virtual, pvtcp_policy};
use crate::epochs;
use crate::error::SimError;
use crate::membership::Memberships;
use crate::packet::FLOWS_MAX;
use crate::placement::{Placement, receivers};
use crate::scenario::{Application, FlowPlan, Scenario};
use crate::stack::{check_couples, config, stack_of};
use crate::start::start_policy;

/// Initial window in segments of a stack that names none (RFC 6928).
const INITIAL_WINDOW_SEGMENTS: u8 = 10;

/// A case of an experiment, as a scenario to simulate.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scenario to simulate.
    pub scenario: Scenario,
    /// Labels of the flows, in the scenario's order.
    pub labels: Vec<Label>,
    /// Links that have the experiment's queue.
    pub bottlenecks: Vec<LinkId>,
}

/// The label of a flow in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Name of the group that the flow belongs to.
    pub group: String,
    /// Number of the flow in its group: guest by guest, then flow by flow.
    pub index: u32,
}

impl Plan {
    /// Converts `case` for a run with this seed.
    ///
    /// # Errors
    /// [`SimError::Refused`] for what simulated hosts can't do, [`SimError::Network`] for
    /// values that the network refuses.
    pub fn new(experiment: &Experiment, case: &Case, seed: u64) -> Result<Plan, SimError> {
        let flows: u32 = case
            .guests
            .iter()
            .fold(0, |sum, group| sum.saturating_add(group.total_flows()));
        if flows > FLOWS_MAX {
            return Err(SimError::Refused(format!(
                "{flows} flows, above {FLOWS_MAX}; lower `count` or `flows`"
            )));
        }
        if experiment.network.offload {
            let why = "[network] offload: hosts in the simulator send segment by segment; leave it \
                       out, or run the experiment live";
            return Err(SimError::Refused(why.into()));
        }
        let hosts = Placement::new(experiment, case)?;
        let network = layout(&experiment.network_of(case), &hosts.places)?;
        let receiver_stack = experiment.receiver_stack(case);
        let mut planner = Planner {
            experiment,
            network: &network,
            receiver_config: Arc::new(config(
                "server",
                &receiver_stack,
                experiment.network.family,
            )?),
            receiver_policy: case.receiver_law.map(receiver_policy),
            receiver_hypervisor: case.receiver_hypervisor.as_ref(),
            grants: case.grants.is_some(),
            receiver_pvtcp: receiver_stack.pvtcp.as_ref().map(pvtcp_policy),
            starts: Stream::new(seed, "traffic/start"),
            pattern: Stream::new(seed, "traffic/pattern"),
            epochs: Stream::new(seed, "traffic/epochs"),
            memberships: Memberships::new(&case.coupling),
            consolidator: Consolidator::new(seed),
            flows: Vec::new(),
            labels: Vec::new(),
        };
        for (number, group) in case.guests.iter().enumerate() {
            planner.add_group(number, group, &hosts.of_groups[number])?;
        }
        let (flows, labels) = (planner.flows, planner.labels);
        let groups = planner.memberships.into_groups();
        let consolidation = planner.consolidator.into_consolidation();
        let mut bottlenecks = network.bottlenecks;
        keep_used(&mut bottlenecks, &network.topology, &flows);
        let granter = case.grants.and_then(|rate| granter(rate, &flows));
        Ok(Plan {
            scenario: Scenario {
                seed,
                topology: network.topology,
                ip_header_bytes: experiment.network.family.header_bytes(),
                flows,
                groups,
                consolidation,
                granter,
            },
            labels,
            bottlenecks,
        })
    }
}

/// Returns the host that grants pacing slots at this rate, and its policy: the receiver of the first flow with a start;
/// `None`: no flow has one.
fn granter(rate: BitsPerSec, flows: &[FlowPlan]) -> Option<(HostId, StartPolicy)> {
    let mut started = flows.iter().filter(|flow| flow.start_policy.is_some());
    let first = started.next()?;
    let policy = StartPolicy {
        pace_bytes_per_s: rate.0 / 8,
        ..first.start_policy?
    };
    Some((*first.receivers.first()?, policy))
}

/// Removes from `bottlenecks` the links to hosts that receive no data: they carry only ACKs, and no flow has its
/// bottleneck there.
fn keep_used(bottlenecks: &mut Vec<LinkId>, topology: &Topology, flows: &[FlowPlan]) {
    let receivers = flows.iter().flat_map(|flow| &flow.receivers);
    let receivers: BTreeSet<HostId> = receivers.copied().collect();
    bottlenecks.retain(|link| match topology.links()[link.0 as usize].to {
        Node::Host(host) => receivers.contains(&host),
        Node::Switch(_) => true,
    });
}

struct Planner<'a> {
    experiment: &'a Experiment,
    network: &'a Layout,
    receiver_config: Arc<uc_tcp::Config>,
    receiver_policy: Option<Policy>,
    receiver_hypervisor: Option<&'a Hypervisor>,
    /// Whether one host grants the pacing slots of all flows' first windows (setting `grants`).
    grants: bool,
    receiver_pvtcp: Option<uc_core::steal::Policy>,
    starts: Stream,
    /// Random numbers for the traffic patterns of switches and fat-trees.
    pattern: Stream,
    /// Random numbers for the starts of epochs.
    epochs: Stream,
    memberships: Memberships<'a>,
    consolidator: Consolidator,
    flows: Vec<FlowPlan>,
    labels: Vec<Label>,
}

impl<'a> Planner<'a> {
    fn add_group(
        &mut self,
        number: usize,
        group: &'a Guests,
        hosts: &[usize],
    ) -> Result<(), SimError> {
        let stack = stack_of(self.experiment, group)?;
        let family = self.experiment.network.family;
        check_couples(group, stack)?;
        let mut guest_config = config(&group.stack, stack, family)?;
        // A receiver's port recognises a DCTCP sender by its ACK without data at the end of the
        // handshake (core/feedback/exact.h), which programs that write after connecting send.
        guest_config.acknowledges_before_data = self.receiver_policy.is_some();
        if matches!(
            group.application,
            uc_experiment::Application::Messages { .. }
        ) {
            // Applications that send messages set TCP_NODELAY: otherwise the end of each message
            // would wait for the ACK of the data before it.
            guest_config.nagle = stack.nagle.unwrap_or(false);
        }
        let guest_config = Arc::new(guest_config);
        let policy = group.law.map(|law| port_policy(law, group, stack));
        let dupacks = group.dupack.map(dupack_policy);
        let hold = group.hold.map(|hold| hold.settings());
        let start_policy = group
            .start_law
            .map(|StartLaw::Watch| start_policy(&group.watch, &self.experiment.network))
            .map(|policy| StartPolicy {
                granted: self.grants.into(),
                ..policy
            });
        let mut turns = epochs::turns(group, &mut self.epochs).into_iter();
        let hypervisor = group.hypervisor.as_ref();
        let first_machine = hypervisor.map(|hypervisor| {
            let count = hosts.len() as u32;
            self.consolidator.add_group(&group.name, count, hypervisor)
        });
        let pvtcp = stack.pvtcp.as_ref().map(pvtcp_policy);
        for (guest, &host) in hosts.iter().enumerate() {
            let membership = self.memberships.join(group);
            for flow in 0..group.flows {
                let index = guest as u32 * group.flows + flow;
                let turns = turns.next().unwrap_or_default();
                let start = turns.first().copied();
                let start = start.unwrap_or_else(|| self.start(group));
                let topology = self.experiment.network.topology;
                let receivers = receivers(group, topology, host, &mut self.pattern)?;
                let receivers = receivers.iter().map(|&place| self.network.receivers[place]);
                let receivers: Vec<HostId> = receivers.collect();
                if let Some(hypervisor) = self.receiver_hypervisor {
                    self.consolidator.add_receivers(&receivers, hypervisor);
                }
                self.flows.push(FlowPlan {
                    name: format!("{}[{index}]", group.name),
                    guest: self.network.guests[host],
                    receivers,
                    guest_config: Arc::clone(&guest_config),
                    receiver_config: Arc::clone(&self.receiver_config),
                    policy,
                    dupacks,
                    hold,
                    receiver_policy: self.receiver_policy,
                    start_policy,
                    membership,
                    virtual_part: Virtual {
                        machine: first_machine.map(|first| first + guest),
                        pvtcp,
                        receiver_pvtcp: self.receiver_pvtcp,
                    },
                    start,
                    stop: group.stop,
                    application: Application::of(
                        group,
                        &self.experiment.network,
                        number,
                        host,
                        turns,
                    ),
                });
                self.labels.push(Label {
                    group: group.name.clone(),
                    index,
                });
            }
        }
        Ok(())
    }

    /// Draws a start time, uniform within the group's spread ([`Experiment::start_spread`]).
    fn start(&mut self, group: &Guests) -> Nanos {
        let spread = self.experiment.start_spread(group);
        group.start + Nanos(self.starts.below(spread.0))
    }
}

/// Returns the policy of a guest's port. The default profile is `rfc`: simulated hosts follow the RFCs, which count in
/// bytes.
fn port_policy(law: Law, group: &Guests, stack: &Stack) -> Policy {
    let profile = group.profile.unwrap_or(Profile::Rfc);
    Policy {
        // The paths are known to have no middleboxes: a retransmitted SYN requests ECN again.
        ecn_syns: consts::ECN_SYNS_ALWAYS as u8,
        // If the start law sets a flow's first window, the law need not imitate the guest's.
        initial_window_segments: match group.start_law {
            Some(StartLaw::Watch) => INITIAL_WINDOW_SEGMENTS,
            None => stack.initial_window.unwrap_or(INITIAL_WINDOW_SEGMENTS),
        },
        ..policy(law, profile, &group.parameters)
    }
}

/// Returns the policy of the duplicate ACKs that ports send.
fn dupack_policy(settings: Dupack) -> dupack::Policy {
    let duration = |time: Nanos| Duration::from_nanos(time.0);
    dupack::Policy::new(
        settings.least.map_or(dupack::Policy::LEAST, duration),
        settings.short_tails.map(duration),
    )
}

/// Returns the policy of the receivers' ports.
fn receiver_policy(law: Law) -> Policy {
    Policy {
        ecn_syns: consts::ECN_SYNS_ALWAYS as u8,
        ..policy(law, Profile::Rfc, &Parameters::default())
    }
}
