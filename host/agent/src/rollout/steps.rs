//! The steps of a rollout on this host: a policy that came into force may begin a trial, and a trial
//! that has lasted long enough may end with the policy before it.

use std::time::Instant;

use uc_client::AgentState;
use uc_client::state::CanaryState;

use super::{Rollout, Tally};
use crate::ports::Ports;
use crate::source::Source;

/// Takes the next step, if there is one. Returns whether the former policy is in force again.
pub fn take(
    rollout: &mut Rollout,
    source: &mut Source,
    ports: &Ports,
    state: &mut AgentState,
) -> bool {
    let now = Instant::now();
    let is_behind = rollout.is_behind(state.policy.generation);
    if !is_behind && !rollout.is_due(now) {
        return false;
    }
    match ports.packets() {
        Ok(counters) if is_behind => {
            follow(rollout, source, state, counters, now);
            false
        }
        Ok(counters) => end_trial(rollout, source, state, counters, now),
        Err(error) => {
            tracing::warn!(%error, "the packets of ports can't be counted; trying again");
            false
        }
    }
}

fn follow(
    rollout: &mut Rollout,
    source: &mut Source,
    state: &AgentState,
    counters: Tally,
    now: Instant,
) {
    let former = source.take_former();
    let policy = source.policy();
    let canary = policy.and_then(|policy| policy.canary.as_ref());
    let trial = (canary, state.policy.hash.as_str());
    rollout.follow(state.policy.generation, trial, former, counters, now);
}

fn end_trial(
    rollout: &mut Rollout,
    source: &mut Source,
    state: &mut AgentState,
    counters: Tally,
    now: Instant,
) -> bool {
    let policy = source.policy();
    let canary = policy.and_then(|policy| policy.canary.clone());
    let judged = canary.and_then(|canary| rollout.judge(&canary, counters, now));
    let Some((former, why)) = judged else {
        return false;
    };
    // If this process ends between the two, the next one tries the policy again.
    source.go_back(former, state);
    rollout.say(Some(why));
    true
}

/// Writes the rollout into the agent's state, and logs why a policy is not followed yet.
pub fn publish(rollout: &Rollout, source: &Source, state: &mut AgentState) {
    let newest = source.newest();
    let newest =
        newest.and_then(|newest| Some((newest.policy.canary.as_ref()?, newest.hash.as_str())));
    let canary = rollout.state(newest, &state.policy.hash);
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
