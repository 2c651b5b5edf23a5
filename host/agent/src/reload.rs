//! Records the result of reading a policy in the agent's state and its log.

use uc_client::AgentState;
use uc_client::state::{PolicySource, ReloadState, unix_s};
use uc_policy::{Policy, PolicyError};

/// Returns the errors of a policy, one line each.
pub fn faults(error: &PolicyError) -> Vec<String> {
    match error.faults() {
        [] => vec![error.to_string()],
        faults => faults.iter().map(ToString::to_string).collect(),
    }
}

/// Returns the part of the state in which results of reading a policy from this source are recorded.
fn reload_of(source: PolicySource, state: &mut AgentState) -> &mut ReloadState {
    match (source, &mut state.etcd) {
        (PolicySource::Etcd | PolicySource::Kept, Some(etcd)) => &mut etcd.reload,
        _ => &mut state.reload,
    }
}

/// Records that a policy was read and is valid.
pub fn accept(source: PolicySource, place: String, state: &mut AgentState) {
    *reload_of(source, state) = ReloadState {
        at_unix_s: unix_s(),
        place,
        accepted: true,
        errors: Vec::new(),
    };
}

/// Records that a policy was refused. Logs it unless the state has the same errors already.
pub fn refuse(source: PolicySource, place: String, errors: Vec<String>, state: &mut AgentState) {
    let reload = reload_of(source, state);
    let is_news = reload.errors != errors;
    if is_news {
        for error in &errors {
            tracing::error!(place, error, "a policy is refused; the one in force stays");
        }
    }
    *reload = ReloadState {
        at_unix_s: unix_s(),
        place,
        accepted: false,
        errors,
    };
    state.counts.reloads_refused += u64::from(is_news);
}

/// Returns the line number of each rule, indexed by the rule's number. `[defaults]`, which apply after all rules, have
/// number 0.
pub fn rule_lines(policy: &Policy) -> Vec<usize> {
    let (last, rules) = (policy.rules.last(), &policy.rules);
    let named = rules.iter().filter(|rule| rule.number > 0);
    last.into_iter()
        .chain(named)
        .map(|rule| rule.line)
        .collect()
}
