//! `uc agent`: runs the daemon in the foreground.

use anyhow::Result;
use uc_agent::Options;
use uc_client::AgentError;

use crate::host::agent::Agent;

/// Runs the agent until it is told to end. `false`: its policy is invalid, or with `--once` something
/// that the policy wants is not in force.
///
/// # Errors
/// What keeps it from starting.
pub fn agent(arguments: Agent) -> Result<bool> {
    let options = Options {
        config: arguments.config,
        once: arguments.once,
        log: arguments.log,
        swap: arguments.swap,
    };
    match uc_agent::run(&options) {
        // The errors of a policy are an answer, in as many lines as it needs.
        Err(AgentError::Policy(error)) if !error.faults().is_empty() => {
            errln!("{error}");
            Ok(false)
        }
        done => Ok(done?),
    }
}
