//! The steps of a rollout on this host: a policy comes into force, ports have it, packets are counted, and
//! a trial that has lasted long enough may end with the policy before it.

use std::cell::RefCell;
use std::time::Instant;

use uc_client::AgentState;
use uc_client::state::CanaryState;

use super::{Halt, Next, Rollout};
use crate::ports::Ports;
use crate::source::{Source, Valid};
use crate::stored_policy::Kept;

/// Checks that this host may follow a fleet's policy now. `in_force` is the checksum of the policy in force, `None` if
/// there is none.
pub fn check(rollout: &Rollout, valid: &Valid, in_force: Option<&str>) -> Result<(), Halt> {
    let canary = valid.policy.canary.as_ref();
    canary.map_or(Ok(()), |canary| {
        rollout.check(canary, &valid.hash, in_force)
    })
}

/// Follows a fleet's policy that comes into force. `keep` stores the policy, and returns whether that succeeded.
///
/// # Errors
/// Why the policy must not come into force.
pub fn follow(
    rollout: &RefCell<&mut Rollout>,
    ports: &Ports,
    (valid, former, is_kept): (&Valid, Option<Kept>, bool),
    keep: &mut dyn FnMut() -> bool,
) -> Result<(), String> {
    let counters = ports.packets();
    if let Err(error) = &counters {
        tracing::warn!(%error, "the packets of ports can't be counted");
    }
    let canary = valid.policy.canary.as_ref();
    let mut rollout = rollout.borrow_mut();
    let next = Next {
        hash: &valid.hash,
        is_canary: canary.is_some_and(|canary| rollout.is_canary(canary)),
        former,
        is_kept,
    };
    let followed = rollout.follow(canary, next, counters.as_ref().ok(), Instant::now(), keep);
    followed.map_err(|error| {
        format!("this host must try the policy first, and could not store the trial: {error}")
    })
}

/// Begins counting packets under a fleet's policy, because ports have the policy in force.
pub fn begin(rollout: &mut Rollout, source: &Source, ports: &Ports) {
    if !source.is_fleet() || !rollout.awaits_ports() {
        return;
    }
    let policy = source.policy();
    let canary = policy.and_then(|policy| policy.canary.as_ref());
    match ports.packets() {
        Ok(counters) => rollout.begin(canary, counters, Instant::now()),
        Err(error) => {
            tracing::warn!(%error, "the packets of ports can't be counted; trying again");
        }
    }
}

/// Counts the packets under a fleet's policy in force. First stores that policy if it could not be stored before.
pub fn count(rollout: &mut Rollout, source: &mut Source, ports: &Ports) {
    if source.is_fleet() {
        if source.keep_again() {
            rollout.take_stored();
        }
        // what can't be read now is counted later
        let counters = ports.packets().ok();
        rollout.count(counters.as_ref(), Instant::now());
    }
}

/// Ends a trial that is due. Returns the former policy if this host must return to it.
pub fn end_trial(
    rollout: &mut Rollout,
    source: &Source,
    ports: &Ports,
    state: &AgentState,
) -> Option<Kept> {
    let now = Instant::now();
    let policy = source.policy();
    if let Some(canary) = policy.and_then(|policy| policy.canary.as_ref())
        && rollout.is_due(now)
    {
        match ports.packets() {
            Ok(counters) => rollout.judge(canary, counters, now, failure(state)),
            Err(error) => {
                tracing::warn!(%error, "the packets of ports can't be counted; trying again");
            }
        }
    }
    source.is_fleet().then(|| rollout.goes_back_to()).flatten()
}

/// Returns why ports do not have the policy: an error of all ports, otherwise the first port's error; `None` if there
/// is none.
fn failure(state: &AgentState) -> Option<&str> {
    let of_ports = state.ports.iter().find_map(|port| port.error.as_deref());
    state.error.as_deref().or(of_ports)
}

/// Writes the state of the rollout into the agent's state, and logs why a policy is not followed yet.
pub fn publish(rollout: &Rollout, source: &Source, state: &mut AgentState) {
    let newest = source
        .newest()
        .and_then(|newest| Some((newest.policy.canary.as_ref()?, newest.hash.as_str())));
    let canary = rollout.state(newest, source.hash());
    if let Some(CanaryState {
        hash,
        why: Some(why),
        ..
    }) = &canary
        && canary != state.canary
    {
        tracing::info!(hash, why, "a policy is not followed yet");
    }
    state.canary = canary;
}
