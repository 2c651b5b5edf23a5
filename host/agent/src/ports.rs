//! The kernel's side: does the steps of `reconcile.rs`, through what is pinned. The pins are the
//! only memory: they are opened anew each time, so whatever another process or an earlier agent has
//! done to them, whole or half, is seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use uc_client::AgentError;
use uc_port::{AttachVia, PortError, PortPlan, Programs, Store, Upgrade};

use crate::desired::Wanted;
use crate::reconcile::{Action, Actual, steps};
use crate::settings::Settings;

/// How often flows that are over are looked for; it takes microseconds for a thousand places.
const COLLECT_EVERY: Duration = Duration::from_secs(30);

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Interfaces with the programs on them.
    pub attached: BTreeSet<u32>,
    /// Those that have just got them.
    pub newly_attached: Vec<u32>,
    /// Those that have just lost them.
    pub newly_detached: Vec<u32>,
    /// What failed, by interface.
    pub errors: BTreeMap<u32, String>,
    /// What failed first that concerns no port alone; what could be done beside it was.
    pub error: Option<PortError>,
    /// The plan that is in force, as the programs count; none without programs.
    pub plan: Option<u32>,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Ports {
    store: Store,
    /// For flows, and for the events of flows.
    room: (u32, u32),
    /// The programs are to be replaced whatever their version.
    swap: bool,
    /// Whether they are this build's: nobody puts older ones there while this agent runs.
    upgraded: bool,
    /// What this process has told the programs, and the number of that telling: as long as that is
    /// in force, nobody else has told them anything.
    told: Option<(u32, BTreeMap<u32, PortPlan>)>,
    collect_at: Instant,
}

impl Ports {
    /// Those of this host's store.
    pub fn new(settings: &Settings) -> Self {
        Self {
            store: Store::default(),
            room: (settings.flows_max, settings.events),
            swap: settings.swap,
            upgraded: false,
            told: None,
            collect_at: Instant::now() + COLLECT_EVERY,
        }
    }

    /// Makes what is there what is desired, as far as can be. A port whose plan is too long keeps the
    /// one that it has.
    ///
    /// # Errors
    /// What concerns no port alone, for instance a missing BPF file system.
    pub fn reconcile(&mut self, desired: &BTreeMap<u32, Wanted>) -> Result<Outcome, AgentError> {
        let wanted = desired.iter().filter(|(_, wanted)| !wanted.held);
        let mut wanted: BTreeMap<u32, PortPlan> = wanted
            .map(|(ifindex, wanted)| (*ifindex, wanted.plan.clone()))
            .collect();
        let mut outcome = Outcome::default();
        let _turn = self.store.lock()?;
        if wanted.is_empty() {
            self.told = None;
            let ports = self.store.remove_all()?.into_iter();
            outcome.newly_detached = ports.map(|port| port.ifindex).collect();
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
        for step in steps(&wanted, &actual) {
            if let Err(error) = self.act(&programs, step, &mut outcome) {
                outcome.error.get_or_insert(error);
            }
        }
        self.forget(&programs, &outcome.attached)?;
        self.collect(&programs, &outcome.attached)?;
        outcome.plan = Some(programs.plan_generation()?);
        Ok(outcome)
    }

    /// Flows that are over count among their port's until somebody looks: each new flow does for a
    /// few, and this for all.
    fn collect(&mut self, programs: &Programs, attached: &BTreeSet<u32>) -> Result<(), AgentError> {
        if attached.is_empty() || self.collect_at > Instant::now() {
            return Ok(());
        }
        self.collect_at = Instant::now() + COLLECT_EVERY;
        Ok(programs.collect_idle()?)
    }

    /// What is pinned, with this build's programs.
    fn open(&mut self, wanted: &BTreeMap<u32, PortPlan>) -> Result<Programs, AgentError> {
        if self.upgraded
            && let Some(programs) = self.store.open()?
        {
            return Ok(programs);
        }
        self.told = None;
        let (programs, upgrade) = self.store.upgrade_with(wanted, self.room, self.swap)?;
        match upgrade {
            Upgrade::Fresh | Upgrade::Current => {}
            Upgrade::Swapped => tracing::info!("ports have new programs; flows go on"),
            Upgrade::Replaced => tracing::warn!(
                "ports have new programs and new maps: flows under way pass untouched"
            ),
        }
        // What an attach left that was killed halfway.
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

    /// What is known of interfaces that have gone; and all, when nothing is attached.
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
                self.store.detach_indices(programs, &ports)?;
                outcome.attached.retain(|ifindex| !ports.contains(ifindex));
                outcome.newly_detached.extend(ports);
            }
            Action::Tell(plans) => {
                self.told = None;
                programs.set_plans(&plans)?;
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
