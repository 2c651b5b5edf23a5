//! `uc agent`: the host's daemon in the foreground, and how `uc attach` and `uc detach` get along
//! with one.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use uc_client::Client;

use crate::host::full;

/// Keep every port of this host as the policy wants it.
///
/// Finds the ports that the policy names, attaches them, and follows interfaces that come and go
/// and policies that change, until a signal comes. However it ends, ports stay attached and flows
/// translated; the next agent goes on from there. SIGHUP has it read the policy again, which it also
/// does when the file changes; an invalid one leaves the old one in force.
#[derive(Args)]
pub struct Agent {
    /// The policy file; nobody but its owner may write it
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/undercurrent/undercurrent.toml"
    )]
    pub(super) config: PathBuf,
    /// Attach and detach what has to be, and end
    ///
    /// Exit status 1: something that the policy wants is not in force.
    #[arg(long)]
    pub(super) once: bool,
    /// What is logged, instead of what the file says: a level, or a filter as info,uc_agent=debug
    #[arg(long, value_name = "FILTER")]
    pub(super) log: Option<String>,
    /// Put new programs on the ports even where those on them are this version's
    #[arg(long)]
    pub(super) swap: bool,
}

impl Agent {
    /// Runs it until it is told to end.
    ///
    /// # Errors
    /// In a build without `uc agent`; or what keeps it from starting.
    pub fn execute(self) -> Result<bool> {
        full::agent(self)
    }
}

/// The agent of this host, if one runs.
fn running() -> Option<Client> {
    let client = Client::of_host();
    client.is_there().then_some(client)
}

/// The agent that is asked: the one that listens there, or this host's.
pub fn asked(socket: Option<PathBuf>) -> Client {
    socket.map_or_else(Client::of_host, Client::at)
}

/// Has the agent give these ports up, or all where none is named. `None`: there is no agent.
///
/// # Errors
/// What it says.
pub fn hold(ports: &[String]) -> Result<Option<Vec<String>>> {
    let Some(agent) = running() else {
        return Ok(None);
    };
    Ok(Some(agent.hold(ports)?.ports))
}

/// Has the agent take these ports back, where there is one.
///
/// # Errors
/// Where they are none of its policy's: it would take the programs off again; or where something
/// was to be different from its policy.
pub fn release(ports: &[String], options: &[String]) -> Result<Option<Vec<String>>> {
    let Some(agent) = running() else {
        return Ok(None);
    };
    let status = agent.status()?;
    if !options.is_empty() {
        bail!(
            "an agent keeps this host's ports (process {}) as its policy says, so {} would have no \
             effect: say it in the policy, {}; without options `uc attach` gives ports back to it",
            status.pid,
            options.join(", "),
            status.policy.place
        );
    }
    for name in ports {
        if !status.ports.iter().any(|port| port.name == *name) {
            bail!(
                "an agent keeps this host's ports (process {}) and '{name}' is not in its policy; \
                 name it there",
                status.pid
            );
        }
    }
    Ok(Some(agent.release(ports)?.ports))
}
