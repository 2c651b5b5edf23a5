//! `uc confirm`: a policy that the agent put into force only after an operator has confirmed it.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::agent;

/// Put a policy into force that the agent refused because it detaches many ports.
///
/// A policy that would detach more than a part of the ports (agent.at_most_detached) waits for this,
/// and the one before stays in force. `uc status` names such a policy's checksum.
#[derive(Args)]
pub struct Confirm {
    /// Checksum of the refused policy, as `uc status` prints it
    #[arg(value_name = "CHECKSUM")]
    policy: String,
    /// Socket of the agent to ask, instead of the default path
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Confirm {
    /// Asks the agent.
    pub fn execute(self) -> Result<bool> {
        agent::asked(self.socket).confirm(&self.policy)?;
        outln!("the policy {} is applied to the ports", self.policy);
        Ok(true)
    }
}
