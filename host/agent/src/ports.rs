//! Ports in the kernel: executes the steps of `reconcile.rs` through the pins. The pins are the only memory. They are
//! opened again each time, so the agent sees any change by another process or an earlier agent, even an incomplete one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use uc_client::AgentError;
use uc_port::{AttachVia, DRAIN_POLL, Drain, PortError, PortPlan, Programs, Store, Upgrade};

use crate::desired::Wanted;
use crate::memory;
use crate::reconcile::{Action, Actual, steps};
use crate::rollout::Tally;
use crate::settings::Settings;

/// Interval at which stale flows are deleted. A search takes microseconds for a thousand table entries.
const COLLECT_EVERY: Duration = Duration::from_secs(30);

/// The result of a reconciliation of ports with the policy.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Indices of the interfaces that have the programs now.
    pub attached: BTreeSet<u32>,
    /// Interfaces that were attached in this reconciliation.
    pub newly_attached: Vec<u32>,
    /// Interfaces that were detached in this reconciliation.
    pub newly_detached: Vec<u32>,
    /// Errors of the ports that could not be reconciled, keyed by interface index.
    pub errors: BTreeMap<u32, String>,
    /// First error that concerns no single port; the other steps were executed nevertheless.
    pub error: Option<PortError>,
    /// Generation of the plan in force, counted by the programs; `None` if no programs are loaded.
    pub plan: Option<u32>,
}

/// Attaches and detaches this host's ports, by the steps of `reconcile.rs`.
#[derive(Debug)]
pub struct Ports {
    store: Store,
    /// Capacity of the flow table, and number of flows whose events are recorded.
    room: (u32, u32),
    /// Whether to replace the pinned programs even if they are of this version.
    swap: bool,
    /// Whether this process has brought the pinned programs to its own build already; if so,
    /// opening them skips the upgrade.
    upgraded: bool,
    /// The plans that this process has set last, and their generation. While this generation is in force, no other
    /// process has set plans.
    told: Option<(u32, BTreeMap<u32, PortPlan>)>,
    /// The ports that drain: their programs translate no new flow, but still echo marks to peers.
    drain: Drain,
    collect_at: Instant,
}

impl Ports {
    /// Creates the ports of this host, with the store of its pins.
    pub fn new(settings: &Settings) -> Self {
        Self {
            store: Store::default().with_object(settings.object.clone()),
            room: (settings.flows_max, settings.events),
            swap: settings.swap,
            upgraded: false,
            told: None,
            drain: Drain::default(),
            collect_at: Instant::now() + COLLECT_EVERY,
        }
    }

    /// Returns the indices of the interfaces that have programs, also programs of a version with another layout of
    /// maps.
    pub fn attached(&self) -> Result<BTreeSet<u32>, PortError> {
        let ports = self.store.ports()?.into_iter();
        Ok(ports.map(|port| port.ifindex).collect())
    }

    /// Returns the number of packets of all ports so far, by reason.
    pub fn packets(&self) -> Result<Tally, PortError> {
        let Some(programs) = self.store.open()? else {
            return Ok(Tally::default());
        };
        let counters = programs.counters()?;
        let each = counters.iter();
        Ok(each
            .map(|(reason, count)| (reason.label().to_owned(), count))
            .collect())
    }

    /// Brings the actual to the desired state, as far as possible. A port whose plan is too long
    /// keeps its old plan.
    ///
    /// # Errors
    /// An error that concerns no single port, for instance that the BPF file system is missing.
    pub fn reconcile(&mut self, desired: &BTreeMap<u32, Wanted>) -> Result<Outcome, AgentError> {
        let wanted = desired.iter().filter(|(_, wanted)| !wanted.withdrawn);
        let mut wanted: BTreeMap<u32, PortPlan> = wanted
            .map(|(ifindex, wanted)| (*ifindex, wanted.plan.clone()))
            .collect();
        let mut outcome = Outcome::default();
        let _turn = self.store.lock()?;
        if wanted.is_empty() {
            self.told = None;
            self.leave_all(&mut outcome)?;
            return Ok(outcome);
        }
        for (&ifindex, plan) in &wanted {
            let error = uc_port::check_plan(ifindex, plan).err();
            let error = error.map(|error| (ifindex, error.to_string()));
            outcome.errors.extend(error);
        }
        wanted.retain(|ifindex, _| !outcome.errors.contains_key(ifindex));
        if wanted.is_empty() && matches!(self.store.open(), Ok(None)) {
            return Ok(outcome);
        }
        let programs = self.open(&wanted)?;
        let actual = self.actual(&programs)?;
        outcome.attached = actual.keys().copied().collect();
        for ifindex in outcome.errors.keys() {
            let has = actual.get(ifindex).cloned().flatten();
            wanted.extend(has.map(|plan| (*ifindex, plan)));
        }
        let steps = steps(&wanted, &actual);
        if !steps.iter().any(|step| matches!(step, Action::Detach(_))) {
            self.drain = Drain::default();
        }
        for step in steps {
            if let Err(error) = self.act(&programs, step, &mut outcome) {
                outcome.error.get_or_insert(error);
            }
        }
        self.forget(&programs, &outcome.attached)?;
        self.collect(&programs, &outcome.attached)?;
        outcome.plan = Some(programs.plan_generation()?);
        Ok(outcome)
    }

    /// Detaches every port; ports with programs of another version without draining.
    fn leave_all(&mut self, outcome: &mut Outcome) -> Result<(), PortError> {
        let ports = self.attached()?;
        if let Ok(Some(programs)) = self.store.open() {
            self.leave(&programs, ports, outcome)?;
            outcome.attached = self.drain.ports();
            if !self.drain.is_empty() {
                return Ok(());
            }
        }
        let ports = self.store.remove_all()?.into_iter();
        let ports: Vec<u32> = ports.map(|port| port.ifindex).collect();
        outcome.newly_detached.extend(ports);
        Ok(())
    }

    /// Detaches ports. A port with a flow whose peer may send ECT drains first; the other ports are detached at once.
    fn leave(
        &mut self,
        programs: &Programs,
        ports: BTreeSet<u32>,
        outcome: &mut Outcome,
    ) -> Result<(), PortError> {
        let drain = self.store.leave(programs, &ports)?;
        for ifindex in ports {
            match drain.flows(ifindex) {
                None => {
                    outcome.attached.remove(&ifindex);
                    outcome.newly_detached.push(ifindex);
                }
                Some(flows) if self.drain.flows(ifindex).is_none() => {
                    tracing::info!(
                        ifindex,
                        flows,
                        "drains: new flows pass; detached when these end"
                    );
                }
                Some(_) => {}
            }
        }
        self.drain = drain;
        Ok(())
    }

    /// Returns whether a draining port can be detached now, because its last such flow has ended.
    pub fn has_drained(&mut self) -> bool {
        !self.drain.is_empty() && self.store.has_drained(&mut self.drain).unwrap_or(false)
    }

    /// Returns the longest time between two calls of [`Ports::has_drained`]; `None`: no port drains.
    pub fn interval(&self) -> Option<Duration> {
        (!self.drain.is_empty()).then_some(DRAIN_POLL)
    }

    /// Deletes all stale flows at intervals of [`COLLECT_EVERY`], because they count against their port's quota. A new
    /// flow deletes only a few.
    fn collect(&mut self, programs: &Programs, attached: &BTreeSet<u32>) -> Result<(), AgentError> {
        if attached.is_empty() || self.collect_at > Instant::now() {
            return Ok(());
        }
        self.collect_at = Instant::now() + COLLECT_EVERY;
        Ok(programs.collect_idle()?)
    }

    /// Opens the pinned programs; replaces them by this build's programs first if needed.
    fn open(&mut self, wanted: &BTreeMap<u32, PortPlan>) -> Result<Programs, AgentError> {
        if self.upgraded
            && let Some(programs) = self.store.open()?
        {
            return Ok(programs);
        }
        self.told = None;
        if !matches!(self.store.open(), Ok(Some(_))) {
            memory::check(self.room)?;
        }
        let (programs, upgrade) = self.store.upgrade_with(wanted, self.room, self.swap)?;
        match &upgrade {
            Upgrade::Fresh | Upgrade::Current => {}
            Upgrade::Swapped => tracing::info!("ports have new programs; flows go on"),
            Upgrade::Carried(carried) => tracing::info!(
                flows = carried.flows,
                unseen_ms = carried.unseen.as_secs_f64() * 1e3,
                "ports have new programs and new maps, to which flows have gone over"
            ),
            Upgrade::Replaced { .. } => tracing::warn!("ports have new programs and new maps"),
        }
        for loss in upgrade.losses() {
            tracing::warn!("{loss}");
        }
        // Removes what a killed process left of an attachment.
        self.store.tidy(&programs)?;
        (self.upgraded, self.swap) = (true, false);
        Ok(programs)
    }

    fn actual(&self, programs: &Programs) -> Result<Actual<PortPlan>, AgentError> {
        let generation = programs.plan_generation()?;
        let told = self
            .told
            .as_ref()
            .filter(|(number, _)| *number == generation);
        let mut actual = Actual::new();
        for port in self.store.attached(programs)? {
            let plan = match told.and_then(|(_, plans)| plans.get(&port.ifindex)) {
                Some(plan) => Some(plan.clone()),
                None => programs.plan(port.ifindex)?,
            };
            actual.insert(port.ifindex, plan);
        }
        Ok(actual)
    }

    /// Deletes the state of interfaces that are gone, or all state if no port is attached.
    fn forget(&self, programs: &Programs, attached: &BTreeSet<u32>) -> Result<(), AgentError> {
        if attached.is_empty() {
            self.store.open_tidy()?;
            return Ok(());
        }
        let known = programs.ports()?.into_iter().map(|port| port.ifindex);
        let gone: BTreeSet<u32> = known
            .filter(|ifindex| !attached.contains(ifindex))
            .collect();
        if !gone.is_empty() {
            self.store.detach_indices(programs, &gone)?;
        }
        Ok(())
    }

    fn act(
        &mut self,
        programs: &Programs,
        step: Action<PortPlan>,
        outcome: &mut Outcome,
    ) -> Result<(), PortError> {
        match step {
            Action::Detach(ports) => {
                self.leave(programs, ports, outcome)?;
                if let Some((generation, _)) = &mut self.told {
                    *generation = programs.plan_generation()?;
                }
            }
            Action::Tell(plans) => {
                self.told = None;
                let moved = moved(programs, &plans)?;
                programs.set_plans(&plans)?;
                for ifindex in moved {
                    self.store.replace(programs, ifindex, &plans[&ifindex])?;
                }
                self.told = Some((programs.plan_generation()?, plans));
            }
            Action::Attach(plans) => self.attach(programs, plans, outcome)?,
        }
        Ok(())
    }

    fn attach(
        &mut self,
        programs: &Programs,
        plans: BTreeMap<u32, PortPlan>,
        outcome: &mut Outcome,
    ) -> Result<(), PortError> {
        let failed = self
            .store
            .attach_indices(programs, &plans, AttachVia::Auto)?;
        for (ifindex, plan) in plans {
            match failed.get(&ifindex) {
                Some(error) => {
                    outcome.errors.insert(ifindex, error.to_string());
                }
                None => {
                    outcome.attached.insert(ifindex);
                    outcome.newly_attached.push(ifindex);
                    if let Some((_, told)) = &mut self.told {
                        told.insert(ifindex, plan);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the ports whose new plans change the programs' order among other software's programs at the port.
fn moved(programs: &Programs, plans: &BTreeMap<u32, PortPlan>) -> Result<Vec<u32>, PortError> {
    let mut moved = Vec::new();
    for (&ifindex, plan) in plans {
        let had = programs.plan(ifindex)?;
        if had.is_some_and(|had| had.after_others != plan.after_others) {
            moved.push(ifindex);
        }
    }
    Ok(moved)
}
