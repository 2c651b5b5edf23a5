//! `uc confirm`: puts a policy into force that the agent holds back until an operator confirms it.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::agent;

/// Put a policy into force that the agent holds back.
///
/// The agent holds back a policy that would detach more ports than agent.at_most_detached allows, and a
/// fleet's policy that its canaries have not tried yet or found worse. The policy before it stays in force
/// until this command. `uc status` prints the checksum of a policy that is held back.
#[derive(Args)]
pub struct Confirm {
    /// Checksum of the policy that is held back, as `uc status` prints it
    #[arg(value_name = "CHECKSUM")]
    policy: String,
    /// Socket of the agent [default: the running agent's, otherwise /run/undercurrent/agent.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Confirm {
    /// Asks the agent to put the policy into force.
    pub fn execute(self) -> Result<bool> {
        agent::asked(self.socket).confirm(&self.policy)?;
        outln!("the policy {} is applied to the ports", self.policy);
        Ok(true)
    }
}
