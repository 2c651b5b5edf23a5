//! Writes the results of reconciliations into the agent's state and its log.

use std::collections::BTreeMap;

use uc_client::state::PortState;
use uc_client::{AgentError, AgentState};

use crate::desired::Wanted;
use crate::ports::Outcome;
use crate::withdrawn::Withdrawn;

/// Records the result of a reconciliation in the agent's state and its log.
pub fn take_in(
    state: &mut AgentState,
    desired: &BTreeMap<u32, Wanted>,
    outcome: &Outcome,
    withdrawn: &Withdrawn,
) {
    match &outcome.error {
        Some(error) => fail(state, error),
        None => state.error = None,
    }
    count(state, desired, outcome);
    list(state, desired, outcome, withdrawn);
}

/// Records that a reconciliation failed as a whole: as far as is known, no port has changed.
pub fn take_failure(
    state: &mut AgentState,
    desired: &BTreeMap<u32, Wanted>,
    error: &AgentError,
    withdrawn: &Withdrawn,
) {
    fail(state, error);
    let attached = state.ports.iter().filter(|port| port.attached);
    let unchanged = Outcome {
        attached: attached.map(|port| port.ifindex).collect(),
        ..Outcome::default()
    };
    list(state, desired, &unchanged, withdrawn);
}

/// Records an error that concerns all ports. Logs it unless the last reconciliation had the same error.
fn fail(state: &mut AgentState, error: &impl ToString) {
    let text = error.to_string();
    if state.error.as_ref() != Some(&text) {
        tracing::error!(error = %text, "ports are not as the policy wants them");
    }
    state.counts.failures += 1;
    state.error = Some(text);
}

/// Counts and logs the ports that were attached and detached.
fn count(state: &mut AgentState, desired: &BTreeMap<u32, Wanted>, outcome: &Outcome) {
    state.counts.attached += outcome.newly_attached.len() as u64;
    state.counts.detached += outcome.newly_detached.len() as u64;
    state.counts.failures += outcome.errors.len() as u64;
    for ifindex in &outcome.newly_attached {
        let port = desired
            .get(ifindex)
            .map_or("", |wanted| wanted.name.as_str());
        tracing::info!(port, ifindex, "attached");
    }
    for ifindex in &outcome.newly_detached {
        let port = name(state, *ifindex);
        tracing::info!(port, ifindex, "detached");
    }
}

/// Returns the name by which the agent knows a port; for a port that another agent attached, the interface's name;
/// empty if the interface is gone, too.
fn name(state: &AgentState, ifindex: u32) -> String {
    let known = state.ports.iter().find(|port| port.ifindex == ifindex);
    known.map(|port| port.name.clone()).unwrap_or_else(|| {
        let name = nix::net::if_::if_indextoname(ifindex);
        name.map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    })
}

/// Writes the desired ports into the agent's state, each as it is now.
fn list(
    state: &mut AgentState,
    desired: &BTreeMap<u32, Wanted>,
    outcome: &Outcome,
    withdrawn: &Withdrawn,
) {
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
            withdrawn: wanted.withdrawn,
            rules: u32::try_from(wanted.rules).unwrap_or(u32::MAX),
            flows_max: wanted.plan.flows_max,
            filtered_addresses: wanted.filtered_addresses,
            error,
        }
    };
    state.ports = desired.iter().map(port).collect();
    state.withdrawn = withdrawn.names();
    state.given_back = withdrawn.given_back();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_an_earlier_agent_is_called_as_its_interface() {
        let mut state = AgentState::default();
        assert_eq!(name(&state, 1), "lo");
        assert_eq!(name(&state, u32::MAX), "");
        state.ports.push(PortState {
            name: "web".to_owned(),
            ifindex: 1,
            ..PortState::default()
        });
        assert_eq!(name(&state, 1), "web");
    }
}
