//! `uc agent`: runs the daemon in the foreground.

use anyhow::Result;
use uc_agent::Options;
use uc_client::AgentError;

use crate::agent::{Agent, Part};

/// Runs the agent until it is told to end. Returns false if its policy is invalid, or with `--once`
/// if something that the policy wants is not in force.
pub fn agent(arguments: Agent) -> Result<bool> {
    if let Some(part) = arguments.confined {
        uc_agent::confined(match part {
            Part::Names => uc_agent::Part::Names,
            Part::Metrics => uc_agent::Part::Metrics,
        })?;
        return Ok(true);
    }
    let options = Options {
        config: arguments.config,
        once: arguments.once,
        log: arguments.log,
        swap: arguments.swap,
        laws: arguments.laws,
    };
    match uc_agent::run(&options) {
        // The errors of a policy are an answer, on as many lines as there are errors.
        Err(AgentError::Policy(error)) if !error.faults().is_empty() => {
            errln!("{error}");
            Ok(false)
        }
        done => Ok(done?),
    }
}
