//! What was done goes into the agent's state, and into its log.

use std::collections::BTreeMap;

use crate::desired::Wanted;
use crate::error::AgentError;
use crate::hold::Hold;
use crate::ports::Outcome;
use crate::state::{AgentState, PortState};

impl AgentState {
    /// What came of bringing the ports to what is desired.
    pub(crate) fn take_in(
        &mut self,
        desired: &BTreeMap<u32, Wanted>,
        outcome: &Outcome,
        hold: &Hold,
    ) {
        match &outcome.error {
            Some(error) => self.fail(error),
            None => self.error = None,
        }
        self.count(desired, outcome);
        self.list(desired, outcome, hold);
    }

    /// Nothing could be done; as far as is known, nothing has changed.
    pub(crate) fn take_failure(
        &mut self,
        desired: &BTreeMap<u32, Wanted>,
        error: &AgentError,
        hold: &Hold,
    ) {
        self.fail(error);
        let attached = self.ports.iter().filter(|port| port.attached);
        let unchanged = Outcome {
            attached: attached.map(|port| port.ifindex).collect(),
            ..Outcome::default()
        };
        self.list(desired, &unchanged, hold);
    }

    /// Told once, however often it comes again.
    fn fail(&mut self, error: &impl ToString) {
        let text = error.to_string();
        if self.error.as_ref() != Some(&text) {
            tracing::error!(error = %text, "ports are not as the policy wants them");
        }
        self.counts.failures += 1;
        self.error = Some(text);
    }

    fn count(&mut self, desired: &BTreeMap<u32, Wanted>, outcome: &Outcome) {
        self.counts.attached += outcome.newly_attached.len() as u64;
        self.counts.detached += outcome.newly_detached.len() as u64;
        self.counts.failures += outcome.errors.len() as u64;
        for ifindex in &outcome.newly_attached {
            let port = desired
                .get(ifindex)
                .map_or("", |wanted| wanted.name.as_str());
            tracing::info!(port, ifindex, "attached");
        }
        for ifindex in &outcome.newly_detached {
            let known = self.ports.iter().find(|port| port.ifindex == *ifindex);
            let port = known.map_or("", |port| port.name.as_str());
            tracing::info!(port, ifindex, "detached");
        }
    }

    /// The ports that are desired, as they are now.
    fn list(&mut self, desired: &BTreeMap<u32, Wanted>, outcome: &Outcome, hold: &Hold) {
        let port = |(ifindex, wanted): (&u32, &Wanted)| {
            let error = outcome.errors.get(ifindex).cloned();
            if let Some(error) = &error {
                tracing::error!(
                    port = wanted.name,
                    ifindex,
                    error,
                    "not as the policy wants it"
                );
            }
            PortState {
                ifindex: *ifindex,
                name: wanted.name.clone(),
                matched: wanted.matched.clone(),
                tenant: wanted.tenant.clone(),
                attached: outcome.attached.contains(ifindex),
                held: wanted.held,
                rules: u32::try_from(wanted.rules).unwrap_or(u32::MAX),
                flows_max: wanted.plan.flows_max,
                error,
            }
        };
        self.ports = desired.iter().map(port).collect();
        self.held = hold.names();
        self.given_back = hold.given_back();
    }
}
